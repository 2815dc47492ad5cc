/* P3, P5 on the fake driver: requests and replies of acquire and release that are lost. */
#include "tests/drivers/fake_network.h"

/* ---- acquire --------------------------------------------------------------------------------- */

TEST(test_lost_request_of_an_acquire_is_sent_again, m)
{
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REQUEST, 1, 0);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_true(sqlock_lock_token(lock) > 0);
    give(lock);
}

/* No second row, no wait for one's own ghost. */
TEST(test_lost_grant_is_settled_within_the_call, m)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_true(sqlock_lock_token(lock) > 0);
    assert_int_equal(seen(w, SQLOCK_STMT_ACQUIRE), 2);
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    give(lock);
}

TEST(test_lost_refusal_is_a_refusal_in_the_end, a, b)
{
    sqlock_lock *lock = take(a, "nightly");

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
    give(lock);
}

TEST_AFTER(begin_fragile, test_try_that_hears_nothing_more_is_unsure_and_settled_later, other)
{
    sqlock_lock *lock = take_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 0);

    says(SQLOCK_ESTATE, sqlock_renew(lock, &said));
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY); /* it was granted */
    mend();
    int64_t before = sqlock_now_us();
    ok(sqlock_settle(lock, patience_ms(5000), &said));
    assert_state(SQLOCK_HELD, lock);
    assert_true(sqlock_lock_token(lock) > 0);
    assert_between(before + 26000000, sqlock_lock_deadline_us(lock), INT64_MAX);
    give(lock);
}

/* P4, P5: it was granted, too late to be handed out, and could not be asked for again. */
TEST_AFTER(begin_fragile, test_late_grant_that_is_not_renewed_is_unsure, other)
{
    sqlock_acquire_opts o = wait_opts(2 * REQUEST_MS, 300, 0);
    sqlock_lock *lock = NULL;

    spy_find_dead(SQLOCK_STMT_ACQUIRE, 1);
    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 200);
    says(SQLOCK_EUNSURE, sqlock_acquire(fragile, "nightly", &o, &lock, &said));
    assert_int_equal(seen(w, SQLOCK_STMT_ACQUIRE), 2); /* one to open */
    assert_state(SQLOCK_UNSURE, lock);
    mend();
    ok(sqlock_release(lock, &said));
    assert_true(is_free(other, "nightly"));
    drop(lock);
}

/* Nothing had been granted, and nothing is: whoever asks first has it. */
TEST_AFTER(begin_fragile, test_settle_says_busy_when_another_was_granted_the_lock, other)
{
    sqlock_lock *lock = take_unsure(w, fragile, SQLOCK_FAULT_LOSE_REQUEST, 0);
    sqlock_lock *theirs = take(other, "nightly");

    mend();
    says(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(5000), &said));
    assert_lost(lock, SQLOCK_WHY_NOT_GRANTED);
    assert_true(sqlock_is_held(theirs));
    give(theirs);
}

TEST_AFTER(begin_fragile, test_settle_without_an_answer_ends_on_time_and_stays_unsure)
{
    sqlock_lock *lock = take_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 0);

    assert_takes(350, 400 + late_ms(100), says(SQLOCK_EUNSURE, sqlock_settle(lock, 400, &said)));
    assert_state(SQLOCK_UNSURE, lock);
    assert_takes(0, REQUEST_MS + late_ms(100), says(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &said)));
    mend();
    ok(sqlock_settle(lock, SQLOCK_WAIT_FOREVER, &said));
    give(lock);
}

TEST(test_release_of_an_unsure_grant_gives_it_back)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REPLY, SQLOCK_FAULT_LOSE_REQUEST};
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);

    for (int i = 0; i < 2; i++) {
        sqlock_lock *lock = take_unsure(w, m, faults[i], 0);

        mend();
        ok(sqlock_release(lock, &said));
        assert_state(SQLOCK_RELEASED, lock);
        assert_true(is_free(other, "nightly"));
    }
}

/* P5: held by nobody for no longer than one lease. */
TEST_AFTER(begin_fragile, test_unsure_grant_that_nobody_settles_ends_with_its_lease, other)
{
    int64_t begun = now_us();

    take_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 600);
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY);
    mend(); /* it is not renewed, now that it could be */
    give(take(other, "nightly"));
    assert_between(590000, now_us() - begun, (600 + late_ms(500)) * INT64_C(1000));
}

static int count_work(sqlock_lock *lock, void *user)
{
    *(int *)user += sqlock_is_held(lock);
    return 0;
}

TEST_AFTER(begin_fragile, test_scoped_work_settles_for_its_caller, other)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    int calls = 0;

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    ok(sqlock_with(fragile, "nightly", &o, count_work, &calls, NULL, &said));
    assert_int_equal(calls, 1);
    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 0);
    o.lease_ms = 1500;
    says(SQLOCK_EUNSURE, sqlock_with(fragile, "nightly", &o, count_work, &calls, NULL, &said));
    assert_int_equal(calls, 1);
    give(take(other, "nightly"));
}

/* ---- release --------------------------------------------------------------------------------- */

TEST(test_lost_reply_of_a_release_is_settled_within_the_call, m)
{
    sqlock_lock *lock = take(m, "nightly");

    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    give(lock);
    assert_int_equal(seen(w, SQLOCK_STMT_RELEASE), 2);
    assert_true(is_free(m, "nightly"));
}

TEST(test_release_asked_again_says_released)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REPLY, SQLOCK_FAULT_LOSE_REQUEST};
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);

    for (int i = 0; i < 4; i++) {
        sqlock_lock *lock = release_unsure(w, m, faults[i % 2], 0, 0);

        mend();
        if (i < 2)
            ok(sqlock_release(lock, &said));
        else
            ok(sqlock_settle(lock, patience_ms(5000), &said));
        assert_state(SQLOCK_RELEASED, lock);
        assert_true(is_free(other, "nightly"));
    }
}

TEST_AFTER(begin_fragile, test_settle_of_a_release_without_an_answer_stays_unsure)
{
    sqlock_lock *lock = release_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 0, 0);

    says(SQLOCK_EUNSURE, sqlock_settle(lock, 50, &said));
    assert_state(SQLOCK_UNSURE, lock);
    mend();
    ok(sqlock_settle(lock, patience_ms(5000), &said));
    assert_state(SQLOCK_RELEASED, lock);
}

/* P5: the row tells of the other owner now. Nothing but our release can have let it in so early. */
TEST_AFTER(begin_fragile, test_release_asked_again_says_released_after_others_came_and_went, other)
{
    sqlock_lock *lock = release_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 0, 60000);

    give(take(other, "nightly"));
    mend();
    ok(sqlock_release(lock, &said));
    assert_state(SQLOCK_RELEASED, lock);
}

/* The same, when nothing but renewals has kept it until then. */
TEST_AFTER(begin_fragile, test_release_asked_again_says_released_after_renewals_and_others, other)
{
    sqlock_lock *lock = take_for(fragile, "nightly", 3000, SQLOCK_NO_RENEW);

    sleep_ms(2000);
    ok(sqlock_renew(lock, &said));
    sleep_ms(1200);
    fail_and_cut(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 0);
    says(SQLOCK_EUNSURE, sqlock_release(lock, &said));
    give(take(other, "nightly"));
    mend();
    ok(sqlock_release(lock, &said));
}

/* The lease has ended meanwhile, which lets others in as well: it was held to the end, perhaps. */
TEST_AFTER(begin_fragile, test_release_asked_again_after_the_end_and_others_says_lost, other)
{
    sqlock_lock *lock = release_unsure(w, fragile, SQLOCK_FAULT_LOSE_REQUEST, 0, 500);

    give(take(other, "nightly"));
    mend();
    says(SQLOCK_ELOST, sqlock_release(lock, &said));
    assert_lost(lock, SQLOCK_WHY_TAKEN);
}

TEST_AFTER(begin_fragile, test_release_asked_again_does_not_free_successor, other)
{
    sqlock_lock *lock = release_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 0, 60000);
    sqlock_lock *next = take(other, "nightly");

    mend();
    ok(sqlock_settle(lock, patience_ms(5000), &said));
    assert_state(SQLOCK_RELEASED, lock);
    ok(sqlock_renew(next, &said));
    assert_int_equal(try_once(fragile, "nightly"), SQLOCK_EBUSY);
    give(next);
}

/* ---- imported grants ------------------------------------------------------------------------- */

static sqlock_lock *import_of(sqlock *m, sqlock_lock *lock)
{
    sqlock_lock *imported = NULL;

    ok(sqlock_import(m, "nightly", sqlock_lock_owner(lock), sqlock_lock_token(lock), NULL,
                     &imported, &said));
    return keep(imported);
}

TEST_AFTER(begin_fragile, test_lost_reply_leaves_an_import_unsure_until_it_is_settled, a)
{
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW),
                *lock = import_of(fragile, first);

    fail_and_cut(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REPLY, 0);
    says(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &said));
    assert_state(SQLOCK_UNSURE, lock);
    mend();
    ok(sqlock_settle(lock, 0, &said));
    assert_state(SQLOCK_HELD, lock);
    give(lock);
}

/* A request may have gone out on the connection that broke; but then nothing can be sent, nothing
 * is unsure but what it was before, and the error says what is wrong. */
TEST_AFTER(begin_fragile, test_import_that_reaches_no_server_says_so_and_can_be_settled_later, a)
{
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW),
                *lock = import_of(fragile, first);

    sqlock_fake_down(fake_at(&w->place), 1);
    says(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &said));
    assert_takes(0, REQUEST_MS, says(SQLOCK_EUNREACH, sqlock_settle(lock, 0, &said)));
    assert_state(SQLOCK_UNSURE, lock);
    sqlock_fake_down(fake_at(&w->place), 0);
    ok(sqlock_settle(lock, 0, &said));
    give(lock);
}

TEST_AFTER(begin_fragile, test_lost_release_of_an_import_is_settled_as_released, a)
{
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW),
                *lock = import_of(fragile, first);

    fail_and_cut(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 0);
    says(SQLOCK_EUNSURE, sqlock_release(lock, &said));
    mend();
    ok(sqlock_settle(lock, 0, &said));
    assert_state(SQLOCK_RELEASED, lock);
    assert_true(is_free(a, "nightly"));
}

/* P4: the answer to a slow renewal is renewed once more before the lock is said to be held. */
TEST(test_import_that_is_answered_late_has_half_of_its_lease_left, a, b)
{
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW), *lock = NULL;
    sqlock_acquire_opts o = wait_opts(0, 600, SQLOCK_NO_RENEW);

    ok(sqlock_import(b, "nightly", sqlock_lock_owner(first), sqlock_lock_token(first), &o, &lock,
                     &said));
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_SLOW, 1, 400);
    ok(sqlock_settle(lock, 0, &said));
    assert_int_equal(seen(w, SQLOCK_STMT_RENEW), 2);
    assert_between(sqlock_now_us() + 150000, sqlock_lock_deadline_us(lock), INT64_MAX);
    give(lock);
}

TEST_MAIN_ON(fake)
