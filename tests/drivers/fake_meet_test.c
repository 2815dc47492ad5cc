/* P4 to P7 on the fake driver: two things that meet. An event during a callback, a clock jump
 * between two renewals, a loss within a batch, a late grant whose giving back is lost. */
#include "tests/drivers/fake_network.h"

/* ---- an event during a callback -------------------------------------------------------------- */

/* Its callback says AT_RISK, and does not return. */
static sqlock_lock *put_at_risk(struct world *w, sqlock *m, struct told *t)
{
    sqlock_acquire_opts o = reported_opts(t, patience_ms(1500), 0);
    sqlock_lock *lock = take_with(m, "nightly", &o);

    atomic_store(&t->stay, 1);
    sqlock_fake_down(fake_at(&w->place), 1);
    assert_soon(atomic_load(&t->in_callback), patience_ms(3000));
    assert_state(SQLOCK_AT_RISK, lock);
    return lock;
}

static void check_reported_after(struct told *t, sqlock_why why)
{
    assert_int_equal(atomic_load(&t->at_risk) + atomic_load(&t->lost), 0);
    atomic_store(&t->stay, 0);
    assert_soon(atomic_load(&t->lost) == 1, patience_ms(1000));
    assert_int_equal(atomic_load(&t->at_risk), 1);
    assert_int_equal(atomic_load(&t->why), (int)why);
}

TEST(test_P6_a_break_during_a_callback_is_reported_behind_it, m, other)
{
    static struct told t;
    sqlock_lock *lock = put_at_risk(w, m, &t);

    sqlock_fake_down(fake_at(&w->place), 0);
    ok(sqlock_break(other, "nightly", sqlock_lock_token(lock), &said));
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(2000));
    check_reported_after(&t, SQLOCK_WHY_BROKEN);
}

TEST(test_P6_a_deadline_during_a_callback_is_reported_behind_it, m)
{
    static struct told t;
    sqlock_lock *lock = put_at_risk(w, m, &t);

    await_loss(lock);
    check_reported_after(&t, SQLOCK_WHY_EXPIRED);
    sqlock_fake_down(fake_at(&w->place), 0);
}

/* One lock's callback holds up those of others; none is left out. */
TEST(test_P6_losses_during_the_callback_of_another_lock_are_all_reported, m)
{
    sqlock_acquire_opts o;
    sqlock_lock *locks[4];
    static struct told t[4];
    char name[8];

    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d", i);
        o = reported_opts(&t[i], 300 + 20 * i, SQLOCK_NO_RENEW);
        locks[i] = take_with(m, name, &o);
    }
    atomic_store(&t[0].stay, 1);
    for (int i = 0; i < 4; i++)
        await_loss(locks[i]);
    assert_soon(atomic_load(&t[0].in_callback), patience_ms(1000));
    atomic_store(&t[0].stay, 0);
    for (int i = 0; i < 4; i++) {
        assert_soon(atomic_load(&t[i].lost) == 1, patience_ms(1000));
    }
}

/* ---- a clock jump between two renewals ------------------------------------------------------- */

/* The lease has 0.8 s left then, and its next renewal is planned 0.9 s later. */
TEST(test_P4_a_clock_jump_that_leaves_time_is_answered_by_a_renewal, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 3000, 0);

    sleep_ms(50);
    sqlock_fake_step_clock(fake_at(&w->place), 1900);
    /* it shows it, and wakes nobody */
    ok(sqlock_list(m, NULL, ignore_info, NULL, &said));
    stays_held(lock, 3500);
    give(lock);
}

/* The same, and it is the renewal of another lock that shows it. */
TEST(test_P4_a_clock_jump_in_a_renewals_answer_hurries_the_others, m)
{
    sqlock_acquire_opts often = wait_opts(0, 60000, 0);
    sqlock_lock *lock, *busy;

    often.renew_ms = 100;
    busy = take_with(m, "busy", &often);
    lock = take_for(m, "nightly", 3000, 0);
    sqlock_fake_step_clock(fake_at(&w->place), 1900);
    for (int64_t end = now_us() + 3500 * INT64_C(1000); now_us() < end; sleep_ms(5)) {
        assert_true(sqlock_is_held(lock));
        assert_true(sqlock_is_held(busy));
    }
    give(lock);
    give(busy);
}

/* ---- losses within a batch ------------------------------------------------------------------- */

enum { LOTS = 60 };

/* Taken in another order than that of their keys; every seventh is broken, all at once. */
TEST(test_P7_of_many_in_a_batch_those_are_lost_that_were_broken, m, other)
{
    sqlock_lock *locks[LOTS];
    char name[16];
    long batches;

    for (int i = 0; i < LOTS; i++) {
        snprintf(name, sizeof name, "%02d", i * 37 % LOTS);
        locks[i] = take_for(m, name, patience_ms(1500), 0);
    }
    for (int i = 0; i < LOTS; i += 7) {
        snprintf(name, sizeof name, "%02d", i * 37 % LOTS);
        ok(sqlock_break(other, name, sqlock_lock_token(locks[i]), &said));
    }
    batches = spy_runs(SQLOCK_STMT_RENEW);
    for (int64_t end = now_us() + patience_ms(3500) * INT64_C(1000); now_us() < end; sleep_ms(5))
        for (int i = 0; i < LOTS; i++)
            assert_true(i % 7 == 0 || sqlock_is_held(locks[i]));
    assert_between(1, spy_runs(SQLOCK_STMT_RENEW) - batches, LOTS);
    for (int i = 0; i < LOTS; i++) {
        if (i % 7 == 0)
            assert_lost(locks[i], SQLOCK_WHY_BROKEN);
    }
}

/* ---- a late grant whose giving back is lost -------------------------------------------------- */

/* P5: the row may be ours for a whole lease still, so it is no plain time-out. */
TEST(test_P5_a_late_grant_that_may_not_be_given_back_is_unsure, other)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REQUEST, SQLOCK_FAULT_LOSE_REPLY};

    for (int i = 0; i < 2; i++) {
        sqlock *m = open_manager(w, NULL);
        sqlock_acquire_opts o = wait_opts(10000, 400, SQLOCK_NO_RENEW);
        sqlock_lock *lock = NULL;

        assert_true(is_free(m, "nightly"));
        fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 3, 250);
        fault(w, SQLOCK_STMT_RELEASE, faults[i], 1, 0);
        says(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &said));
        assert_true(said.flags & SQLOCK_MAYBE);
        assert_non_null(lock);
        assert_state(SQLOCK_UNSURE, lock);
        assert_int_equal(try_once(other, "nightly"), i == 0 ? SQLOCK_EBUSY : SQLOCK_OK);
        ok(sqlock_release(lock, &said));
        assert_true(is_free(other, "nightly"));
        drop(lock);
        close_manager(w, m);
    }
}

/* P4, P5: the release is still on its way. It would end what settling says is ours. */
TEST(test_late_grant_that_may_be_given_back_is_not_settled_as_held, m, other)
{
    sqlock_acquire_opts o = wait_opts(10000, 400, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 3, 250);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LATE, 1, 100);
    says(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &said));
    says(SQLOCK_ELOST, sqlock_settle(lock, 1000, &said));
    assert_lost(lock, SQLOCK_WHY_NOT_GRANTED);
    assert_true(is_free(other, "nightly"));
    drop(lock);
}

TEST_MAIN_ON(fake)
