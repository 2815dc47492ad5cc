/* P2, P4, P6 on the fake driver: the server's clock jumps, a row vanishes, the server is another
 * one. */
#include "tests/drivers/fake_network.h"

/* ---- the server's clock ---------------------------------------------------------------------- */

static void test_clock_that_jumps_past_the_lease_ends_it(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    int32_t lease_ms = patience_ms(900);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t begun = sqlock_now_us();

    sqlock_fake_step_clock(fake_at(&w->place), 60000);
    await_loss(lock);
    /* By the first answer that shows it, which is a renewal's. */
    assert_between(0, sqlock_now_us() - begun, lease_ms * INT64_C(700));
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_CLOCK);
    sqlock_lock_free(lock);
    assert_true(is_free(m, "nightly"));
}

/* Any answer of the manager's shows it, so also for a lock that nobody renews. */
static void test_clock_jump_is_seen_in_any_answer(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take_for(m, "nightly", 20000, SQLOCK_NO_RENEW);

    sqlock_fake_step_clock(fake_at(&w->place), 60000);
    assert_true(sqlock_is_held(lock));
    assert_true(is_free(m, "other"));
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_CLOCK);
    sqlock_lock_free(lock);
}

static void test_small_clock_jump_is_outlived(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take_for(m, "nightly", 1500, 0);

    sqlock_fake_step_clock(fake_at(&w->place), 400);
    stays_held(lock, 1600);
    give(lock);
}

/* As chrony does it, and more: each answer shows a little jump, and the renewal that it was keeps
 * it.
 */
static void test_clock_that_is_slewed_ends_no_lease_that_is_renewed(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
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

static void test_clock_that_is_put_back_ends_nothing(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
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
    sqlock_lock_free(lock);
    give(take(b, "nightly"));
}

/* What is known of the clock was learned before the jump. */
static void test_try_right_after_a_clock_jump_is_granted(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    const int64_t jumps[] = {3600000, -7200000, 86400000};

    for (int i = 0; i < 3; i++) {
        assert_true(is_free(m, "nightly"));
        sqlock_fake_step_clock(fake_at(&w->place), jumps[i]);
        assert_int_equal(try_once(m, "nightly"), SQLOCK_OK);
    }
}

/* P4: the grant was written before the jump, and its answer comes after another one has shown that.
 */
static void test_grant_from_before_a_known_jump_is_not_believed_for_longer(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts o = wait_opts(2000, 3000, SQLOCK_NO_RENEW);
    sqlock *m, *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_op *op = NULL;
    sqlock_lock *lock = NULL;

    oo.connections = 3;
    m = open_manager(w, &oo);
    assert_true(is_free(m, "nightly"));
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 600);
    assert_ok(sqlock_acquire_start(m, "nightly", &o, &op, &err), &err);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == 2, patience_ms(1000));
    sleep_ms(50);
    sqlock_fake_step_clock(fake_at(&w->place), 1200);
    assert_ok(sqlock_list(m, NULL, ignore_info, NULL, &err), &err);
    assert_ok(sqlock_op_finish(op, &lock, &err), &err);
    while (try_once(other, "nightly") == SQLOCK_EBUSY)
        sleep_ms(10);
    assert_false(sqlock_is_held(lock));
    sqlock_lock_free(lock);
}

/* ---- rows that vanish ------------------------------------------------------------------------ */

static void test_vanished_row_is_told_as_gone(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    int32_t lease_ms = patience_ms(900);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t token = sqlock_lock_token(lock), begun = sqlock_now_us();

    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_VANISH, 1, 0);
    await_loss(lock);
    assert_between(0, sqlock_now_us() - begun, lease_ms * INT64_C(700));
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_GONE);
    sqlock_lock_free(lock);
    /* P2: also then */
    lock = take_for(m, "nightly", 5000, SQLOCK_NO_RENEW);
    assert_between(token + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_VANISH, 1, 0);
    assert_code(SQLOCK_ELOST, sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_GONE);
    sqlock_lock_free(lock);
}

/* ---- another server -------------------------------------------------------------------------- */

/* P2: the commit of the grant was lost, so its number must not come again. */
static void test_P2_tokens_rise_when_a_failover_lost_the_grant(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(a, "nightly", 20000, SQLOCK_NO_RENEW);
    int64_t token = sqlock_lock_token(lock);

    sqlock_fake_failover(fake_at(&w->place));
    sqlock_lock *next = take(b, "nightly");
    assert_between(token + 1, sqlock_lock_token(next), SQLOCK_TOKEN_MAX);
    assert_code(SQLOCK_ELOST, sqlock_renew(lock, &err), &err);
    sqlock_lock_free(lock);
    give(next);
}

/* P2, P7: what was not lost goes on; the next grant is above the new server's floor. */
static void test_grant_that_survived_a_failover_is_still_held(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    int32_t lease_ms = patience_ms(900);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    int64_t token = sqlock_lock_token(lock);

    assert_ok(sqlock_renew(lock, &err), &err);
    sqlock_fake_failover(fake_at(&w->place));
    stays_held(lock, lease_ms * 2);
    assert_int_equal(sqlock_lock_token(lock), token);
    give(lock);
    lock = take(m, "nightly");
    assert_between(token + 2, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    give(lock);
}

static void test_P2_tokens_rise_over_each_failover(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_clock_that_jumps_past_the_lease_ends_it),
    cmocka_unit_test(test_clock_jump_is_seen_in_any_answer),
    cmocka_unit_test(test_small_clock_jump_is_outlived),
    cmocka_unit_test(test_clock_that_is_slewed_ends_no_lease_that_is_renewed),
    cmocka_unit_test(test_clock_that_is_put_back_ends_nothing),
    cmocka_unit_test(test_try_right_after_a_clock_jump_is_granted),
    cmocka_unit_test(test_grant_from_before_a_known_jump_is_not_believed_for_longer),
    cmocka_unit_test(test_vanished_row_is_told_as_gone),
    cmocka_unit_test(test_P2_tokens_rise_when_a_failover_lost_the_grant),
    cmocka_unit_test(test_grant_that_survived_a_failover_is_still_held),
    cmocka_unit_test(test_P2_tokens_rise_over_each_failover),
};

TEST_MAIN_ON(fake, tests)
