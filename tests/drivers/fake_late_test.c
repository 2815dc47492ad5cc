/* P3, P4, P5, P18 on the fake driver: renewals, breaks and lists that are lost; failures that the
 * database asks to be tried again; requests that the server runs late. */
#include "tests/drivers/fake_network.h"

/* ---- renew, break, list ---------------------------------------------------------------------- */

TEST(test_lost_reply_of_a_renewal_is_asked_again, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 5000, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(lock);

    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    sleep_ms(5);
    ok(sqlock_renew(lock, &said));
    assert_between(deadline + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    give(lock);
}

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

TEST(test_lost_reply_of_a_break_is_settled_within_the_call, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 60000, SQLOCK_NO_RENEW);

    fault(w, SQLOCK_STMT_BREAK_NOTED, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    assert_true(is_free(m, "nightly"));
}

/* P5, P18: it may have been released, or broken before; a second call knows that as well as the
 * first. */
TEST(test_release_is_unsure_as_long_as_nobody_tells_whether_it_was_broken)
{
    sqlock_open_opts oo = short_requests();
    sqlock *a = open_manager(w, &oo), *b = open_manager(w, NULL);
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

static int count_rows(const sqlock_info *info, void *user)
{
    *(int *)user += info->held;
    return 0;
}

/* P18: what the database asks to be tried again is tried again. */
TEST(test_serialization_failures_are_tried_again, m)
{
    sqlock_acquire_opts o = wait_opts(0, 5000, SQLOCK_NO_RENEW);
    const int kinds[] = {SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RENEW, SQLOCK_STMT_BREAK_NOTED,
                         SQLOCK_STMT_RELEASE, SQLOCK_STMT_LIST};
    int rows = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sqlock_fake_fault(fake_at(&w->place), kinds[i], SQLOCK_FAULT_ERROR, 0, 1, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o), *broken = take_with(m, "broken", &o);
    ok(sqlock_renew(lock, &said));
    ok(sqlock_break(m, "broken", sqlock_lock_token(broken), &said));
    ok(sqlock_list(m, NULL, count_rows, &rows, &said));
    assert_int_equal(rows, 1);
    give(lock);
}

TEST(test_failures_without_end_are_told_as_they_are)
{
    sqlock_open_opts oo = short_requests();
    sqlock *m = open_manager(w, &oo);
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

/* Behind a pooler its session may be another than the one that was greeted. Elsewhere it is a lost
 * race, and nobody else has to be asked. */
TEST(test_transaction_that_could_not_be_serialized_asks_who_is_there)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);

    for (int pooled = 0; pooled <= 1; pooled++) {
        sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
        long greeted;
        sqlock *m;

        oo.flags = pooled ? SQLOCK_OPEN_UNPREPARED : 0;
        m = open_manager(w, &oo);
        give(take_with(m, "nightly", &o));
        greeted = seen(w, SQLOCK_STMT_HANDSHAKE);
        fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_ERROR, 1, 0);
        give(take_with(m, "nightly", &o));
        assert_int_equal(seen(w, SQLOCK_STMT_HANDSHAKE), greeted + pooled);
    }
}

/* ---- requests that run late ------------------------------------------------------------------ */

/* P5: when it runs, nobody waits for it any more. */
TEST_AFTER(begin_fragile, test_late_acquire_grants_to_nobody, other)
{
    sqlock_acquire_opts o = wait_opts(0, 60000, 0);
    sqlock_lock *lock = take(other, "nightly");
    int64_t token = sqlock_lock_token(lock);
    long before;

    give(lock);
    lock = NULL;
    before = seen(w, SQLOCK_STMT_ACQUIRE);
    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LATE, REQUEST_MS + 750);
    says(SQLOCK_EUNSURE, sqlock_acquire(fragile, "nightly", &o, &lock, &said));
    assert_int_equal(seen(w, SQLOCK_STMT_ACQUIRE), before);
    assert_soon(seen(w, SQLOCK_STMT_ACQUIRE) == before + 1, patience_ms(5000));
    o = wait_opts(0, 0, 0);
    sqlock_lock *theirs = take_with(other, "nightly", &o);
    assert_int_equal(sqlock_lock_token(theirs), token + 1);
    mend();
    says(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(5000), &said));
    drop(lock);
    give(theirs);
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

/* P3 */
TEST_AFTER(begin_fragile, test_late_release_that_runs_in_the_server_does_not_free_successor, other)
{
    long before = seen(w, SQLOCK_STMT_RELEASE);
    sqlock_lock *next;

    release_unsure(w, fragile, SQLOCK_FAULT_LATE, 900, 500);
    next = take_for(other, "nightly", 5000, 0);
    assert_int_equal(seen(w, SQLOCK_STMT_RELEASE), before);
    assert_soon(seen(w, SQLOCK_STMT_RELEASE) == before + 1, patience_ms(3000));
    ok(sqlock_renew(next, &said));
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY);
    give(next);
}

TEST_MAIN_ON(fake)
