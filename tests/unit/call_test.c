/* One request over one connection, and how it is judged. The driver is a few lines of this file. */
#include <string.h>

#include "core/engine/call.h"
#include "core/sql/requests.h"
#include "tests/lib/check.h"

/* What the driver does next. */
static struct {
    int moves;  /* another connection meets another server meanwhile */
    int rows;   /* so many rows come */
    int code;   /* with which it fails; 0: it succeeds */
    int silent; /* ... without a word */
    int runs;
} s;

static sqlock m;
static struct conn c;
static sqlock_rows *rows;

static int run(void *conn, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
               size_t n, int64_t deadline, sqlock_rows *out, sqlock_error *err)
{
    (void)conn, (void)number, (void)stmt, (void)values, (void)n, (void)deadline;
    s.runs++;
    m.server += s.moves;
    for (int i = 0; i < s.rows; i++)
        if (sqlock_rows_add(out, (size_t)i) != 0 || sqlock_rows_put_int(out, i) != 0 ||
            sqlock_rows_put_int(out, SQLOCK_OUT_DONE) != 0)
            return SQLOCK_ENOMEM;
    if (s.code == 0 || s.silent)
        return s.code;
    return sqlock_error_set(err, s.code, SQLOCK_RECONNECT, "failed");
}

static const sqlock_step steps[] = {{"SELECT", NULL, 0, 0}};
static sqlock_script scripts[SQLOCK_STMT_COUNT];
static sqlock_dialect dialect = {
    .size = sizeof dialect, .name = "test", .quote = '"', .default_schema = "", .scripts = scripts};
static sqlock_driver table = {.run = run};

static void begin(void)
{
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++)
        scripts[i] = (sqlock_script){.name = "x", .params = "", .n_steps = 1, .steps = steps};
    dialect.n_scripts = SQLOCK_STMT_COUNT;
    memset(&m, 0, sizeof m);
    m.driver = &table;
    m.request_us = 1000000;
    m.n_hosts = 1;
    m.server = 1;
    mutex_init(&m.mu);
    c = (struct conn){.native = &s, .busy = 1, .wake = -1, .server = 1, .until = TIME_NEVER};
    rows = rows_new();
    assert_non_null(rows);
}

static int call(sqlock_stmt stmt, sqlock_error *err)
{
    int64_t sent = 0;
    int rc;

    memset(err, 0, sizeof *err);
    if (texts_render(&dialect, NULL, NULL, &m.texts, NULL) != 0)
        fail();
    rc = call_rows(&m, &c, NULL, stmt, NULL, 1, sqlock_now_us() + 1000000, rows, &sent, err);
    texts_free(m.texts);
    assert_false(c.running);
    assert_int_equal(rc, err->code);
    assert_true(s.runs == 0 || sent > 0);
    return rc;
}

static void end(void)
{
    rows_free(rows);
    mutex_free(&m.mu);
}

TEST(test_answer_of_a_server_that_was_replaced_counts_only_if_the_next_one_must_know_it)
{
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        sqlock_stmt stmt = (sqlock_stmt)i;
        int forgotten = request_is(stmt, SQLOCK_REQ_FORGOTTEN);
        sqlock_error err;

        begin();
        s.moves = s.rows = 1;
        assert_int_equal(call(stmt, &err), forgotten ? SQLOCK_EUNREACH : 0);
        assert_int_equal(err.flags,
                         forgotten ? SQLOCK_RETRY | SQLOCK_RECONNECT | request_doubt(stmt) : 0);
        assert_int_equal(sqlock_rows_count(rows), !forgotten);
        end();
    }
}

TEST(test_failure_without_a_reason_leaves_a_doubt_unless_the_request_leaves_none)
{
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        sqlock_error err;

        begin();
        s.code = SQLOCK_EDB;
        s.silent = 1;
        call((sqlock_stmt)i, &err);
        assert_int_equal(err.flags, SQLOCK_RECONNECT | request_doubt((sqlock_stmt)i));
        end();
    }
}

TEST(test_answers_before_a_failure_count_where_each_request_counts)
{
    sqlock_error err;

    begin();
    s.rows = 2;
    s.code = SQLOCK_EUNREACH;
    call(SQLOCK_STMT_RENEW, &err);
    assert_int_equal(sqlock_rows_count(rows), 2);
    call(SQLOCK_STMT_ACQUIRE, &err);
    assert_int_equal(sqlock_rows_count(rows), 0);
    end();
}

TEST(test_call_that_is_late_may_be_tried_again)
{
    sqlock_error err;

    begin();
    s.code = SQLOCK_ETIMEOUT;
    call(SQLOCK_STMT_LIST, &err);
    assert_int_equal(err.flags, SQLOCK_RETRY | SQLOCK_RECONNECT);
    end();
}

TEST(test_request_that_the_driver_lacks_or_a_closed_manager_sends_nothing)
{
    sqlock_error err;

    begin();
    dialect.n_scripts = SQLOCK_STMT_LEASE;
    assert_int_equal(call(SQLOCK_STMT_LEASE, &err), SQLOCK_EREFUSED);
    m.stopping = 1;
    assert_int_equal(call(SQLOCK_STMT_LIST, &err), SQLOCK_ECANCELLED);
    assert_int_equal(s.runs, 0);
    end();
}

TEST_MAIN_EACH(NULL, NULL)
