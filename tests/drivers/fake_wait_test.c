/* P8 on the fake driver: how a wait ends for a lock that is simply held. */
#include <pthread.h>
#include <string.h>

#include "tests/drivers/fake_network.h"

/* P8: the room that is left for the last try is that of the answers as they are now. */
static void test_one_slow_answer_does_not_end_a_wait_early(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_acquire_opts o = wait_opts(2000, 0, SQLOCK_NO_RENEW);
    sqlock_error err = {0};
    int64_t begun = now_us();

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 700);
    assert_code(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &err), &err);
    assert_between(1950000, now_us() - begun, INT64_MAX);
    give(lock);
}

/* Each answer takes a tenth of a second. The wait ends when its time is over, and has been told of
 * the holder: a try that would be answered later than that is not made. */
static void test_try_that_cannot_be_answered_in_time_is_not_made(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
    sqlock_holder h = {.size = sizeof h};
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_error err = {0};

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, ALWAYS, 100);
    o.holder = &h;
    for (o.wait_ms = 200; o.wait_ms < 500; o.wait_ms += 50) {
        int64_t begun = now_us();

        h.token = 0;
        assert_code(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &err), &err);
        assert_between((o.wait_ms - 2) * INT64_C(1000), now_us() - begun,
                       (o.wait_ms + late_ms(100)) * INT64_C(1000));
        assert_int_equal(h.token, sqlock_lock_token(lock));
    }
    give(lock);
}

/* The driver, with rows that some transaction has locked: acquires step over them. */
static struct {
    sqlock_driver table;
    const sqlock_driver *real;
    int32_t ms; /* that each answer takes */
} locked;

static int run_locked(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                      int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    if (stmt != SQLOCK_STMT_ACQUIRE && stmt != SQLOCK_STMT_GUARDED)
        return locked.real->run(conn, stmt, values, n, deadline, rows, err);
    sleep_ms(locked.ms);
    return sqlock_rows_add(rows, 0) != 0 || sqlock_rows_put_int(rows, 0) != 0 ||
                   sqlock_rows_put_int(rows, SQLOCK_OUT_SKIPPED) != 0
               ? SQLOCK_ENOMEM
               : 0;
}

/* By whom nobody can see; but also that is an answer when time is up. */
static void test_wait_for_a_row_that_is_locked_ends_as_busy(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock_error err = {0};
    sqlock_lock *none = NULL;
    sqlock *m = NULL;

    locked.real = spied_driver();
    locked.table = *locked.real;
    locked.table.run = run_locked;
    place_opts(w, &oo);
    assert_ok(sqlock_open(&locked.table, NULL, &oo, &m, &err), &err);
    for (locked.ms = 0; locked.ms <= 20; locked.ms += 10)
        for (o.wait_ms = 25; o.wait_ms < 150; o.wait_ms += 9)
            assert_code(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &none, &err), &err);
    sqlock_close(m);
}

/* The one connection of the calls is kept by a request that the server does not answer. That the
 * others hear nothing is not the database's silence. */
static void test_who_gets_no_connection_in_time_is_told_so(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    sqlock_op *stuck = NULL;
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    assert_ok(sqlock_acquire_start(m, "stuck", &o, &stuck, &err), &err);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > runs, patience_ms(3000));
    for (o.wait_ms = 5; o.wait_ms < 200; o.wait_ms += 60) {
        assert_code(SQLOCK_ETIMEOUT, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
        assert_non_null(strstr(err.text, "in use (the option connections)"));
        assert_int_equal(err.flags, SQLOCK_RETRY);
    }
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), runs + 1);
    sqlock_op_cancel(stuck);
    assert_code(SQLOCK_EUNSURE, sqlock_op_finish(stuck, &lock, &err), &err);
    sqlock_lock_free(lock);
}

/* The same for one who has been told of a holder before: that stands. */
static void test_who_gets_no_connection_for_another_try_is_told_of_the_holder(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *m = open_manager(w, NULL);
    sqlock_lock *held = take(a, "nightly"), *other = take_for(m, "other", 0, SQLOCK_NO_RENEW);
    struct waiter t = {.m = m, .name = "nightly", .wait_ms = 400, .flags = SQLOCK_NO_RENEW};
    sqlock_error err = {0};
    sqlock_op *stuck = NULL;
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > runs, patience_ms(3000));
    stall(w, SQLOCK_STMT_RENEW, 1, 20000);
    assert_ok(sqlock_renew_start(other, &stuck, &err), &err);
    pthread_join(t.thread, NULL);
    assert_code(SQLOCK_EBUSY, t.code, &t.err);
    sqlock_op_cancel(stuck);
    assert_int_not_equal(sqlock_op_finish(stuck, NULL, NULL), 0);
    give(other);
    give(held);
}

/* The driver, with openings that take all of the time they have. */
static struct {
    sqlock_driver table;
    const sqlock_driver *real;
    int slow; /* so many of them */
} openings;

static int open_slowly(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                       sqlock_error *err)
{
    int rc = openings.real->open(opts, deadline, out_conn, err);

    while (openings.slow > 0 && sqlock_now_us() < deadline)
        sleep_ms(1);
    openings.slow -= openings.slow > 0;
    return rc;
}

/* An attempt ends with request_ms, and the wait makes another one. */
static void test_opening_that_takes_an_attempts_time_does_not_end_the_wait(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;

    openings.real = spied_driver();
    openings.table = *openings.real;
    openings.table.open = open_slowly;
    oo.request_ms = 100;
    place_opts(w, &oo);
    assert_ok(sqlock_open(&openings.table, NULL, &oo, &m, &err), &err);
    openings.slow = 2;
    give(take(m, "nightly"));
    assert_int_equal(openings.slow, 0);
    sqlock_close(m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_one_slow_answer_does_not_end_a_wait_early),
    cmocka_unit_test(test_try_that_cannot_be_answered_in_time_is_not_made),
    cmocka_unit_test(test_wait_for_a_row_that_is_locked_ends_as_busy),
    cmocka_unit_test(test_who_gets_no_connection_in_time_is_told_so),
    cmocka_unit_test(test_who_gets_no_connection_for_another_try_is_told_of_the_holder),
    cmocka_unit_test(test_opening_that_takes_an_attempts_time_does_not_end_the_wait),
};

TEST_MAIN_ON(fake, tests)
