/* Managers without threads: requests that are under way at the same time, and end together or not.
 */
#include "tests/drivers/suite_stepped.h"

enum { MANY = 400 };

TEST_IF(LEISURE, test_many_requests_of_a_loop_are_under_way_at_once)
{
    sqlock_op *ops[MANY];
    sqlock_lock *locks[MANY];
    char name[20];

    loop_opened(w);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "job %d", i);
        ops[i] = loop_start(name, patience_ms(20000), 60000, 0);
    }
    for (int i = 0; i < MANY; i++) {
        locks[i] = NULL;
        ok(loop_finish(ops[i], &locks[i]));
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(sqlock_is_held(locks[i]));
        ok(sqlock_release_start(locks[i], &ops[i], &said));
    }
    for (int i = 0; i < MANY; i++) {
        ok(loop_finish(ops[i], NULL));
        sqlock_lock_free(locks[i]);
    }
}

/* Cancelled, it is done at once, without a step. */
TEST(test_loop_cancels_a_wait)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_lock *busy = take(other, "busy"), *none = NULL;
    sqlock_op *op;
    int rc;

    loop_opened(w);
    op = loop_start("busy", SQLOCK_WAIT_FOREVER, 0, 0);
    loop_turn_for(200);
    assert_int_equal(sqlock_op_step(op), 0);
    sqlock_op_cancel(op);
    rc = loop_finish(op, &none);
    if (rc != SQLOCK_EUNSURE) {
        says(SQLOCK_ECANCELLED, rc);
        assert_null(none);
    }
    sqlock_lock_free(none);
    give(busy);
}

static atomic_int hangs;

/* The server does not answer acquires. */
static int run_that_hangs(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                          const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                          sqlock_error *err)
{
    if (stmt != SQLOCK_STMT_ACQUIRE || !atomic_load(&hangs))
        return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    while (atomic_load(&hangs) && sqlock_now_us() < deadline)
        sqlock_wait_fd(-1, 0, -1, sqlock_now_us() + 10000);
    return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_MAYBE | SQLOCK_RECONNECT, "it hangs");
}

/* It answers them late. */
static int run_that_is_late(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                            const sqlock_value *values, size_t n, int64_t deadline,
                            sqlock_rows *rows, sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    while (stmt == SQLOCK_STMT_ACQUIRE && atomic_load(&hangs) && sqlock_now_us() < deadline)
        sqlock_wait_fd(-1, 0, -1, sqlock_now_us() + 10000);
    return rc;
}

/* A manager over a driver with such a run(). */
static void loop_opened_with(struct world *w, int (*run)(void *, const sqlock_call *, sqlock_stmt,
                                                         const sqlock_value *, size_t, int64_t,
                                                         sqlock_rows *, sqlock_error *))
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_op *op = NULL;

    place_opts(w, &o);
    w->driver.run = run;
    w->driver.caps &= ~SQLOCK_CAP_GROUPS; /* it looks at the first kind alone */
    atomic_store(&hangs, 0);
    ok(sqlock_open_start(&w->driver, w->place.url, &o, &loop, &op, &said));
    at_end(w, loop_close);
    ok(loop_finish(op, NULL));
}

/* a and b wait for the connection, whose answer to x comes after b's cancel. What a's batch would
 * take along for b would be granted to no one. */
TEST(test_request_of_a_loop_that_was_cancelled_is_not_sent_with_others)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_op *x, *a, *b;
    sqlock_lock *lock = NULL;

    loop_opened_with(w, run_that_is_late);
    for (const char *name = "x\0a\0b\0"; *name != '\0'; name += 2) /* with rows and connections */
        ok(sqlock_release(loop_grant(name, 60000, 0), &said));
    atomic_store(&hangs, 1);
    x = loop_start("x", 0, 60000, 0);
    assert_int_equal(sqlock_loop_step(loop), 0); /* it goes alone */
    a = loop_start("a", patience_ms(10000), 60000, 0);
    b = loop_start("b", patience_ms(10000), 60000, 0);
    assert_int_equal(sqlock_loop_step(loop), 0);
    assert_int_equal(sqlock_op_step(b), 0);
    sqlock_op_cancel(b);
    atomic_store(&hangs, 0);
    sleep_ms(50);
    says(SQLOCK_ECANCELLED, loop_finish(b, &lock));
    assert_null(lock);
    ok(loop_finish(x, &lock));
    sqlock_lock_free(lock);
    lock = NULL;
    ok(loop_finish(a, &lock));
    sqlock_lock_free(lock);
    assert_true(is_free(other, "b"));
}

enum { WAITING = 300 }; /* more than there are coroutines for waits */

/* They have all coroutines but those that are left for what ends, renews or settles a grant. */
TEST_IF(LEISURE, test_release_of_a_loop_does_not_starve_behind_waits)
{
    sqlock_op *ops[WAITING], *op = NULL;
    sqlock_lock *lock, *none = NULL;

    loop_opened_with(w, run_that_hangs);
    lock = loop_grant("nightly", 60000, 0);
    atomic_store(&hangs, 1);
    for (int i = 0; i < WAITING; i++)
        ops[i] = loop_start("busy", patience_ms(10000), 0, SQLOCK_NO_RENEW);
    loop_turn_for(50);
    ok(sqlock_release_start(lock, &op, &said));
    assert_takes(0, patience_ms(1500), ok(loop_finish(op, NULL)));
    atomic_store(&hangs, 0);
    for (int i = 0; i < WAITING; i++)
        sqlock_op_cancel(ops[i]);
    for (int i = 0; i < WAITING; i++) {
        assert_int_not_equal(loop_finish(ops[i], &none), 0);
        sqlock_lock_free(none);
        none = NULL;
    }
}

TEST(test_close_ends_what_a_loop_has_under_way)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_lock *busy = take(other, "busy"), *lock, *unsure = NULL;
    sqlock_op *ops[3];

    loop_opened(w);
    lock = loop_grant("nightly", 60000, 0);
    for (int i = 0; i < 3; i++)
        ops[i] = loop_start("busy", SQLOCK_WAIT_FOREVER, 0, 0);
    loop_turn_for(50);
    assert_takes(0, late_ms(500), sqlock_close(loop));
    loop = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sqlock_op_step(ops[i]), 1);
        assert_int_not_equal(sqlock_op_finish(ops[i], &unsure, &said), 0);
        sqlock_lock_free(unsure);
    }
    assert_lost(lock, SQLOCK_WHY_CLOSED);
    give(busy);
}
