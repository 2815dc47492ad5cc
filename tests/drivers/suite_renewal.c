/* P7: leases are renewed until release, the longest hold, or loss, and then no more. */
#include "tests/drivers/suite.h"

/* Two leases long; a second owner gets it at no time. */
CORE_TEST(test_short_lease_is_held_for_many_leases, a, b)
{
    int32_t lease_ms = patience_ms(1500);
    sqlock_lock *lock = take_for(a, "nightly", lease_ms, 0);
    int64_t token = sqlock_lock_token(lock), end = sqlock_now_us() + lease_ms * INT64_C(2000);
    long seen = spy_requests(SQLOCK_STMT_RENEW);

    while (sqlock_now_us() < end) {
        assert_true(sqlock_is_held(lock));
        assert_between(sqlock_now_us(), sqlock_lock_deadline_us(lock), INT64_MAX);
        assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
        sleep_ms(20);
    }
    assert_int_equal(sqlock_lock_token(lock), token);
    /* A third of the lease apart: no more often than twice that. */
    assert_between(3, spy_requests(SQLOCK_STMT_RENEW) - seen, 20);
    give(lock);
}

CORE_TEST(test_renewals_come_as_often_as_they_are_requested, m)
{
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);

    o.renew_ms = 50;
    sqlock_lock *lock = take_with(m, "nightly", &o);
    sleep_ms(525);
    assert_between(3, spy_requests(SQLOCK_STMT_RENEW), 14);
    give(lock);
}

CORE_TEST(test_longest_hold_ends_renewals, a, b)
{
    sqlock_acquire_opts o = wait_opts(0, 400, 0);
    int64_t begun = sqlock_now_us();

    o.max_hold_ms = 700;
    sqlock_lock *lock = take_with(a, "nightly", &o);
    await_loss(lock);
    /* The last renewal is before the end of the hold, and lasts for one lease. */
    assert_between(begun + 700000, sqlock_lock_deadline_us(lock),
                   begun + (700 + 400 + late_ms(300)) * INT64_C(1000));
    assert_lost(lock, SQLOCK_WHY_MAX_HOLD);
    give(take(b, "nightly"));
}

static void stays_held_for(sqlock_lock *lock, long renewals)
{
    long end = spy_runs(SQLOCK_STMT_RENEW) + renewals;

    assert_soon(spy_runs(SQLOCK_STMT_RENEW) >= end || !sqlock_is_held(lock), patience_ms(5000));
    assert_true(sqlock_is_held(lock));
}

/* Who asks may have looked before a change of our own was there: no is believed when it is said
 * twice, each time. */
CORE_TEST(test_renewal_that_is_denied_once_is_sent_again, m)
{
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);
    sqlock_lock *lock;

    o.renew_ms = 50;
    lock = take_with(m, "nightly", &o);
    for (int i = 0; i < 3; i++) {
        spy_deny_renewals(1);
        stays_held_for(lock, 4);
    }
    spy_deny_renewals(2);
    await_lost(lock, SQLOCK_WHY_TAKEN);

    lock = take_for(m, "by hand", 10000, SQLOCK_NO_RENEW);
    for (int i = 0; i < 2; i++) {
        spy_deny_renewals(1);
        ok(sqlock_renew(lock, &said));
    }
    spy_deny_renewals(2);
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
}

CORE_TEST(test_renewals_end_with_release_free_and_loss, a, b)
{
    sqlock_lock *released = take_for(a, "released", 300, 0), *next;
    sqlock_lock *broken = take_for(a, "broken", 300, 0);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    long seen;

    drop(take_for(a, "freed", SQLOCK_LEASE_MIN_MS, 0));
    sleep_ms(350);
    ok(sqlock_break(b, "broken", sqlock_lock_token(broken), &said));
    await_loss(broken);
    ok(sqlock_release(released, &said));
    next = take_with(b, "released", &o); /* at once */
    seen = spy_runs(SQLOCK_STMT_RENEW);
    sleep_ms(350);
    /* One may have been on its way. */
    assert_between(0, spy_runs(SQLOCK_STMT_RENEW) - seen, 1);
    assert_true(sqlock_is_held(next));
    give(next);
}

enum { MANY = 100 };

/* One statement for many, and each of them is renewed. */
TEST(test_many_leases_are_renewed_together, a, b)
{
    sqlock_lock *locks[MANY];
    int32_t lease_ms = patience_ms(2000);
    char name[32];
    long runs, renewals;

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many/%03d", i);
        locks[i] = take_for(a, name, lease_ms, 0);
    }
    runs = spy_runs(SQLOCK_STMT_RENEW);
    renewals = spy_requests(SQLOCK_STMT_RENEW);
    sleep_ms(lease_ms);
    runs = spy_runs(SQLOCK_STMT_RENEW) - runs;
    renewals = spy_requests(SQLOCK_STMT_RENEW) - renewals;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many/%03d", i);
        assert_true(sqlock_is_held(locks[i]));
        if (i % 40 == 0)
            assert_int_equal(try_once(b, name), SQLOCK_EBUSY);
    }
    assert_between(MANY * 3 / 2, renewals, MANY * 7);
    assert_between(1, runs, renewals / 10);
}

/* Two leases of different length in one manager: neither waits for the other. */
CORE_TEST(test_long_lease_does_not_delay_a_short_one, m)
{
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);
    sqlock_lock *slow = take_for(m, "long", 3600000, 0), *fast;

    o.renew_ms = 100;
    fast = take_with(m, "short", &o);
    stays_held_for(fast, 5);
    assert_true(sqlock_is_held(slow));
    give(fast);
    give(slow);
}
