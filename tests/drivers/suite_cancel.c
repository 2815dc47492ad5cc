/* A cancel ends one call, by its number; and a call that pauses goes on, on whatever thread: by the
 * driver's own slots, on a connection of ours that waits for a row of the application's. */
#include <sqlock/driver.h>

#define SUITE_NEEDS ADOPTION
#include "tests/drivers/suite_in_transaction.h"

enum { WRITES = SQLOCK_STMT_WITHDRAW };

static struct {
    void *conn;
    char sql[200];
} own;

struct job {
    uint64_t number;
    unsigned flags;
    int64_t deadline;
    int code;
    sqlock_error err;
};

static void close_own(void)
{
    g.driver->close(own.conn);
}

/* A connection of ours, whose only request adds 100 to row 1. */
static void begin_own(struct world *w)
{
    sqlock_conn_opts o = {.size = sizeof o,
                          .url = w->place.url,
                          .connect = w->place.connect,
                          .connect_user = w->place.connect_user,
                          .scripts = g.scripts,
                          .wake_fd = -1};

    begin_app(w);
    snprintf(own.sql, sizeof own.sql, "UPDATE %s%sapp_row SET n = n + 100 WHERE id = 1",
             w->place.schema ? w->place.schema : "", w->place.schema ? "." : "");
    g.step = (sqlock_step){.sql = own.sql, .flags = SQLOCK_STEP_WRITE};
    g.scripts[WRITES] =
        (sqlock_script){.name = "test", .params = "", .n_steps = 1, .steps = &g.step};
    ok(g.driver->open(&o, soon(), &own.conn, &said));
    at_end(w, close_own);
}

static void *job_main(void *arg)
{
    struct job *j = arg;
    sqlock_call call = {sizeof call, j->flags, j->number, NULL, 0};

    j->err = (sqlock_error){.code = 0};
    j->code =
        g.driver->run(own.conn, &call, (sqlock_stmt)WRITES, NULL, 1, j->deadline, g.rows, &j->err);
    return NULL;
}

static int run_job(struct job *j)
{
    job_main(j);
    said = j->err;
    return j->code;
}

static int run_call(uint64_t number)
{
    return run_job(&(struct job){.number = number, .deadline = soon()});
}

static void lock_the_row(void)
{
    app_exec(g.app, g.side->begins[0], "UPDATE app_row SET n = 11 WHERE id = 1");
}

static bool is_open_after(const sqlock_error *err)
{
    return !(err->flags & SQLOCK_RECONNECT);
}

/* ---- numbers --------------------------------------------------------------------------------- */

TEST_AFTER(begin_own, test_cancel_of_another_call_changes_nothing)
{
    ok(run_call(1));
    g.driver->cancel(own.conn, 1); /* it has ended */
    ok(run_call(2));
    g.driver->cancel(own.conn, 4); /* the one after the next */
    ok(run_call(3));
    says(SQLOCK_ECANCELLED, run_call(4));
    assert_true(is_open_after(&said)); /* it was not sent */
    assert_int_equal(said.flags & SQLOCK_MAYBE, 0);
    ok(run_call(5));
    assert_int_equal(seen_by(g.app), 10 + 4 * 100);
}

TEST_AFTER(begin_own, test_stale_cancel_does_not_end_the_call_that_is_under_way)
{
    struct job j = {.number = 2, .deadline = soon()};
    pthread_t thread;

    ok(run_call(1));
    lock_the_row();
    assert_int_equal(pthread_create(&thread, NULL, job_main, &j), 0);
    for (int i = 0; i < 20; i++, sleep_ms(10))
        g.driver->cancel(own.conn, 1);
    app_exec(g.app, "COMMIT");
    pthread_join(thread, NULL);
    assert_code(SQLOCK_OK, j.code, &j.err);
    assert_int_equal(seen_by(g.app), 111);
}

/* A connection that is used again has nothing left of the call. On a server the answer may still
 * come. */
TEST_AFTER(begin_own, test_cancel_ends_its_call_and_the_connection_is_closed_or_clean)
{
    struct job j = {.number = 1, .deadline = soon()};
    pthread_t thread;
    int64_t fired;

    lock_the_row();
    assert_int_equal(pthread_create(&thread, NULL, job_main, &j), 0);
    sleep_ms(patience_ms(100));
    fired = now_us();
    g.driver->cancel(own.conn, 1);
    pthread_join(thread, NULL);
    assert_between(0, now_us() - fired, late_ms(100) * INT64_C(1000));
    assert_code(SQLOCK_ECANCELLED, j.code, &j.err);
    app_exec(g.app, "COMMIT");
    if (!is_open_after(&j.err)) {
        assert_true(j.err.flags & SQLOCK_MAYBE);
        return;
    }
    assert_int_equal(j.err.flags & SQLOCK_MAYBE, 0);
    assert_true(g.driver->caps & SQLOCK_CAP_ONE_WRITER); /* no server */
    ok(run_call(2));
    assert_int_equal(seen_by(g.app), 111);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static bool pauses(void)
{
    return (g.driver->caps & SQLOCK_CAP_PAUSES) != 0;
}

static int64_t in_ms(int64_t ms)
{
    return sqlock_now_us() + ms * 1000;
}

/* It is made once, however often it pauses, and by whichever threads. */
TEST_AFTER(begin_own, test_call_that_pauses_goes_on_on_another_thread)
{
    struct job j = {1, SQLOCK_CALL_PAUSES, in_ms(100), 0, {0}};
    pthread_t thread;

    if (!pauses())
        return;
    lock_the_row();
    assert_int_equal(run_job(&j), SQLOCK_NOT_YET);
    assert_true(sqlock_now_us() >= j.deadline);
    j = (struct job){2, SQLOCK_CALL_PAUSES, soon(), 0, {0}};
    assert_int_equal(pthread_create(&thread, NULL, job_main, &j), 0);
    g.driver->cancel(own.conn, 1); /* that one has paused: nothing of it is left to end */
    sleep_ms(50);
    g.driver->cancel(own.conn, 2);
    pthread_join(thread, NULL);
    assert_int_equal(j.code, SQLOCK_NOT_YET);
    app_exec(g.app, "COMMIT");
    ok(run_job(&(struct job){3, SQLOCK_CALL_PAUSES, soon(), 0, {0}}));
    assert_int_equal(seen_by(g.app), 111);
    ok(run_call(4));
    assert_int_equal(seen_by(g.app), 211);
}

static void cancel_first(void *unused)
{
    (void)unused;
    g.driver->cancel(own.conn, 1);
}

/* Called once more without the flag, it is as if it had never paused. */
TEST_AFTER(begin_own, test_call_that_paused_ends_by_its_cancel)
{
    struct job j = {1, SQLOCK_CALL_PAUSES, soon(), 0, {0}};

    if (!pauses())
        return;
    lock_the_row();
    do_later(100, cancel_first, NULL);
    assert_int_equal(run_job(&j), SQLOCK_NOT_YET);
    await_later();
    j.flags = 0;
    assert_takes(0, late_ms(50), run_job(&j));
    app_exec(g.app, "COMMIT");
    assert_code(SQLOCK_ECANCELLED, j.code, &j.err);
    if (is_open_after(&j.err))
        ok(run_call(2));
}

TEST_AFTER(begin_own, test_call_that_paused_ends_at_its_deadline)
{
    struct job j = {1, SQLOCK_CALL_PAUSES, in_ms(100), 0, {0}};

    if (!pauses())
        return;
    lock_the_row();
    assert_int_equal(run_job(&j), SQLOCK_NOT_YET);
    j.flags = 0;
    assert_takes(0, late_ms(50), run_job(&j));
    app_exec(g.app, "COMMIT");
    if (g.driver->caps & SQLOCK_CAP_ONE_WRITER) { /* the file was locked, and nothing was sent */
        assert_int_equal(j.err.flags, SQLOCK_RETRY);
        assert_int_equal(seen_by(g.app), 11);
        ok(run_call(2));
        return;
    }
    assert_code(SQLOCK_ETIMEOUT, j.code, &j.err);
    assert_int_equal(j.err.flags, SQLOCK_RECONNECT | SQLOCK_MAYBE);
}
