/* On the fake driver: a server that takes over and may lack commits grants nothing for a while, to
 * those who ask for that; one whose clock is behind is refused (P2); and it is told of leases that
 * are longer than any before. */
#include <string.h>

#include "tests/drivers/fake_network.h"

enum { GRACE = 1500 };

static sqlock *open_gracious(struct world *w, int32_t grace_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.grace_ms = grace_ms;
    return open_manager(w, &o);
}

/* ---- grace ----------------------------------------------------------------------------------- */

static void test_nobody_is_granted_a_lock_in_the_grace_after_a_failover(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_gracious(w, GRACE), *eager = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(patience_ms(20000), 0, 0);
    sqlock_lock *kept = take_for(m, "kept", patience_ms(900), 0), *lock;
    int64_t token = sqlock_lock_token(kept), begun;
    sqlock_error err = {0};

    assert_ok(sqlock_renew(kept, &err), &err); /* the failover forgets each row's last change */
    begun = now_us();
    sqlock_fake_failover(fake_at(&w->place));
    o.wait_ms = 0;
    lock = NULL;
    assert_code(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
    assert_null(lock);
    assert_true((err.flags & SQLOCK_RETRY) != 0);
    assert_non_null(strstr(err.text, "the server took over from another"));
    assert_non_null(strstr(err.text, "grace_ms"));
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
static void test_wait_that_ends_in_a_grace_says_busy_on_time(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_gracious(w, 60000);
    sqlock_acquire_opts o = wait_opts(300, 0, 0);
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;
    int64_t begun;

    sqlock_fake_failover(fake_at(&w->place));
    o.holder = &holder;
    begun = now_us();
    assert_code(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
    assert_between(250000, now_us() - begun, (300 + late_ms(200)) * INT64_C(1000));
    assert_non_null(strstr(err.text, "may have lost the lock's holder"));
    assert_int_equal(holder.token, 0);
    assert_string_equal(holder.label, "");
    assert_between(20000, holder.left_ms,
                   SQLOCK_LEASE_DEFAULT_MS); /* the longest lease that there was */
}

/* P5: its reply was lost with the server, and so was what it did. */
static void test_unsure_acquire_is_settled_in_a_grace(void **state)
{
    struct world *w = world(state);
    static const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REQUEST, SQLOCK_FAULT_LOSE_REPLY};

    for (int i = 0; i < 2; i++) {
        sqlock_open_opts before = short_requests();
        sqlock_error err = {0};
        sqlock *m;
        sqlock_lock *lock;

        before.grace_ms = 60000;
        m = open_fragile_with(w, &before);
        lock = take_unsure(w, m, faults[i], 0);
        sqlock_fake_failover(fake_at(&w->place));
        mend();
        assert_code(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(10000), &err), &err);
        assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
        assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NOT_GRANTED);
        sqlock_lock_free(lock);
        sqlock_fake_step_clock(fake_at(&w->place), 3600000); /* the next has no grace to wait for */
    }
}

/* ... and one that the server still knows of is the caller's, grace or not. */
static void test_unsure_grant_that_survived_is_settled_in_a_grace(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts o = short_requests();
    sqlock_error err = {0};
    sqlock *m;
    sqlock_lock *lock;

    o.grace_ms = 60000;
    m = open_fragile_with(w, &o);
    lock = take_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0);
    mend();
    assert_ok(sqlock_settle(lock, patience_ms(10000), &err), &err);
    sqlock_lock_free(lock);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void test_P2_clock_behind_the_tokens_is_refused_or_lifts_them(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *lock = take(open_manager(w, NULL), "nightly");
    int64_t token = sqlock_lock_token(lock);
    sqlock_error err = {0};
    sqlock *m = NULL;

    give(lock);
    sqlock_fake_step_clock(fake_at(&w->place), -3600000);
    sqlock_fake_failover(fake_at(&w->place));
    assert_code(SQLOCK_EREFUSED, open_here(w, &o, &m, &err), &err);
    assert_null(m);
    assert_true((err.flags & SQLOCK_RETRY) != 0);
    assert_non_null(strstr(err.text, "behind the last token"));
    assert_non_null(strstr(err.text, "SQLOCK_OPEN_LIFT_TOKENS"));
    o.flags = SQLOCK_OPEN_LIFT_TOKENS;
    lock = take(open_manager(w, &o), "another"); /* it forgot the release of the first */
    assert_between(token + (INT64_C(1) << 32), sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    give(lock);
    give(take(open_manager(w, NULL), "another")); /* it was lifted for all */
}

/* ---- the longest lease ----------------------------------------------------------------------- */

static void test_server_is_told_of_a_longer_lease_before_it_is_granted(void **state)
{
    struct world *w = world(state);
    sqlock_fake *db = fake_at(&w->place);
    sqlock *m = open_manager(w, NULL), *other = open_manager(w, NULL);

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
static void test_failure_to_tell_of_a_longer_lease_leaves_nothing_unsure(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(0, 2 * SQLOCK_LEASE_DEFAULT_MS, 0);
    long seen = sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE);
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    fail_and_cut(w, SQLOCK_STMT_LONGEST, SQLOCK_FAULT_LOSE_REPLY, 0);
    assert_code(SQLOCK_EUNREACH, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
    assert_null(lock);
    assert_false(err.flags & SQLOCK_MAYBE);
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE), seen);
    assert_true(is_free(other, "nightly"));
    mend();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_nobody_is_granted_a_lock_in_the_grace_after_a_failover),
    cmocka_unit_test(test_wait_that_ends_in_a_grace_says_busy_on_time),
    cmocka_unit_test(test_unsure_acquire_is_settled_in_a_grace),
    cmocka_unit_test(test_unsure_grant_that_survived_is_settled_in_a_grace),
    cmocka_unit_test(test_P2_clock_behind_the_tokens_is_refused_or_lifts_them),
    cmocka_unit_test(test_server_is_told_of_a_longer_lease_before_it_is_granted),
    cmocka_unit_test(test_failure_to_tell_of_a_longer_lease_leaves_nothing_unsure),
};

TEST_MAIN_ON(fake, tests)
