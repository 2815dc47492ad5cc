/* P3, P5 on the fake driver: requests and replies of acquire and release that are lost. */
#include "tests/drivers/fake_network.h"

/* ---- acquire --------------------------------------------------------------------------------- */

static void test_lost_request_of_an_acquire_is_sent_again(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REQUEST, 1, 0);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_true(sqlock_lock_token(lock) > 0);
    give(lock);
}

/* No second row, no wait for one's own ghost. */
static void test_lost_grant_is_settled_within_the_call(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_true(sqlock_lock_token(lock) > 0);
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE), 2);
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    give(lock);
}

static void test_lost_refusal_is_a_refusal_in_the_end(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
    sqlock_lock *lock = take(a, "nightly");

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
    give(lock);
}

static void test_try_that_hears_nothing_more_is_unsure_and_settled_later(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0);

    assert_code(SQLOCK_ESTATE, sqlock_renew(lock, &err), &err);
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY); /* it was granted */
    mend();
    int64_t before = sqlock_now_us();
    assert_ok(sqlock_settle(lock, patience_ms(5000), &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_true(sqlock_lock_token(lock) > 0);
    assert_between(before + 26000000, sqlock_lock_deadline_us(lock), INT64_MAX);
    give(lock);
}

/* P4, P5: it was granted, too late to be handed out, and could not be asked for again. */
static void test_late_grant_that_is_not_renewed_is_unsure(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(2 * REQUEST_MS, 300, 0);
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    spy_find_dead(SQLOCK_STMT_ACQUIRE, 1);
    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 200);
    assert_code(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE),
                     2); /* one to open */
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    mend();
    assert_ok(sqlock_release(lock, &err), &err);
    assert_true(is_free(other, "nightly"));
    sqlock_lock_free(lock);
}

/* Nothing had been granted, and nothing is: whoever asks first has it. */
static void test_settle_says_busy_when_another_was_granted_the_lock(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_unsure(w, m, SQLOCK_FAULT_LOSE_REQUEST, 0);
    sqlock_lock *theirs = take(other, "nightly");

    mend();
    assert_code(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(5000), &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NOT_GRANTED);
    sqlock_lock_free(lock);
    assert_true(sqlock_is_held(theirs));
    give(theirs);
}

static void test_settle_without_an_answer_ends_on_time_and_stays_unsure(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w);
    sqlock_error err = {0};
    sqlock_lock *lock = take_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0);
    int64_t begun = now_us();

    assert_code(SQLOCK_EUNSURE, sqlock_settle(lock, 400, &err), &err);
    assert_between(350000, now_us() - begun, (400 + late_ms(100)) * INT64_C(1000));
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    begun = now_us();
    assert_code(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &err), &err);
    assert_between(0, now_us() - begun, (REQUEST_MS + late_ms(100)) * INT64_C(1000));
    mend();
    assert_ok(sqlock_settle(lock, SQLOCK_WAIT_FOREVER, &err), &err);
    give(lock);
}

static void test_release_of_an_unsure_grant_gives_it_back(void **state)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REPLY, SQLOCK_FAULT_LOSE_REQUEST};
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};

    for (int i = 0; i < 2; i++) {
        sqlock_lock *lock = take_unsure(w, m, faults[i], 0);

        mend();
        assert_ok(sqlock_release(lock, &err), &err);
        assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
        sqlock_lock_free(lock);
        assert_true(is_free(other, "nightly"));
    }
}

/* P5: held by nobody for no longer than one lease. */
static void test_unsure_grant_that_nobody_settles_ends_with_its_lease(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    int64_t begun = now_us();
    sqlock_lock *lock = take_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 600);

    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY);
    mend(); /* it is not renewed, now that it could be */
    give(take(other, "nightly"));
    assert_between(590000, now_us() - begun, (600 + late_ms(500)) * INT64_C(1000));
    sqlock_lock_free(lock);
}

static int count_work(sqlock_lock *lock, void *user)
{
    *(int *)user += sqlock_is_held(lock);
    return 0;
}

static void test_scoped_work_settles_for_its_caller(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    int calls = 0;

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    assert_ok(sqlock_with(m, "nightly", &o, count_work, &calls, NULL, &err), &err);
    assert_int_equal(calls, 1);
    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 0);
    o.lease_ms = 1500;
    assert_code(SQLOCK_EUNSURE, sqlock_with(m, "nightly", &o, count_work, &calls, NULL, &err),
                &err);
    assert_int_equal(calls, 1);
    give(take(other, "nightly"));
}

/* ---- release --------------------------------------------------------------------------------- */

static void test_lost_reply_of_a_release_is_settled_within_the_call(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take(m, "nightly");

    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    give(lock);
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_RELEASE), 2);
    assert_true(is_free(m, "nightly"));
}

static void test_release_asked_again_says_released(void **state)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REPLY, SQLOCK_FAULT_LOSE_REQUEST};
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};

    for (int i = 0; i < 4; i++) {
        sqlock_lock *lock = release_unsure(w, m, faults[i % 2], 0, 0);

        mend();
        if (i < 2)
            assert_ok(sqlock_release(lock, &err), &err);
        else
            assert_ok(sqlock_settle(lock, patience_ms(5000), &err), &err);
        assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
        sqlock_lock_free(lock);
        assert_true(is_free(other, "nightly"));
    }
}

static void test_settle_of_a_release_without_an_answer_stays_unsure(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w);
    sqlock_error err = {0};
    sqlock_lock *lock = release_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0, 0);

    assert_code(SQLOCK_EUNSURE, sqlock_settle(lock, 50, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    mend();
    assert_ok(sqlock_settle(lock, patience_ms(5000), &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    sqlock_lock_free(lock);
}

/* P5: the row tells of the other owner now. Nothing but our release can have let it in so early. */
static void test_release_asked_again_says_released_after_others_came_and_went(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = release_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0, 60000);

    give(take(other, "nightly"));
    mend();
    assert_ok(sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    sqlock_lock_free(lock);
}

/* The same, when nothing but renewals has kept it until then. */
static void test_release_asked_again_says_released_after_renewals_and_others(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(m, "nightly", 3000, SQLOCK_NO_RENEW);

    sleep_ms(2000);
    assert_ok(sqlock_renew(lock, &err), &err);
    sleep_ms(1200);
    fail_and_cut(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 0);
    assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
    give(take(other, "nightly"));
    mend();
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

/* The lease has ended meanwhile, which lets others in as well: it was held to the end, perhaps. */
static void test_release_asked_again_after_the_end_and_others_says_lost(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = release_unsure(w, m, SQLOCK_FAULT_LOSE_REQUEST, 0, 500);

    give(take(other, "nightly"));
    mend();
    assert_code(SQLOCK_ELOST, sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_TAKEN);
    sqlock_lock_free(lock);
}

static void test_release_asked_again_does_not_free_successor(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = release_unsure(w, m, SQLOCK_FAULT_LOSE_REPLY, 0, 60000);
    sqlock_lock *next = take(other, "nightly");

    mend();
    assert_ok(sqlock_settle(lock, patience_ms(5000), &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    assert_ok(sqlock_renew(next, &err), &err);
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    sqlock_lock_free(lock);
    give(next);
}

/* ---- imported grants ------------------------------------------------------------------------- */

static sqlock_lock *import_of(sqlock *m, sqlock_lock *lock)
{
    sqlock_error err = {0};
    sqlock_lock *imported = NULL;

    assert_ok(sqlock_import(m, "nightly", sqlock_lock_owner(lock), sqlock_lock_token(lock), NULL,
                            &imported, &err),
              &err);
    return imported;
}

static void test_lost_reply_leaves_an_import_unsure_until_it_is_settled(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_fragile(w);
    sqlock_error err = {0};
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW), *lock = import_of(b, first);

    fail_and_cut(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REPLY, 0);
    assert_code(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    mend();
    assert_ok(sqlock_settle(lock, 0, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    give(lock);
    sqlock_lock_free(first);
}

/* A request may have gone out on the connection that broke; but then nothing can be sent, nothing
 * is unsure but what it was before, and the error says what is wrong. */
static void test_import_that_reaches_no_server_says_so_and_can_be_settled_later(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_fragile(w);
    sqlock_error err = {0};
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW), *lock = import_of(b, first);
    int64_t begun;

    sqlock_fake_down(fake_at(&w->place), 1);
    assert_code(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &err), &err);
    begun = now_us();
    assert_code(SQLOCK_EUNREACH, sqlock_settle(lock, 0, &err), &err);
    assert_between(0, now_us() - begun, REQUEST_MS * INT64_C(1000));
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    sqlock_fake_down(fake_at(&w->place), 0);
    assert_ok(sqlock_settle(lock, 0, &err), &err);
    give(lock);
    sqlock_lock_free(first);
}

static void test_lost_release_of_an_import_is_settled_as_released(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_fragile(w);
    sqlock_error err = {0};
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW), *lock = import_of(b, first);

    fail_and_cut(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 0);
    assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
    mend();
    assert_ok(sqlock_settle(lock, 0, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    assert_true(is_free(a, "nightly"));
    sqlock_lock_free(lock);
    sqlock_lock_free(first);
}

/* P4: the answer to a slow renewal is renewed once more before the lock is said to be held. */
static void test_import_that_is_answered_late_has_half_of_its_lease_left(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW), *lock = NULL;
    sqlock_acquire_opts o = wait_opts(0, 600, SQLOCK_NO_RENEW);

    assert_ok(sqlock_import(b, "nightly", sqlock_lock_owner(first), sqlock_lock_token(first), &o,
                            &lock, &err),
              &err);
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_SLOW, 1, 400);
    assert_ok(sqlock_settle(lock, 0, &err), &err);
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_RENEW), 2);
    assert_between(sqlock_now_us() + 150000, sqlock_lock_deadline_us(lock), INT64_MAX);
    give(lock);
    sqlock_lock_free(first);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_lost_request_of_an_acquire_is_sent_again),
    cmocka_unit_test(test_lost_grant_is_settled_within_the_call),
    cmocka_unit_test(test_lost_refusal_is_a_refusal_in_the_end),
    cmocka_unit_test(test_try_that_hears_nothing_more_is_unsure_and_settled_later),
    cmocka_unit_test(test_late_grant_that_is_not_renewed_is_unsure),
    cmocka_unit_test(test_settle_says_busy_when_another_was_granted_the_lock),
    cmocka_unit_test(test_settle_without_an_answer_ends_on_time_and_stays_unsure),
    cmocka_unit_test(test_release_of_an_unsure_grant_gives_it_back),
    cmocka_unit_test(test_unsure_grant_that_nobody_settles_ends_with_its_lease),
    cmocka_unit_test(test_scoped_work_settles_for_its_caller),
    cmocka_unit_test(test_lost_reply_of_a_release_is_settled_within_the_call),
    cmocka_unit_test(test_release_asked_again_says_released),
    cmocka_unit_test(test_settle_of_a_release_without_an_answer_stays_unsure),
    cmocka_unit_test(test_release_asked_again_says_released_after_others_came_and_went),
    cmocka_unit_test(test_release_asked_again_says_released_after_renewals_and_others),
    cmocka_unit_test(test_release_asked_again_after_the_end_and_others_says_lost),
    cmocka_unit_test(test_release_asked_again_does_not_free_successor),
    cmocka_unit_test(test_lost_reply_leaves_an_import_unsure_until_it_is_settled),
    cmocka_unit_test(test_import_that_reaches_no_server_says_so_and_can_be_settled_later),
    cmocka_unit_test(test_lost_release_of_an_import_is_settled_as_released),
    cmocka_unit_test(test_import_that_is_answered_late_has_half_of_its_lease_left),
};

TEST_MAIN_ON(fake, tests)
