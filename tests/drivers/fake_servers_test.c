/* P4, P6, P7, P8 on the fake driver: servers that are slow, silent or down. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/drivers/fake_network.h"

static sqlock *open_short(struct world *w, int32_t request_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.request_ms = request_ms;
    return open_manager(w, &o);
}

/* ---- slow and silent servers ----------------------------------------------------------------- */

static _Atomic int64_t lost_us;

static void note_loss(sqlock_lock *lock, sqlock_state state, void *user)
{
    (void)lock;
    (void)user;
    if (state == SQLOCK_LOST)
        atomic_store(&lost_us, sqlock_now_us());
}

/* P6: while the renewal hangs. */
static void test_loss_is_told_at_the_deadline_while_the_renewal_hangs(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(0, 500, 0);
    int64_t deadline, begun;

    atomic_store(&lost_us, 0);
    o.on_event = note_loss;
    stall(w, SQLOCK_STMT_RENEW, ALWAYS, 20000);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    int fd = sqlock_lock_fd(lock, NULL);
    deadline = sqlock_lock_deadline_us(lock);
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_between(deadline, sqlock_now_us(), deadline + late_ms(100) * INT64_C(1000));
    assert_soon(atomic_load(&lost_us) != 0, patience_ms(1000));
    assert_between(deadline, atomic_load(&lost_us), deadline + late_ms(100) * INT64_C(1000));
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_EXPIRED);
    sqlock_lock_free(lock);
    begun = now_us();
    close_manager(w, m);
    assert_between(0, now_us() - begun, late_ms(500) * INT64_C(1000));
}

static void test_close_cuts_a_renewal_that_hangs(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock;
    int64_t begun;

    stall(w, SQLOCK_STMT_RENEW, ALWAYS, 20000);
    lock = take_for(m, "nightly", 4500, 0);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) == 1, patience_ms(8000));
    sleep_ms(20);
    begun = now_us();
    close_manager(w, m);
    assert_between(0, now_us() - begun, late_ms(500) * INT64_C(1000));
    sqlock_lock_free(lock);
}

/* P4: from before the request, however long the answer took. */
static void test_deadline_counts_from_before_a_slow_request(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_acquire_opts o = wait_opts(0, 2000, SQLOCK_NO_RENEW);
    int64_t length = 2000000 - margin_us(2000), before = sqlock_now_us();

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 300);
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_SLOW, 1, 300);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_between(before + length, sqlock_lock_deadline_us(lock), before + length + 200000);
    before = sqlock_now_us();
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_between(before + length, sqlock_lock_deadline_us(lock), before + length + 200000);
    give(lock);
}

/* P4: a grant that came late is renewed before it is handed out. */
static void test_late_grant_is_handed_out_with_half_of_its_lease(void **state)
{
    const int slow_answers[] = {1, ALWAYS};
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);

    for (int i = 0; i < 2; i++) {
        sqlock_acquire_opts o = wait_opts(2000, 600, SQLOCK_NO_RENEW);
        sqlock_lock *lock = NULL;

        fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, slow_answers[i], 400);
        if (sqlock_acquire(m, "nightly", &o, &lock, NULL) == 0)
            assert_between(300000, sqlock_lock_deadline_us(lock) - sqlock_now_us(), 540000);
        else
            assert_int_equal(slow_answers[i], ALWAYS); /* then it may be refused */
        sqlock_scope_end(&lock);
    }
}

/* P8: whatever the server does. */
static void test_waits_end_on_time_while_the_server_stalls(void **state)
{
    const int32_t waits[] = {0, 200, 400};
    struct world *w = world(state);
    sqlock *m = open_short(w, 300);

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    for (int i = 0; i < 3; i++) {
        int32_t wait_ms = waits[i] ? waits[i] : 300;
        sqlock_acquire_opts o = wait_opts(waits[i], 0, 0);
        sqlock_error err = {0};
        sqlock_lock *lock = NULL;
        int64_t begun = now_us();

        assert_code(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
        assert_between((wait_ms - 20) * INT64_C(1000), now_us() - begun,
                       (wait_ms + late_ms(100)) * INT64_C(1000));
        sqlock_lock_free(lock);
    }
}

/* How long the waiter went on after its cancel was fired. */
static int64_t fire_and_join(struct waiter *t)
{
    int64_t fired = now_us();

    sqlock_cancel_fire(t->cancel);
    pthread_join(t->thread, NULL);
    sqlock_cancel_free(t->cancel);
    return t->ended_us - fired;
}

/* P8: the request may have been applied, so what is told is that nobody knows. */
static void test_cancel_cuts_a_request_that_hangs(void **state)
{
    struct world *w = world(state);
    struct waiter t = {
        .name = "nightly", .wait_ms = SQLOCK_WAIT_FOREVER, .m = open_manager(w, NULL)};
    sqlock_error err = {0};

    assert_ok(sqlock_cancel_new(&t.cancel, &err), &err);
    stall(w, SQLOCK_STMT_ACQUIRE, 1, 20000);
    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == 1, patience_ms(3000));
    sleep_ms(patience_ms(100));
    int64_t took = fire_and_join(&t);
    assert_code(SQLOCK_EUNSURE, t.code, &t.err);
    assert_between(0, took, late_ms(200) * INT64_C(1000));
    assert_ok(sqlock_release(t.lock, &err), &err);
    sqlock_lock_free(t.lock);
}

/* P8: also while a connection is opened again. */
static void test_cancel_cuts_a_connection_that_hangs(void **state)
{
    struct world *w = world(state);
    struct waiter t = {.name = "nightly", .wait_ms = SQLOCK_WAIT_FOREVER, .m = open_short(w, 1500)};
    sqlock_error err = {0};
    long handshakes;

    assert_ok(sqlock_cancel_new(&t.cancel, &err), &err);
    sqlock_fake_down(fake_at(&w->place), 1);
    assert_int_not_equal(try_once(t.m, "nightly"), 0); /* so that no connection is left */
    sqlock_fake_down(fake_at(&w->place), 0);
    stall(w, SQLOCK_STMT_HANDSHAKE, ALWAYS, 20000);
    handshakes = spy_runs(SQLOCK_STMT_HANDSHAKE);
    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_HANDSHAKE) > handshakes, patience_ms(3000));
    sleep_ms(20);
    int64_t took = fire_and_join(&t);
    assert_code(SQLOCK_ECANCELLED, t.code, &t.err);
    assert_between(0, took, late_ms(200) * INT64_C(1000));
}

static int stop_listing(const sqlock_info *info, void *user)
{
    (void)info;
    (void)user;
    return 1;
}

/* P18: the holder was told, then the manager's connection was busy until the wait ran out. */
static void test_wait_that_was_refused_and_could_not_ask_again_says_busy(void **state)
{
    struct world *w = world(state);
    sqlock *other = open_manager(w, NULL);
    sqlock_lock *lock = take(other, "nightly");
    struct waiter t = {.name = "nightly", .wait_ms = 600, .m = open_manager(w, NULL)};
    sqlock_error err = {0};

    assert_int_equal(try_once(t.m, "nightly"), SQLOCK_EBUSY);
    wait_start(&t);
    sleep_ms(100);
    stall(w, SQLOCK_STMT_LIST, ALWAYS, 1500);
    if (sqlock_list(t.m, NULL, stop_listing, NULL, &err) < 0)
        assert_int_equal(err.code, SQLOCK_ETIMEOUT);
    pthread_join(t.thread, NULL);
    assert_code(SQLOCK_EBUSY, t.code, &t.err);
    give(lock);
}

/* P7: renewals have a connection of their own. */
static void test_renewals_go_on_while_an_acquire_hangs(void **state)
{
    struct world *w = world(state);
    struct waiter t = {.name = "nightly", .wait_ms = 1200, .m = open_manager(w, NULL)};
    sqlock_lock *lock = take_for(t.m, "held", patience_ms(400), 0);

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    wait_start(&t);
    int held = 1;
    for (int i = 0; i < 500; i++) {
        held = held && sqlock_is_held(lock);
        sleep_ms(2);
    }
    pthread_join(t.thread, NULL);
    assert_int_equal(held, 1);
    sqlock_lock_free(t.lock);
    give(lock);
}

/* P7: the thread that renews is the one that drives requests of event loops. */
static void test_renewals_go_on_while_a_loops_acquire_hangs(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take_for(m, "held", patience_ms(600), 0), *unsure = NULL;
    sqlock_acquire_opts o = wait_opts(1200, 0, 0);
    sqlock_error err = {0};
    sqlock_op *op = NULL;
    int held = 1;

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    assert_ok(sqlock_acquire_start(m, "nightly", &o, &op, &err), &err);
    for (int64_t end = now_us() + 1500000; now_us() < end; sleep_ms(2))
        held = held && sqlock_is_held(lock);
    assert_code(SQLOCK_EUNSURE, sqlock_op_finish(op, &unsure, &err), &err);
    assert_int_equal(held, 1);
    sqlock_lock_free(unsure);
    give(lock);
}

/* ---- servers that are down ------------------------------------------------------------------- */

static void test_renewals_are_tried_until_the_deadline(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take_for(m, "nightly", 1000, 0);
    int64_t deadline = sqlock_lock_deadline_us(lock);
    long opened = spy_opens();

    sqlock_fake_down(fake_at(&w->place), 1);
    assert_soon(sqlock_lock_state(lock) == SQLOCK_AT_RISK, patience_ms(3000));
    await_loss(lock);
    assert_between(deadline, sqlock_now_us(), INT64_MAX);
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_EXPIRED);
    assert_between(3, spy_opens() - opened, 50);
    sqlock_fake_down(fake_at(&w->place), 0);
    sqlock_lock_free(lock);
    give(take(m, "nightly"));
}

/* The pauses double while renewals fail; the next failure, after one that went well, is the first
 * again. */
static void test_failure_after_a_renewal_is_tried_again_at_once(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(0, 16000, 0);
    struct patience at_once;
    sqlock_lock *lock;

    o.renew_ms = 300;
    lock = take_with(m, "nightly", &o);
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_ERROR, 5, 0);
    sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_RENEW, SQLOCK_FAULT_ERROR, 1, 1, 0);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) >= 7, patience_ms(5000)); /* the sixth went well */
    at_once = patience_for(patience_ms(800));
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) >= 8, patience_ms(5000));
    assert_false(patience_is_over(&at_once));
    give(lock);
}

static void test_lock_is_still_held_when_the_server_is_back_in_time(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    int32_t lease_ms = patience_ms(1500);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t deadline = sqlock_lock_deadline_us(lock), token = sqlock_lock_token(lock);

    sqlock_fake_down(fake_at(&w->place), 1);
    sleep_ms(lease_ms * 7 / 10);
    sqlock_fake_down(fake_at(&w->place), 0);
    stays_held(lock, lease_ms);
    assert_between(deadline + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
    give(lock);
}

static void test_wait_outlives_a_server_that_is_down(void **state)
{
    struct world *w = world(state);
    struct waiter t = {
        .name = "nightly", .wait_ms = patience_ms(10000), .m = open_manager(w, NULL)};

    sqlock_fake_down(fake_at(&w->place), 1);
    wait_start(&t);
    sleep_ms(500);
    sqlock_fake_down(fake_at(&w->place), 0);
    pthread_join(t.thread, NULL);
    assert_ok(t.code, &t.err);
    give(t.lock);
}

static void test_try_of_a_server_that_is_down_says_unreachable(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_short(w, 300), *none = NULL;
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    sqlock_fake_down(fake_at(&w->place), 1);
    for (int i = 0; i < 2; i++) { /* with a link that was cut, and without one */
        if (i == 0)
            assert_code(SQLOCK_EUNREACH, open_here(w, NULL, &none, &err), &err);
        o.wait_ms = i == 0 ? 0 : 100;
        int rc = sqlock_acquire(m, "nightly", &o, &lock, &err);
        /* The cut may have struck a request, for all the client can know. */
        if (rc != SQLOCK_EUNSURE)
            assert_code(SQLOCK_EUNREACH, rc, &err);
        assert_string_equal(rc == SQLOCK_EUNREACH ? err.sqlstate : "08001", "08001");
        sqlock_lock_free(lock);
    }
    sqlock_fake_down(fake_at(&w->place), 0);
    give(take(m, "nightly"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_loss_is_told_at_the_deadline_while_the_renewal_hangs),
    cmocka_unit_test(test_close_cuts_a_renewal_that_hangs),
    cmocka_unit_test(test_deadline_counts_from_before_a_slow_request),
    cmocka_unit_test(test_late_grant_is_handed_out_with_half_of_its_lease),
    cmocka_unit_test(test_waits_end_on_time_while_the_server_stalls),
    cmocka_unit_test(test_cancel_cuts_a_request_that_hangs),
    cmocka_unit_test(test_cancel_cuts_a_connection_that_hangs),
    cmocka_unit_test(test_wait_that_was_refused_and_could_not_ask_again_says_busy),
    cmocka_unit_test(test_renewals_go_on_while_an_acquire_hangs),
    cmocka_unit_test(test_renewals_go_on_while_a_loops_acquire_hangs),
    cmocka_unit_test(test_renewals_are_tried_until_the_deadline),
    cmocka_unit_test(test_failure_after_a_renewal_is_tried_again_at_once),
    cmocka_unit_test(test_lock_is_still_held_when_the_server_is_back_in_time),
    cmocka_unit_test(test_wait_outlives_a_server_that_is_down),
    cmocka_unit_test(test_try_of_a_server_that_is_down_says_unreachable),
};

TEST_MAIN_ON(fake, tests)
