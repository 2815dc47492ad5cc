/* P4, P6, P7, P8 on the fake driver: servers that are slow, silent or down. */
#include "tests/drivers/fake_network.h"

#include <sqlock/register.h>

/* ---- slow and silent servers ----------------------------------------------------------------- */

/* P6: while the renewal hangs. */
TEST(test_loss_is_reported_at_the_deadline_while_the_renewal_hangs, m)
{
    static struct told t;
    sqlock_acquire_opts o = reported_opts(&t, 500, 0);
    int64_t deadline;

    stall(w, SQLOCK_STMT_RENEW, ALWAYS, 20000);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    int fd = sqlock_lock_fd(lock, NULL);
    deadline = sqlock_lock_deadline_us(lock);
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_between(deadline, sqlock_now_us(), deadline + late_ms(100) * INT64_C(1000));
    assert_soon(atomic_load(&t.lost) == 1, patience_ms(1000));
    assert_between(deadline, atomic_load(&t.lost_us), deadline + late_ms(100) * INT64_C(1000));
    assert_lost(lock, SQLOCK_WHY_EXPIRED);
    assert_takes(0, late_ms(500), close_manager(w, m));
}

TEST(test_close_cuts_a_renewal_that_hangs, m)
{
    stall(w, SQLOCK_STMT_RENEW, ALWAYS, 20000);
    take_for(m, "nightly", 4500, 0);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) == 1, patience_ms(8000));
    sleep_ms(20);
    assert_takes(0, late_ms(500), close_manager(w, m));
}

/* P4: from before the request, however long the answer took. */
TEST(test_deadline_counts_from_before_a_slow_request, m)
{
    sqlock_acquire_opts o = wait_opts(0, 2000, SQLOCK_NO_RENEW);
    int64_t length = 2000000 - margin_us(2000), before = sqlock_now_us();

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 300);
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_SLOW, 1, 300);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_between(before + length, sqlock_lock_deadline_us(lock), before + length + 200000);
    before = sqlock_now_us();
    ok(sqlock_renew(lock, &said));
    assert_between(before + length, sqlock_lock_deadline_us(lock), before + length + 200000);
    give(lock);
}

/* P4: a grant that came late is renewed before it is handed out. */
TEST(test_late_grant_is_handed_out_with_half_of_its_lease, m)
{
    const int slow_answers[] = {1, ALWAYS};

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
TEST(test_waits_end_on_time_while_the_server_stalls)
{
    const int32_t waits[] = {0, 200, 400};
    sqlock *m = open_with(w, with.request_ms = 300);

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    for (int i = 0; i < 3; i++) {
        int32_t wait_ms = waits[i] ? waits[i] : 300;
        sqlock_acquire_opts o = wait_opts(waits[i], 0, 0);
        sqlock_lock *lock = NULL;

        assert_takes(wait_ms - 20, wait_ms + late_ms(100),
                     says(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &said)));
        drop(lock);
    }
}

/* How long the waiter went on after its cancel was fired. */
static int64_t fire_and_join(struct waiter *t)
{
    int64_t fired = now_us();

    sqlock_cancel_fire(t->opts.cancel);
    pthread_join(t->thread, NULL);
    sqlock_cancel_free(t->opts.cancel);
    return t->ended_us - fired;
}

/* P8: the request may have been applied, so what is told is that nobody knows. */
TEST(test_cancel_cuts_a_request_that_hangs)
{
    struct waiter t = {.name = "nightly",
                       .opts = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0),
                       .m = open_manager(w, NULL)};

    ok(sqlock_cancel_new(&t.opts.cancel, &said));
    stall(w, SQLOCK_STMT_ACQUIRE, 1, 20000);
    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == 1, patience_ms(3000));
    sleep_ms(patience_ms(100));
    int64_t took = fire_and_join(&t);
    assert_code(SQLOCK_EUNSURE, t.code, &t.err);
    assert_between(0, took, late_ms(200) * INT64_C(1000));
    ok(sqlock_release(t.lock, &said));
    drop(t.lock);
}

/* P8: also while a connection is opened again. */
TEST(test_cancel_cuts_a_connection_that_hangs)
{
    struct waiter t = {.name = "nightly",
                       .opts = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0),
                       .m = open_with(w, with.request_ms = 1500)};
    long handshakes;

    ok(sqlock_cancel_new(&t.opts.cancel, &said));
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

/* P7: the thread that renews is the one that drives requests of event loops. */
TEST(test_renewals_go_on_while_a_loops_acquire_hangs, m)
{
    sqlock_lock *lock = take_for(m, "held", patience_ms(600), 0), *unsure = NULL;
    sqlock_acquire_opts o = wait_opts(1200, 0, 0);
    sqlock_op *op = NULL;
    int held = 1;

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    for (int64_t end = now_us() + 1500000; now_us() < end; sleep_ms(2))
        held = held && sqlock_is_held(lock);
    says(SQLOCK_EUNSURE, sqlock_op_finish(op, &unsure, &said));
    assert_int_equal(held, 1);
    drop(unsure);
    give(lock);
}

/* ---- servers that are down ------------------------------------------------------------------- */

TEST(test_renewals_are_tried_until_the_deadline, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 1000, 0);
    int64_t deadline = sqlock_lock_deadline_us(lock);
    long opened = spy_opens();

    sqlock_fake_down(fake_at(&w->place), 1);
    assert_soon(sqlock_lock_state(lock) == SQLOCK_AT_RISK, patience_ms(3000));
    await_loss(lock);
    assert_between(deadline, sqlock_now_us(), INT64_MAX);
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_lost(lock, SQLOCK_WHY_EXPIRED);
    assert_between(3, spy_opens() - opened, 50);
    sqlock_fake_down(fake_at(&w->place), 0);
    give(take(m, "nightly"));
}

static int64_t when_renewals_were(long n)
{
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) >= n, patience_ms(5000));
    return now_us();
}

/* The pauses double while renewals fail; the next failure, after one that went well, is the first
 * again. So the pause behind it is shorter than the last one before. */
TEST(test_failure_after_a_renewal_is_tried_again_at_once, m)
{
    sqlock_acquire_opts o = wait_opts(0, 16000, 0);
    int64_t long_pause, pause;
    sqlock_lock *lock;

    o.renew_ms = 300;
    lock = take_with(m, "nightly", &o);
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_ERROR, 5, 0);
    sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_RENEW, SQLOCK_FAULT_ERROR, 1, 1, 0);
    long_pause = -when_renewals_were(5);
    long_pause += when_renewals_were(6); /* the sixth goes well */
    pause = -when_renewals_were(7);
    pause += when_renewals_were(8);
    assert_between(0, pause, long_pause);
    give(lock);
}

TEST(test_lock_is_still_held_when_the_server_is_back_in_time, m)
{
    int32_t lease_ms = patience_ms(1500);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t deadline = sqlock_lock_deadline_us(lock), token = sqlock_lock_token(lock);

    sqlock_fake_down(fake_at(&w->place), 1);
    sleep_ms(lease_ms * 7 / 10);
    sqlock_fake_down(fake_at(&w->place), 0);
    stays_held(lock, lease_ms);
    assert_between(deadline + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    assert_state(SQLOCK_HELD, lock);
    assert_int_equal(sqlock_lock_token(lock), token);
    give(lock);
}

TEST(test_wait_outlives_a_server_that_is_down)
{
    struct waiter t = {
        .name = "nightly", .opts = wait_opts(patience_ms(10000), 0, 0), .m = open_manager(w, NULL)};

    sqlock_fake_down(fake_at(&w->place), 1);
    wait_start(&t);
    sleep_ms(500);
    sqlock_fake_down(fake_at(&w->place), 0);
    pthread_join(t.thread, NULL);
    assert_ok(t.code, &t.err);
    give(t.lock);
}

/* P9: what was true when the database last answered is told as it is now. */
TEST(test_holder_is_told_with_its_age_if_the_server_went_down, m, other)
{
    int64_t held_us = now_us(); /* from before the grant */
    sqlock_lock *lock = take_for(other, "nightly", 60000, SQLOCK_NO_RENEW);
    sqlock_holder holder = {.size = sizeof holder};
    struct waiter t = {.name = "nightly", .opts = wait_opts(1500, 0, 0), .m = m};
    long asked = spy_runs(SQLOCK_STMT_ACQUIRE);

    t.opts.holder = &holder;
    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > asked, patience_ms(1000));
    sleep_ms(50);
    sqlock_fake_down(fake_at(&w->place), 1);
    pthread_join(t.thread, NULL);
    assert_code(SQLOCK_EBUSY, t.code, &t.err);
    held_us = now_us() - held_us;
    assert_between(1000, holder.age_ms, held_us / 1000);
    assert_between(holder.age_ms, holder.held_ms, held_us / 1000 + 2);
    assert_between(60000 - held_us / 1000 - 2, holder.left_ms, 60000 - holder.age_ms);
    assert_non_null(strstr(t.err.text, ", as of "));
    sqlock_fake_down(fake_at(&w->place), 0);
    drop(lock);
}

TEST(test_try_of_a_server_that_is_down_says_unreachable)
{
    sqlock *m = open_with(w, with.request_ms = 300), *none = NULL;
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL;

    sqlock_fake_down(fake_at(&w->place), 1);
    for (int i = 0; i < 2; i++) { /* with a link that was cut, and without one */
        if (i == 0)
            says(SQLOCK_EUNREACH, open_here(w, NULL, &none, &said));
        o.wait_ms = i == 0 ? 0 : 100;
        int rc = sqlock_acquire(m, "nightly", &o, &lock, &said);
        /* The cut may have struck a request, for all the client can know. */
        if (rc != SQLOCK_EUNSURE)
            says(SQLOCK_EUNREACH, rc);
        assert_string_equal(rc == SQLOCK_EUNREACH ? said.sqlstate : "08001", "08001");
        drop(lock);
    }
    sqlock_fake_down(fake_at(&w->place), 0);
    give(take(m, "nightly"));
}

/* A server that was restarted. The call finds its connection dead, and the handshake of the next
 * one hangs. Meanwhile a renewal meets the new server, and what was begun before is cut short. That
 * is no failure of the server: the call is made again. */
TEST(test_call_that_a_take_over_cuts_short_is_made_again)
{
    unsigned char value[8];
    int64_t version;
    size_t len;
    sqlock *m = open_with(w, with.request_ms = 3000);
    sqlock_lock *lock = take_for(m, "nightly", 3000, 0);
    sqlock_fake *db = fake_at(&w->place);

    open_reserved(m);
    sqlock_fake_down(db, 1);
    sqlock_fake_failover(db);
    sqlock_fake_down(db, 0);
    sqlock_fake_fault(db, SQLOCK_STMT_HANDSHAKE, SQLOCK_FAULT_STALL, 0, 1, 2500);
    assert_takes(20, late_ms(2000),
                 ok(sqlock_register_get(m, "none", value, sizeof value, &len, &version, &said)));
    drop(lock);
}

TEST_MAIN_ON(fake)
