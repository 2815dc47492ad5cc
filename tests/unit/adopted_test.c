/* What becomes of the application's transaction when something fails on its connection: a driver
 * that fails as it is told, and what the engine makes of it. */
#include <string.h>

#include "core/transaction/adopted.h"
#include "tests/lib/check.h"

/* What the driver does next, and what it was asked to do: 's' set, 'r' run, 'k' release, 'u' undo,
 * 'c' cancel, 'f' forget: what cannot be sent any more. */
static struct script {
    sqlock_error set, run, release, undo; /* code 0: it succeeds */
    sqlock_tx_state after_run, after_release, after_undo;
    sqlock_tx_state state;
    char calls[16];
    int64_t release_deadline;
} s;

static int end(const sqlock_error *how, sqlock_error *err)
{
    if (how->code != 0)
        *err = *how;
    return how->code;
}

static void called(char what)
{
    size_t n = strlen(s.calls);

    assert_true(n + 1 < sizeof s.calls);
    s.calls[n] = what;
}

static int point(void *conn, sqlock_savepoint what, int64_t deadline, sqlock_error *err)
{
    (void)conn;
    called(what == SQLOCK_SAVEPOINT_SET ? 's' : what == SQLOCK_SAVEPOINT_RELEASE ? 'k' : 'u');
    if (what == SQLOCK_SAVEPOINT_SET)
        return end(&s.set, err);
    if (what == SQLOCK_SAVEPOINT_RELEASE) {
        s.release_deadline = deadline;
        s.state = s.after_release;
        return end(&s.release, err);
    }
    s.state = s.after_undo;
    return end(&s.undo, err);
}

static int run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
               sqlock_rows *rows, sqlock_error *err)
{
    (void)conn, (void)stmt, (void)values, (void)deadline, (void)rows;
    called('r');
    s.state = s.after_run;
    return end(&s.run, err);
}

static void cancel(void *native)
{
    (void)native;
    called('c');
}

static int run_script(void *native, const sqlock_script *script, const sqlock_value *values,
                      int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    (void)native, (void)script, (void)values, (void)rows, (void)err;
    called(deadline < sqlock_now_us() ? 'f' : 'r');
    return 0;
}

static sqlock_tx_state state_now(void *conn)
{
    (void)conn;
    return s.state;
}

static const sqlock_step steps[] = {{"SELECT", NULL, 0, 0}};
static sqlock_script scripts[SQLOCK_STMT_COUNT];
static const sqlock_dialect dialect = {
    .size = sizeof dialect,
    .name = "test",
    .quote = '"',
    .default_schema = "",
    .scripts = scripts,
    .n_scripts = SQLOCK_STMT_COUNT,
};
static sqlock_driver table;
static sqlock_adopter adopter;
static sqlock m;
static sqlock_conn conn;

static int begin(unsigned flags)
{
    memset(&s, 0, sizeof s);
    s.state = s.after_run = s.after_release = s.after_undo = SQLOCK_TX_ACTIVE;
    for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++)
        scripts[i] = (sqlock_script){.name = "x", .params = "", .n_steps = 1, .steps = steps};
    adopter = (sqlock_adopter){.flags = flags,
                               .run = run,
                               .savepoint = point,
                               .tx_state = state_now,
                               .cancel = cancel,
                               .run_script = run_script};
    table = (sqlock_driver){.adopter = &adopter};
    memset(&m, 0, sizeof m);
    m.driver = &table;
    m.request_us = 1000000;
    conn = (sqlock_conn){.m = &m, .process = sqlock_process_id()};
    if (texts_render(&dialect, NULL, NULL, &m.texts, NULL) != 0)
        return -1;
    conn.texts = m.texts;
    return 0;
}

static int ask(sqlock_error *err)
{
    struct answer a;
    int rc;

    memset(err, 0, sizeof *err);
    rc = adopted_run(&conn, SQLOCK_STMT_GUARD, NULL, sqlock_now_us() + 1000, &a, err);
    texts_free(m.texts);
    assert_int_equal(rc, err->code);
    return rc;
}

TEST(test_statement_stands_behind_a_savepoint_where_failures_spoil)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    assert_int_equal(ask(&err), 0);
    assert_string_equal(s.calls, "srk");
    assert_true(s.release_deadline > sqlock_now_us() + 500000); /* time of its own */
    begin(0);
    assert_int_equal(ask(&err), 0);
    assert_string_equal(s.calls, "r");
}

/* What fails, how it leaves the transaction, and what comes of it: no doubt before the commit. */
#define FAILS(code, flags, sqlstate)                                                               \
    {                                                                                              \
        code, flags, 0, sqlstate, ""                                                               \
    }
#define SPOILS SQLOCK_ADOPT_SPOILS
static const struct failing {
    const char *what;
    unsigned adopter;
    sqlock_error set, run, release, undo;
    sqlock_tx_state left;
    int code;
    unsigned flags;
    const char *calls;
} failing[] = {
    {"a failed statement is undone, and the transaction goes on", SPOILS,
     .run = FAILS(SQLOCK_ETIMEOUT, SQLOCK_RETRY | SQLOCK_MAYBE, "57014"), .left = SQLOCK_TX_FAILED,
     .code = SQLOCK_ETIMEOUT, .flags = SQLOCK_RETRY, .calls = "sru"},
    {"a statement that was not sent leaves no savepoint", SPOILS,
     .run = FAILS(SQLOCK_ETIMEOUT, SQLOCK_RETRY, ""), .left = SQLOCK_TX_ACTIVE,
     .code = SQLOCK_ETIMEOUT, .flags = SQLOCK_RETRY, .calls = "sru"},
    {"a release that fails is undone", SPOILS, .release = FAILS(SQLOCK_ETIMEOUT, SQLOCK_RETRY, ""),
     .left = SQLOCK_TX_ACTIVE, .code = SQLOCK_ETIMEOUT, .flags = SQLOCK_RETRY, .calls = "srku"},
    {"behind a savepoint that cannot be set nothing is asked", SPOILS,
     .set = FAILS(SQLOCK_ETIMEOUT, SQLOCK_RETRY, ""), .left = SQLOCK_TX_ACTIVE,
     .code = SQLOCK_ETIMEOUT, .flags = SQLOCK_RETRY, .calls = "s"},
    {"an undo that fails asks for a restart, and the first error is told", SPOILS,
     .run = FAILS(SQLOCK_EDB, 0, "42P01"), .undo = FAILS(SQLOCK_ETIMEOUT, 0, ""),
     .left = SQLOCK_TX_FAILED, .code = SQLOCK_ETXRESTART, .flags = SQLOCK_RETRY, .calls = "sru"},
    {"a serialization failure asks for a restart", SPOILS,
     .run = FAILS(SQLOCK_EDB, SQLOCK_RETRY, "40001"), .left = SQLOCK_TX_FAILED,
     .code = SQLOCK_ETXRESTART, .flags = SQLOCK_RETRY, .calls = "sru"},
    {"a deadlock asks for a restart", SPOILS, .run = FAILS(SQLOCK_EDB, SQLOCK_RETRY, "40P01"),
     .left = SQLOCK_TX_FAILED, .code = SQLOCK_ETXRESTART, .flags = SQLOCK_RETRY, .calls = "sru"},
    {"a transaction that the database ended is gone", 0,
     .run = FAILS(SQLOCK_EDB, SQLOCK_RETRY, "40001"), .left = SQLOCK_TX_IDLE,
     .code = SQLOCK_ETXGONE, .flags = SQLOCK_RETRY, .calls = "r"},
    {"a lost link takes the transaction along, and nothing more is said on it", SPOILS,
     .run = FAILS(SQLOCK_EUNREACH, SQLOCK_RECONNECT | SQLOCK_MAYBE, "08006"),
     .left = SQLOCK_TX_UNKNOWN, .code = SQLOCK_ETXGONE, .flags = SQLOCK_RECONNECT | SQLOCK_RETRY,
     .calls = "sr"},
    {"a link that goes between the answer and the release does too", SPOILS,
     .left = SQLOCK_TX_UNKNOWN, .code = SQLOCK_ETXGONE, .flags = SQLOCK_RECONNECT | SQLOCK_RETRY,
     .calls = "sr"},
    {"and one of which nobody knows what it is in the middle of", 0,
     .run = FAILS(SQLOCK_EDB, 0, "XX000"), .left = SQLOCK_TX_UNKNOWN, .code = SQLOCK_ETXGONE,
     .flags = SQLOCK_RECONNECT | SQLOCK_RETRY, .calls = "r"},
};

TEST(test_failure_becomes_what_the_application_has_to_do)
{
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        const struct failing *f = &failing[i];
        sqlock_error err;

        begin(f->adopter);
        s.set = f->set;
        s.run = f->run;
        s.release = f->release;
        s.undo = f->undo;
        s.after_run = f->left;
        if (f->undo.code != 0)
            s.after_undo = f->left;
        ask(&err);
        if (err.code != f->code || err.flags != f->flags || strcmp(s.calls, f->calls) != 0 ||
            strcmp(err.sqlstate, f->run.sqlstate) != 0)
            fail_msg("%s: %s, flags 0x%x, \"%s\", %s", f->what, sqlock_code_name(err.code),
                     err.flags, err.sqlstate, s.calls);
    }
}

/* The answer has come, then the cancel, then the call ends. The driver would keep the cancel for
 * what is asked next, which is another call. */
TEST(test_cancel_that_came_behind_the_answer_is_forgotten)
{
    sqlock_cancel *by = NULL;
    sqlock_error err;

    begin(0);
    assert_ok(sqlock_cancel_new(&by, &err), &err);
    adopted_listen(&conn, by);
    adopted_unlisten(&conn, NULL);
    assert_string_equal(s.calls, ""); /* it was not fired: nothing is to be forgotten */
    adopted_listen(&conn, by);
    assert_int_equal(ask(&err), 0);
    assert_int_equal(adopted_was_cancelled(&conn, &err), 0);
    sqlock_cancel_fire(by);
    assert_code(SQLOCK_ECANCELLED, adopted_was_cancelled(&conn, &err), &err);
    adopted_unlisten(&conn, NULL);
    assert_int_equal(adopted_was_cancelled(&conn, &err), 0);
    sqlock_cancel_fire(by); /* nobody listens any more */
    assert_string_equal(s.calls, "rcf");
    sqlock_cancel_free(by);
}

TEST_MAIN_EACH(NULL, NULL)
