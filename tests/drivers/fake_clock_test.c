/* P2, P4, P6 on the fake driver: the server's clock jumps, or the server is another one. */
#include "tests/drivers/fake_network.h"

/* ---- the server's clock ---------------------------------------------------------------------- */

TEST(test_clock_that_jumps_past_the_lease_ends_it, m)
{
    int32_t lease_ms = patience_ms(900);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t begun = sqlock_now_us();

    sqlock_fake_step_clock(fake_at(&w->place), 60000);
    await_loss(lock);
    /* By the first answer that shows it, which is a renewal's. */
    assert_between(0, sqlock_now_us() - begun, lease_ms * INT64_C(700));
    assert_lost(lock, SQLOCK_WHY_CLOCK);
    assert_true(is_free(m, "nightly"));
}

/* Any answer of the manager's shows it, so also for a lock that nobody renews. */
TEST(test_clock_jump_is_seen_in_any_answer, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 20000, SQLOCK_NO_RENEW);

    sqlock_fake_step_clock(fake_at(&w->place), 60000);
    assert_true(sqlock_is_held(lock));
    assert_true(is_free(m, "other"));
    assert_lost(lock, SQLOCK_WHY_CLOCK);
}

/* As chrony does it, and more: each answer shows a little jump, and the renewal that it was keeps
 * it.
 */
TEST(test_clock_that_is_slewed_ends_no_lease_that_is_renewed, m)
{
    int32_t lease_ms = patience_ms(1000);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t begun = now_us(), stepped = 0;

    for (int64_t passed; (passed = (now_us() - begun) / 1000) < 2 * lease_ms; sleep_ms(2)) {
        sqlock_fake_step_clock(fake_at(&w->place), (int32_t)(passed / 10 - stepped));
        stepped = passed / 10;
        assert_true(sqlock_is_held(lock));
    }
    give(lock);
}

TEST(test_clock_that_is_put_back_ends_nothing, a, b)
{
    int32_t lease_ms = patience_ms(400);
    sqlock_lock *lock = take_for(a, "nightly", lease_ms, 0);

    sqlock_fake_step_clock(fake_at(&w->place), -60000);
    stays_held(lock, lease_ms * 3);
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
    give(lock);
    assert_true(is_free(b, "nightly"));
    /* Nor does a dead holder's lease last for as long as the step: it was renewed since. */
    lock = take_for(a, "nightly", lease_ms, 0);
    sqlock_fake_step_clock(fake_at(&w->place), -60000);
    sleep_ms(lease_ms);
    drop(lock);
    give(take(b, "nightly"));
}

/* What is known of the clock was learned before the jump. */
TEST(test_try_right_after_a_clock_jump_is_granted, m)
{
    const int64_t jumps[] = {3600000, -7200000, 86400000};

    for (int i = 0; i < 3; i++) {
        assert_true(is_free(m, "nightly"));
        sqlock_fake_step_clock(fake_at(&w->place), jumps[i]);
        assert_int_equal(try_once(m, "nightly"), SQLOCK_OK);
    }
}

/* P4: the grant was written before the jump, and its answer comes after another has shown that. */
TEST(test_grant_from_before_a_known_jump_is_not_believed_for_longer)
{
    sqlock_acquire_opts o = wait_opts(2000, 3000, SQLOCK_NO_RENEW);
    sqlock *m, *other = open_manager(w, NULL);
    sqlock_op *op = NULL;
    sqlock_lock *lock = NULL;

    m = open_with(w, with.connections = 3);
    assert_true(is_free(m, "nightly"));
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 600);
    ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == 2, patience_ms(1000));
    sleep_ms(50);
    sqlock_fake_step_clock(fake_at(&w->place), 1200);
    ok(sqlock_list(m, NULL, ignore_info, NULL, &said));
    ok(sqlock_op_finish(op, &lock, &said));
    while (try_once(other, "nightly") == SQLOCK_EBUSY)
        sleep_ms(10);
    assert_false(sqlock_is_held(lock));
    drop(lock);
}

/* ---- another server -------------------------------------------------------------------------- */

/* P2, P7: what was not lost goes on; the next grant is above the new server's floor. */
TEST(test_grant_that_survived_a_failover_is_still_held, m)
{
    int32_t lease_ms = patience_ms(900);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t token = sqlock_lock_token(lock);

    ok(sqlock_renew(lock, &said));
    sqlock_fake_failover(fake_at(&w->place));
    stays_held(lock, lease_ms * 2);
    assert_int_equal(sqlock_lock_token(lock), token);
    give(lock);
    lock = take(m, "nightly");
    assert_between(token + 2, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    give(lock);
}

/* P5: the new server had lost the grant, so no release let the next holder in. */
TEST(test_release_after_a_failover_does_not_hide_the_loss, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 20000, SQLOCK_NO_RENEW), *next;

    sqlock_fake_failover(fake_at(&w->place));
    next = take(open_manager(w, NULL), "nightly");
    says(SQLOCK_ELOST, sqlock_release(lock, &said));
    drop(lock);
    give(next);
}

TEST(test_P2_tokens_rise_over_each_failover, m)
{
    int64_t last = 0;

    for (int i = 0; i < 4; i++) {
        /* The release may be forgotten: then the lease has to run out. */
        sqlock_lock *lock = take_for(m, "nightly", 300, 0);

        assert_between(last + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
        last = sqlock_lock_token(lock);
        give(lock);
        sqlock_fake_failover(fake_at(&w->place));
    }
}

TEST_MAIN_ON(fake)
