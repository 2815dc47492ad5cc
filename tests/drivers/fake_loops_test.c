/* P5, P8, P19 on the fake driver: requests of event loops behind a worker's call that hangs. */
#include "tests/drivers/fake_network.h"

static sqlock_op *start(sqlock *m, const char *name, int32_t wait_ms, sqlock_cancel *cancel)
{
    sqlock_acquire_opts o = wait_opts(wait_ms, 60000, SQLOCK_NO_RENEW);
    sqlock_op *op = NULL;

    o.cancel = cancel;
    ok(sqlock_acquire_start(m, name, &o, &op, &said));
    return op;
}

/* It ends with this code, that many milliseconds after it began. */
static void ends(sqlock_op *op, int code, int64_t begun, int32_t least_ms, int32_t most_ms)
{
    sqlock_lock *none = NULL;

    assert_true(readable_within(sqlock_op_fd(op), patience_ms(5000)));
    assert_between(least_ms * INT64_C(1000), now_us() - begun,
                   (most_ms + late_ms(100)) * INT64_C(1000));
    says(code, sqlock_op_finish(op, &none, &said));
    assert_null(none);
}

/* The worker does not come back: what waits for it ends on time all the same, and unsent. */
static void waits_end_behind(sqlock *m)
{
    long before = spy_runs(SQLOCK_STMT_ACQUIRE);
    sqlock_cancel *cancel = NULL;
    int64_t begun = now_us();
    sqlock_op *op = start(m, "waits", 200, NULL);

    ends(op, SQLOCK_ETIMEOUT, begun, 190, 200);
    op = start(m, "is cancelled", 60000, NULL);
    sleep_ms(50);
    begun = now_us();
    sqlock_op_cancel(op);
    ends(op, SQLOCK_ECANCELLED, begun, 0, 0);
    assert_int_equal(sqlock_cancel_new(&cancel, NULL), 0);
    op = start(m, "is cut", SQLOCK_WAIT_FOREVER, cancel);
    sleep_ms(50);
    begun = now_us();
    sqlock_cancel_fire(cancel);
    ends(op, SQLOCK_ECANCELLED, begun, 0, 0);
    sqlock_cancel_free(cancel);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), before);
}

TEST(test_waits_end_on_time_behind_a_renewal_that_hangs, m)
{
    sqlock_acquire_opts o = wait_opts(0, 60000, 0);

    o.renew_ms = 100;
    stall(w, SQLOCK_STMT_RENEW, ALWAYS, 20000);
    take_with(m, "nightly", &o);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) == 1, patience_ms(3000));
    waits_end_behind(m);
    assert_int_equal(spy_runs(SQLOCK_STMT_RENEW), 1); /* nor was it cut */
}

TEST(test_waits_end_on_time_behind_an_acquire_that_hangs, m)
{
    sqlock_lock *lock = NULL;
    sqlock_op *op;

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    op = start(m, "stuck", SQLOCK_WAIT_FOREVER, NULL);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == 1, patience_ms(3000));
    waits_end_behind(m);
    sqlock_op_cancel(op);
    says(SQLOCK_EUNSURE, sqlock_op_finish(op, &lock, &said));
    drop(lock);
}

/* The call that makes room is not lost by that: it is asked again, and it had not failed. */
TEST(test_acquire_that_hangs_makes_room_for_a_release)
{
    sqlock_lock *lock = NULL, *held;
    sqlock_op *stuck, *op = NULL;
    int64_t begun;
    sqlock *m = open_with(w, with.request_ms = 2000);

    held = take_for(m, "held", 0, SQLOCK_NO_RENEW);
    stall(w, SQLOCK_STMT_ACQUIRE, 1, 20000);
    stuck = start(m, "stuck", SQLOCK_WAIT_FOREVER, NULL);
    sleep_ms(50);
    begun = now_us();
    ok(sqlock_release_start(held, &op, &said));
    ends(op, 0, begun, 300, 1100);
    assert_state(SQLOCK_RELEASED, held);
    ok(sqlock_op_finish(stuck, &lock, &said));
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* P5: it may have been applied, and nobody may take it for one that was not. */
TEST(test_acquire_that_was_cut_for_others_is_unsure)
{
    sqlock_lock *lock = NULL, *held;
    sqlock_op *stuck, *op = NULL;
    sqlock *m = open_with(w, with.request_ms = 1000);

    held = take_for(m, "held", 0, SQLOCK_NO_RENEW);
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 20000);
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_ERROR, ALWAYS, 0);
    stuck = start(m, "stuck", patience_ms(900), NULL);
    sleep_ms(20);
    ok(sqlock_release_start(held, &op, &said));
    ends(op, 0, now_us(), 0, 1000);
    says(SQLOCK_EUNSURE, sqlock_op_finish(stuck, &lock, &said));
    assert_state(SQLOCK_UNSURE, lock);
    assert_true(said.flags & SQLOCK_MAYBE);
    drop(lock);
}

/* ---- behind those who leave the queue, and beside those who wait there ----------------------- */

enum { LEAVERS = 8 };

static struct leavers {
    sqlock *m;
    atomic_int end;
    pthread_t threads[LEAVERS];
} leavers;

static const char *const busy_names[LEAVERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static void *leave_again(void *arg)
{
    sqlock_acquire_opts o = wait_opts(60, 0, 0);
    sqlock_lock *none = NULL;
    sqlock_error err;

    while (!atomic_load(&leavers.end))
        if (sqlock_acquire(leavers.m, *(const char *const *)arg, &o, &none, &err) == 0)
            sqlock_scope_end(&none);
    return NULL;
}

/* They come sooner than they can leave. */
TEST(test_P8_request_of_a_loop_does_not_starve_behind_those_who_leave, m, other)
{
    sqlock_lock *busy[LEAVERS], *lock = NULL;
    sqlock_op *op;

    fault(w, SQLOCK_STMT_LEAVE, SQLOCK_FAULT_SLOW, ALWAYS, 50);
    leavers.m = m;
    atomic_store(&leavers.end, 0);
    for (int i = 0; i < LEAVERS; i++) {
        busy[i] = take(other, busy_names[i]);
        assert_int_equal(
            pthread_create(&leavers.threads[i], NULL, leave_again, (void *)&busy_names[i]), 0);
    }
    sleep_ms(1000);
    op = start(m, "free", 5000, NULL);
    assert_takes(0, late_ms(1000), ok(sqlock_op_finish(op, &lock, &said)));
    atomic_store(&leavers.end, 1);
    for (int i = 0; i < LEAVERS; i++)
        pthread_join(leavers.threads[i], NULL);
    for (int i = 0; i < LEAVERS; i++)
        give(busy[i]);
    give(lock);
}

TEST(test_P21_waiter_is_called_while_a_request_of_a_loop_hangs, other)
{
    sqlock *m = open_with(w, with.connections = 3, with.request_ms = 8000);
    sqlock_lock *lock = take(other, "nightly"), *none = NULL;
    struct waiter t = {.m = m, .name = "nightly", .opts = wait_opts(60000, 0, 0)};
    long queued = spy_runs(SQLOCK_STMT_QUEUE), asked;
    int64_t released;
    sqlock_op *op;

    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_QUEUE) > queued, patience_ms(3000));
    asked = spy_runs(SQLOCK_STMT_ACQUIRE);
    stall(w, SQLOCK_STMT_ACQUIRE, 1, 20000);
    op = start(m, "stuck", SQLOCK_WAIT_FOREVER, NULL);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > asked, patience_ms(3000));
    released = now_us();
    give(lock);
    pthread_join(t.thread, NULL);
    assert_ok(t.code, &t.err);
    assert_between(0, t.ended_us - released, late_ms(1500) * INT64_C(1000));
    give(t.lock);
    ok(sqlock_op_finish(op, &none, &said));
    give(none);
}

TEST_MAIN_ON(fake)
