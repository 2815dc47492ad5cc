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

static sqlock_error failure(int code, unsigned flags, const char *sqlstate)
{
    sqlock_error err = {.code = code, .flags = flags, .text = "as told"};

    strcpy(err.sqlstate, sqlstate);
    return err;
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

TEST(test_failed_statement_is_undone_and_the_transaction_goes_on)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    s.run = failure(SQLOCK_ETIMEOUT, SQLOCK_RETRY | SQLOCK_MAYBE, "57014");
    s.after_run = SQLOCK_TX_FAILED;
    assert_int_equal(ask(&err), SQLOCK_ETIMEOUT);
    assert_string_equal(s.calls, "sru");
    assert_int_equal(err.flags, SQLOCK_RETRY); /* nothing is unsure before the commit */
}

/* A deadline that passes before the statement is sent leaves the transaction as it was: with a
 * savepoint of ours in it, were it not undone. */
TEST(test_statement_that_was_not_sent_leaves_no_savepoint)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    s.run = failure(SQLOCK_ETIMEOUT, SQLOCK_RETRY, "");
    assert_int_equal(ask(&err), SQLOCK_ETIMEOUT);
    assert_string_equal(s.calls, "sru");
}

TEST(test_release_that_fails_is_undone)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    s.release = failure(SQLOCK_ETIMEOUT, SQLOCK_RETRY, "");
    assert_int_equal(ask(&err), SQLOCK_ETIMEOUT);
    assert_string_equal(s.calls, "srku");
}

TEST(test_savepoint_that_cannot_be_set_asks_nothing)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    s.set = failure(SQLOCK_ETIMEOUT, SQLOCK_RETRY, "");
    assert_int_equal(ask(&err), SQLOCK_ETIMEOUT);
    assert_string_equal(s.calls, "s");
}

TEST(test_undo_that_fails_asks_for_a_restart)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    s.run = failure(SQLOCK_EDB, 0, "42P01");
    s.undo = failure(SQLOCK_ETIMEOUT, 0, "");
    s.after_run = s.after_undo = SQLOCK_TX_FAILED;
    assert_int_equal(ask(&err), SQLOCK_ETXRESTART);
    assert_string_equal(err.sqlstate, "42P01"); /* the first error is told */
}

TEST(test_serialization_failure_asks_for_a_restart)
{
    const char *const states[] = {"40001", "40P01"};
    sqlock_error err;

    for (size_t i = 0; i < 2; i++) {
        begin(SQLOCK_ADOPT_SPOILS);
        s.run = failure(SQLOCK_EDB, SQLOCK_RETRY, states[i]);
        s.after_run = SQLOCK_TX_FAILED;
        assert_int_equal(ask(&err), SQLOCK_ETXRESTART);
        assert_string_equal(s.calls, "sru");
    }
}

TEST(test_transaction_that_the_database_ended_is_gone)
{
    sqlock_error err;

    begin(0);
    s.run = failure(SQLOCK_EDB, SQLOCK_RETRY, "40001");
    s.after_run = SQLOCK_TX_IDLE;
    assert_int_equal(ask(&err), SQLOCK_ETXGONE);
    assert_int_equal(err.flags, SQLOCK_RETRY);
}

TEST(test_lost_link_takes_the_transaction_along)
{
    sqlock_error err;

    begin(SQLOCK_ADOPT_SPOILS);
    s.run = failure(SQLOCK_EUNREACH, SQLOCK_RECONNECT | SQLOCK_MAYBE, "08006");
    s.after_run = SQLOCK_TX_UNKNOWN;
    assert_int_equal(ask(&err), SQLOCK_ETXGONE);
    assert_int_equal(err.flags, SQLOCK_RECONNECT | SQLOCK_RETRY);
    assert_string_equal(s.calls, "sr"); /* nothing more is said on it */

    begin(SQLOCK_ADOPT_SPOILS);
    s.after_run = SQLOCK_TX_UNKNOWN; /* it went between the answer and the release */
    assert_int_equal(ask(&err), SQLOCK_ETXGONE);
    assert_int_equal(err.flags, SQLOCK_RECONNECT | SQLOCK_RETRY);
    assert_string_equal(s.calls, "sr");

    begin(0); /* the driver does not say so, but nobody knows what the link is in the middle of */
    s.run = failure(SQLOCK_EDB, 0, "XX000");
    s.after_run = SQLOCK_TX_UNKNOWN;
    assert_int_equal(ask(&err), SQLOCK_ETXGONE);
    assert_int_equal(err.flags, SQLOCK_RECONNECT | SQLOCK_RETRY);
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
