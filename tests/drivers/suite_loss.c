/* P4, P6: a holder stops believing in time, and is told so. */
#include "tests/drivers/suite.h"

static sqlock_lock *take_named(sqlock *m, const char *name, struct told *t, int32_t lease_ms,
                               unsigned flags)
{
    sqlock_acquire_opts o = reported_opts(t, lease_ms, flags);

    return take_with(m, name, &o);
}

static sqlock_lock *take_reported(sqlock *m, struct told *t, int32_t lease_ms, unsigned flags)
{
    return take_named(m, "nightly", t, lease_ms, flags);
}

/* P4: held never a microsecond after the deadline, lost not before it. */
CORE_TEST(test_state_turns_lost_at_the_deadline_without_a_request, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 300, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(lock), before, after;
    long requests = spy_runs(-1), looks = 0;
    sqlock_state now;

    do {
        before = sqlock_now_us();
        now = sqlock_lock_state(lock);
        after = sqlock_now_us();
        if (before >= deadline)
            assert_int_equal(now, SQLOCK_LOST);
        if (after < deadline)
            assert_int_not_equal(now, SQLOCK_LOST);
        looks++;
    } while (now != SQLOCK_LOST);
    assert_between(2, looks, INT64_MAX);
    assert_false(sqlock_is_held(lock));
    assert_lost(lock, SQLOCK_WHY_EXPIRED);
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_int_equal(spy_runs(-1), requests);
    assert_true(readable_within(sqlock_lock_fd(lock, NULL), patience_ms(1000))); /* made by now */
}

/* P6: also for a holder that asks nothing. */
CORE_TEST(test_loss_is_reported_at_the_deadline, m)
{
    static struct told t;
    sqlock_lock *lock = take_reported(m, &t, 300, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(lock);
    int fd = sqlock_lock_fd(lock, NULL);

    assert_between(0, fd, INT32_MAX);
    assert_int_equal(sqlock_lock_fd(lock, NULL), fd);
    assert_false(readable_within(fd, 0));
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_between(deadline, sqlock_now_us(), deadline + late_ms(100) * INT64_C(1000));
    assert_soon(atomic_load(&t.lost) == 1, patience_ms(3000));
    assert_between(deadline, atomic_load(&t.lost_us), deadline + late_ms(100) * INT64_C(1000));
    assert_int_equal(atomic_load(&t.why), SQLOCK_WHY_EXPIRED);
    assert_int_equal(atomic_load(&t.is_held), 0); /* callbacks may ask the getters */
    assert_int_equal(atomic_load(&t.deadline), deadline);
    assert_int_equal(atomic_load(&t.token), sqlock_lock_token(lock));
    assert_int_equal(atomic_load(&t.fd), fd);
    assert_true(readable_within(fd, 0));
}

/* The descriptor tells it by itself, before any thread has looked; and a renewal moves it. */
CORE_TEST(test_renewal_keeps_the_descriptor_quiet, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 600, SQLOCK_NO_RENEW);
    int fd = sqlock_lock_fd(lock, &said);
    int64_t first = sqlock_lock_deadline_us(lock);

    sleep_ms(300);
    ok(sqlock_renew(lock, &said));
    assert_between(first + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    assert_false(readable_within(fd, (int32_t)((first - sqlock_now_us()) / 1000) + 50));
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_between(sqlock_lock_deadline_us(lock), sqlock_now_us(), INT64_MAX);
}

/* P6: after two thirds of the lease without a renewal. */
CORE_TEST(test_risk_is_reported_before_loss, m)
{
    static struct told t;
    int64_t begun = sqlock_now_us();
    sqlock_lock *lock = take_reported(m, &t, 1800, SQLOCK_NO_RENEW);

    assert_soon(atomic_load(&t.at_risk) == 1, patience_ms(3000));
    assert_between(begun + 1200000, sqlock_now_us(), sqlock_lock_deadline_us(lock));
    assert_state(SQLOCK_AT_RISK, lock);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NONE);
    assert_true(sqlock_is_held(lock));
    assert_int_equal(atomic_load(&t.lost), 0);
    assert_soon(atomic_load(&t.lost) == 1, patience_ms(3000));
    assert_int_equal(atomic_load(&t.at_risk), 1);
}

/* P6: a renewal turns it back. */
CORE_TEST(test_renewal_ends_the_risk, m)
{
    static struct told t;
    sqlock_lock *lock = take_reported(m, &t, 1200, SQLOCK_NO_RENEW);

    assert_soon(sqlock_lock_state(lock) == SQLOCK_AT_RISK, patience_ms(3000));
    ok(sqlock_renew(lock, &said));
    assert_state(SQLOCK_HELD, lock);
    give(lock);
}

/* P6 */
CORE_TEST(test_release_says_nothing, m)
{
    static struct told t;
    sqlock_lock *lock = take_reported(m, &t, 300, 0);
    int fd = sqlock_lock_fd(lock, NULL);

    ok(sqlock_release(lock, &said));
    assert_false(readable_within(fd, 500));
    assert_int_equal(atomic_load(&t.lost) + atomic_load(&t.at_risk) + atomic_load(&t.held), 0);
}

/* The timer is kept by another lock's callback when this one is lost and then released. */
CORE_TEST(test_loss_that_was_not_reported_before_the_release_is_not_reported, m)
{
    static struct told slow, t;
    sqlock_lock *lock;

    take_named(m, "other", &slow, 200, SQLOCK_NO_RENEW);
    atomic_store(&slow.stay, 1);
    lock = take_reported(m, &t, 300, SQLOCK_NO_RENEW);
    assert_soon(atomic_load(&slow.in_callback), patience_ms(3000));
    await_loss(lock);
    says(SQLOCK_ELOST, sqlock_release(lock, &said));
    assert_int_equal(atomic_load(&slow.in_callback), 1);
    atomic_store(&slow.stay, 0);
    assert_soon(atomic_load(&slow.lost) == 1, patience_ms(3000));
    sleep_ms(50);
    assert_int_equal(atomic_load(&t.lost) + atomic_load(&t.at_risk) + atomic_load(&t.held), 0);
}

CORE_TEST(test_free_waits_for_a_running_callback, m)
{
    static struct told t;
    sqlock_lock *lock = take_reported(m, &t, 200, SQLOCK_NO_RENEW);

    atomic_store(&t.hold_up_ms, 100);
    assert_soon(atomic_load(&t.in_callback), patience_ms(3000));
    drop(lock);
    assert_int_equal(atomic_load(&t.in_callback), 0);
    int told = atomic_load(&t.lost) + atomic_load(&t.at_risk);
    sleep_ms(200);
    assert_int_equal(atomic_load(&t.lost) + atomic_load(&t.at_risk), told);
}

static void free_in_callback(sqlock_lock *lock, sqlock_state state, void *user)
{
    if (state != SQLOCK_LOST)
        return;
    drop(lock);
    atomic_store((atomic_int *)user, 1);
}

CORE_TEST(test_callback_may_free_its_lock, m)
{
    atomic_int freed = 0;
    sqlock_acquire_opts o = wait_opts(0, 200, SQLOCK_NO_RENEW);

    o.on_event = free_in_callback;
    o.user = &freed;
    take_with(m, "nightly", &o);
    assert_soon(atomic_load(&freed), patience_ms(3000));
    give(take(m, "nightly"));
}

/* P6: the holder's next renewal finds out, within a lease. */
CORE_TEST(test_break_is_reported_to_the_holder, a, b)
{
    static struct told t;
    sqlock_lock *lock = take_reported(a, &t, patience_ms(600), 0);
    int fd = sqlock_lock_fd(lock, NULL);
    int64_t begun = sqlock_now_us();

    ok(sqlock_break(b, "nightly", sqlock_lock_token(lock), &said));
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_between(0, sqlock_now_us() - begun, late_ms(600) * INT64_C(1000));
    assert_soon(atomic_load(&t.lost) == 1, patience_ms(1000));
    assert_int_equal(atomic_load(&t.why), SQLOCK_WHY_BROKEN);
    assert_lost(lock, SQLOCK_WHY_BROKEN);
}

CORE_TEST(test_close_loses_the_locks_that_are_held, a, b)
{
    static struct told t;
    sqlock_lock *lock = take_reported(a, &t, 700, 0);
    int64_t deadline = sqlock_lock_deadline_us(lock);
    int fd = sqlock_lock_fd(lock, NULL);

    close_manager(w, a);
    assert_lost(lock, SQLOCK_WHY_CLOSED);
    assert_true(readable_within(fd, patience_ms(1000)));
    says(SQLOCK_ELOST, sqlock_release(lock, &said));
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    says(SQLOCK_ELOST, sqlock_settle(lock, 0, &said));
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY); /* it was not released */
    give(take(b, "nightly"));
    assert_between(deadline, sqlock_now_us(), INT64_MAX);
}
