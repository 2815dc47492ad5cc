/* P3, P4, P5, P18 on the fake driver: requests and replies that are lost; failures that the
 * database asks to be tried again; requests that the server runs late. That each call survives each
 * fault at each of its points is in tests/counted. */
#include <sqlock/register.h>

#include "tests/drivers/fake_network.h"
#include "tests/drivers/suite_reap.h"

/* ---- acquire --------------------------------------------------------------------------------- */

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

/* P5: held by nobody for no longer than one lease. */
TEST_AFTER(begin_fragile, test_unsure_grant_that_no_one_settles_ends_with_its_lease, other)
{
    int64_t begun = now_us();

    take_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 600);
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY);
    mend(); /* it is not renewed, now that it could be */
    give(take(other, "nightly"));
    assert_between(590000, now_us() - begun, (600 + late_ms(500)) * INT64_C(1000));
}

/* ---- release --------------------------------------------------------------------------------- */

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
TEST_AFTER(begin_fragile, test_release_sent_again_says_released_after_others_came_and_went, other)
{
    sqlock_lock *lock = release_unsure(w, fragile, SQLOCK_FAULT_LOSE_REPLY, 0, 60000);

    give(take(other, "nightly"));
    mend();
    ok(sqlock_release(lock, &said));
    assert_state(SQLOCK_RELEASED, lock);
}

/* The same, when nothing but renewals has kept it until then. */
TEST_AFTER(begin_fragile, test_release_sent_again_says_released_after_renewals_and_others, other)
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
TEST_AFTER(begin_fragile, test_release_sent_again_after_the_end_and_others_says_lost, other)
{
    sqlock_lock *lock = release_unsure(w, fragile, SQLOCK_FAULT_LOSE_REQUEST, 0, 500);

    give(take(other, "nightly"));
    mend();
    says(SQLOCK_ELOST, sqlock_release(lock, &said));
    assert_lost(lock, SQLOCK_WHY_TAKEN);
}

/* ---- imported grants ------------------------------------------------------------------------- */

/* A request may have gone out on the connection that broke; but then nothing can be sent, nothing
 * is unsure but what it was before, and the error says what is wrong. */
TEST_AFTER(begin_fragile, test_import_that_reaches_no_server_says_so_and_can_be_settled_later, a)
{
    sqlock_lock *first = take_for(a, "nightly", 0, SQLOCK_NO_RENEW), *lock = NULL;

    ok(sqlock_import(fragile, "nightly", sqlock_lock_owner(first), sqlock_lock_token(first), NULL,
                     &lock, &said));
    sqlock_fake_down(fake_at(&w->place), 1);
    says(SQLOCK_EUNSURE, sqlock_settle(lock, 0, &said));
    assert_takes(0, REQUEST_MS, says(SQLOCK_EUNREACH, sqlock_settle(lock, 0, &said)));
    assert_state(SQLOCK_UNSURE, lock);
    sqlock_fake_down(fake_at(&w->place), 0);
    ok(sqlock_settle(lock, 0, &said));
    give(lock);
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

/* ---- renewals, breaks, lists ----------------------------------------------------------------- */

TEST_AFTER(begin_fragile, test_renewal_that_hears_nothing_leaves_the_deadline)
{
    sqlock_lock *lock = take_for(fragile, "nightly", 5000, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(lock);

    fail_and_cut(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REPLY, 0);
    says(SQLOCK_EUNSURE, sqlock_renew(lock, &said));
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_state(SQLOCK_HELD, lock);
    mend();
    ok(sqlock_renew(lock, &said));
    give(lock);
}

/* P7 */
TEST(test_automatic_renewals_survive_lost_messages, m)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REPLY, SQLOCK_FAULT_LOSE_REQUEST,
                                   SQLOCK_FAULT_ERROR};
    int32_t lease_ms = patience_ms(500);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);

    for (int i = 0; i < 3; i++)
        sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_RENEW, faults[i], 1, 1, 0);
    stays_held(lock, 3 * lease_ms);
    give(lock);
}

/* P5, P18: it may have been released, or broken before; a second call knows that too. */
TEST(test_release_is_unsure_as_long_as_no_one_says_whether_it_was_broken)
{
    sqlock *a = open_with(w, with.request_ms = REQUEST_MS), *b = open_manager(w, NULL);
    sqlock_lock *lock = take_for(a, "nightly", 60000, SQLOCK_NO_RENEW);

    ok(sqlock_break(b, "nightly", sqlock_lock_token(lock), &said));
    give(take(b, "nightly"));
    give(take(b, "nightly"));
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_WAS_BROKEN, SQLOCK_FAULT_ERROR, ALWAYS, 0);
    for (int i = 0; i < 2; i++) {
        says(SQLOCK_EUNSURE, sqlock_release(lock, &said));
        assert_true(said.flags & SQLOCK_MAYBE);
    }
}

/* P18: what the database asks to be tried again is tried again. */
TEST(test_serialization_failures_are_tried_again, m)
{
    sqlock_acquire_opts o = wait_opts(0, 5000, SQLOCK_NO_RENEW);
    const int kinds[] = {SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RENEW, SQLOCK_STMT_BREAK_NOTED,
                         SQLOCK_STMT_RELEASE, SQLOCK_STMT_LIST};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sqlock_fake_fault(fake_at(&w->place), kinds[i], SQLOCK_FAULT_ERROR, 0, 1, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o), *broken = take_with(m, "broken", &o);
    ok(sqlock_renew(lock, &said));
    ok(sqlock_break(m, "broken", sqlock_lock_token(broken), &said));
    assert_int_equal(count_rows(m).held, 1);
    give(lock);
}

TEST(test_failures_without_end_are_reported_as_they_are)
{
    sqlock *m = open_with(w, with.request_ms = REQUEST_MS);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *none = NULL;
    int64_t begun = now_us();

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_ERROR, ALWAYS, 0);
    says(SQLOCK_EDB, sqlock_acquire(m, "nightly", &o, &none, &said));
    assert_between(0, now_us() - begun, (REQUEST_MS + late_ms(100)) * INT64_C(1000));
    assert_null(none);
    assert_string_equal(said.sqlstate, "40001");
    assert_true(said.flags & SQLOCK_RETRY);
    assert_false(said.flags & SQLOCK_MAYBE);
    assert_non_null(strstr(said.text, "acquire \"nightly\""));
}

/* P4, P5: after the deadline the loss has been told. */
TEST_AFTER(begin_fragile, test_late_renewal_does_not_bring_a_lost_lease_back, other)
{
    sqlock_lock *lock = take_for(fragile, "nightly", 1000, SQLOCK_NO_RENEW);

    /* Between the deadline (900) and the end of the row's lease (1000). */
    fail_and_cut(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LATE, 950);
    says(SQLOCK_EUNSURE, sqlock_renew(lock, &said));
    await_loss(lock);
    int64_t lost = sqlock_now_us();
    give(take(other, "nightly"));
    assert_between(0, sqlock_now_us() - lost, late_ms(500) * INT64_C(1000));
    assert_int_equal(seen(w, SQLOCK_STMT_RENEW), 1);
}

/* ---- registers ------------------------------------------------------------------------------- */

static int set(sqlock *m, int64_t expected, int64_t *version)
{
    return sqlock_register_set(m, "config", "value", 5, expected, version, &said);
}

/* The row went before the answer to the second attempt came: nobody can tell. */
TEST(test_set_of_a_register_that_vanished_after_a_lost_reply_is_unsure, m)
{
    int64_t version = 0, there = -1;

    ok(set(m, 0, &version));
    fault(w, SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_VANISH, 1, 0);
    says(SQLOCK_EUNSURE, set(m, version, &there));
    assert_int_equal(there, -1);
}

/* The server's clock was put on: not_after has passed to it, and the next request knows better. */
TEST(test_set_learns_of_a_clock_that_jumped, m)
{
    int64_t version = 0;

    ok(set(m, 0, &version));
    sqlock_fake_step_clock(fake_at(&w->place), 3600000);
    ok(set(m, version, &version));
    sqlock_fake_step_clock(fake_at(&w->place), -7200000);
    ok(set(m, version, &version));
}

/* Each call that a lock could hang on ends by its own time. */
TEST(test_register_behind_a_silent_server_ends_on_time)
{
    sqlock *m = open_with(w, with.request_ms = 200);
    int64_t version = -1;
    size_t len;

    fault(w, -1, SQLOCK_FAULT_STALL, 100, 20000);
    assert_takes(200, 200 + late_ms(300), says(SQLOCK_EUNSURE, set(m, 0, &version)));
    assert_takes(
        200, 200 + late_ms(300),
        says(SQLOCK_ETIMEOUT, sqlock_register_get(m, "config", NULL, 0, &len, &version, &said)));
    assert_int_equal(version, -1);
}

/* ---- reaping --------------------------------------------------------------------------------- */

enum { ROWS = 5 };

/* A manager that is quick to give up, and rows of holders that died. */
static sqlock *leave_rows(struct world *w)
{
    sqlock *m = open_with(w, with.request_ms = 200);

    abandon_jobs(m, ROWS);
    age(w, HOUR_MS);
    return m;
}

/* A row that cannot be changed, as where somebody keeps it locked and the database cannot step over
 * it, holds up none of the others. */
TEST(test_row_that_fails_again_and_again_is_left_for_the_next_sweep)
{
    sqlock *m = leave_rows(w);

    sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_REAP, SQLOCK_FAULT_ERROR, 1, 3, 0);
    assert_int_equal(reap_with(m, with.batch = 1).cleared, ROWS - 1);
    assert_int_equal(count_rows(m).held, 1);
    assert_int_equal(reap_with(m, with.batch = 1).cleared, 1);
}

/* Two statements go well, and then no request arrives any more; or none from the first. */
TEST(test_reap_says_when_the_server_has_gone_or_is_silent)
{
    sqlock_reap_opts o = reap_at_once();
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = leave_rows(w);

    o.batch = 1;
    sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_REAP, SQLOCK_FAULT_LOSE_REQUEST, 2, ALWAYS,
                      0);
    says(SQLOCK_EUNREACH, sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.cleared, 2);
    assert_int_equal(said.flags & SQLOCK_MAYBE, 0);
    assert_int_equal(count_rows(m).held, ROWS - 2);
    stall(w, SQLOCK_STMT_SWEEP, ALWAYS, 60000);
    assert_takes(150, patience_ms(5000), says(SQLOCK_ETIMEOUT, sqlock_reap(m, &o, &r, &said)));
    assert_int_equal(r.cleared, 0);
}

TEST_MAIN_ON(fake)
