/* On the fake driver: a server that takes over and may lack commits grants nothing for a while, to
 * those who ask for that; and it is told of leases that are longer than any before. */
#include "tests/drivers/fake_network.h"

enum { GRACE = 1500 };

TEST(test_no_one_is_granted_a_lock_in_the_grace_after_a_failover)
{
    sqlock *m = open_with(w, with.grace_ms = GRACE), *eager = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(patience_ms(20000), 0, 0);
    sqlock_lock *kept = take_for(m, "kept", patience_ms(900), 0), *lock;
    int64_t token = sqlock_lock_token(kept), begun;

    ok(sqlock_renew(kept, &said)); /* the failover forgets each row's last change */
    begun = now_us();
    sqlock_fake_failover(fake_at(&w->place));
    o.wait_ms = 0;
    lock = NULL;
    says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &lock, &said));
    assert_null(lock);
    assert_true((said.flags & SQLOCK_RETRY) != 0);
    assert_non_null(strstr(said.text, "the server took over from another"));
    assert_non_null(strstr(said.text, "grace_ms"));
    assert_true(is_free(eager, "other"));
    o.wait_ms = patience_ms(20000);
    lock = take_with(m, "nightly", &o);
    assert_between(GRACE * INT64_C(1000), now_us() - begun, INT64_MAX);
    assert_true(sqlock_is_held(kept));
    assert_int_equal(sqlock_lock_token(kept), token);
    give(lock);
    give(kept);
}

/* A wait that is over before the grace is says so, at once, by what it was told last. */
TEST(test_wait_that_ends_in_a_grace_says_busy_on_time)
{
    sqlock *m = open_with(w, with.grace_ms = 60000);
    sqlock_acquire_opts o = wait_opts(300, 0, 0);
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_lock *lock = NULL;

    sqlock_fake_failover(fake_at(&w->place));
    o.holder = &holder;
    assert_takes(250, 300 + late_ms(200),
                 says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &lock, &said)));
    assert_non_null(strstr(said.text, "may have lost the lock's holder"));
    assert_int_equal(holder.token, 0);
    assert_string_equal(holder.label, "");
    assert_between(20000, holder.left_ms,
                   SQLOCK_LEASE_DEFAULT_MS); /* the longest lease that there was */
}

/* P5: its reply was lost with the server, and so was what it did. */
TEST(test_unsure_acquire_is_settled_in_a_grace)
{
    static const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REQUEST, SQLOCK_FAULT_LOSE_REPLY};

    for (int i = 0; i < 2; i++) {
        sqlock *m = open_fragile(w, 60000);
        sqlock_lock *lock = take_unsure(w, m, faults[i], 0);

        sqlock_fake_failover(fake_at(&w->place));
        mend();
        says(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(10000), &said));
        assert_lost(lock, SQLOCK_WHY_NOT_GRANTED);
        sqlock_fake_step_clock(fake_at(&w->place), 3600000); /* the next has no grace to wait for */
    }
}

/* ... and one that the server still knows of is the caller's, grace or not. */
TEST(test_unsure_grant_that_survived_is_settled_in_a_grace)
{
    sqlock *m = open_fragile(w, 60000);
    sqlock_lock *lock = take_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0);

    mend();
    ok(sqlock_settle(lock, patience_ms(10000), &said));
}

TEST(test_server_learns_of_a_longer_lease_before_it_is_granted, m, other)
{
    sqlock_fake *db = fake_at(&w->place);

    give(take(m, "nightly"));
    assert_int_equal(sqlock_fake_seen(db, SQLOCK_STMT_LONGEST), 0); /* as long as others before */
    sqlock_fake_fault(db, SQLOCK_STMT_LONGEST, SQLOCK_FAULT_LOSE_REPLY, 0, 1, 0);
    for (int i = 0; i < 3; i++)
        give(take_for(m, "nightly", 2 * SQLOCK_LEASE_DEFAULT_MS, 0));
    assert_int_equal(sqlock_fake_seen(db, SQLOCK_STMT_LONGEST),
                     2); /* and once more, for its reply */
    give(take_for(other, "nightly", 2 * SQLOCK_LEASE_DEFAULT_MS, 0));
    assert_int_equal(sqlock_fake_seen(db, SQLOCK_STMT_LONGEST), 3); /* each manager knows its own */
}

/* Nothing was asked of the lock yet: whatever happens, there is nothing to be settled. */
TEST_AFTER(begin_fragile, test_failure_to_send_a_longer_lease_leaves_nothing_unsure, other)
{
    sqlock_acquire_opts o = wait_opts(0, 2 * SQLOCK_LEASE_DEFAULT_MS, 0);
    long before = seen(w, SQLOCK_STMT_ACQUIRE);
    sqlock_lock *lock = NULL;

    fail_and_cut(w, SQLOCK_STMT_LONGEST, SQLOCK_FAULT_LOSE_REPLY, 0);
    says(SQLOCK_EUNREACH, sqlock_acquire(fragile, "nightly", &o, &lock, &said));
    assert_null(lock);
    assert_false(said.flags & SQLOCK_MAYBE);
    assert_int_equal(seen(w, SQLOCK_STMT_ACQUIRE), before);
    assert_true(is_free(other, "nightly"));
    mend();
}

TEST_MAIN_ON(fake)
