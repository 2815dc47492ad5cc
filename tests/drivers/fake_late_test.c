/* P3, P4, P5, P18 on the fake driver: renewals, breaks and lists that are lost; failures that the
 * database asks to be tried again; requests that the server runs late. */
#include <string.h>

#include "tests/drivers/fake_network.h"

/* ---- renew, break, list ---------------------------------------------------------------------- */

static void test_lost_reply_of_a_renewal_is_asked_again(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(m, "nightly", 5000, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(lock);

    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    sleep_ms(5);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_between(deadline + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    give(lock);
}

static void test_renewal_that_hears_nothing_leaves_the_deadline(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(m, "nightly", 5000, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(lock);

    fail_and_cut(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REPLY, 0);
    assert_code(SQLOCK_EUNSURE, sqlock_renew(lock, &err), &err);
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    mend();
    assert_ok(sqlock_renew(lock, &err), &err);
    give(lock);
}

/* P7 */
static void test_automatic_renewals_survive_lost_messages(void **state)
{
    const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REPLY, SQLOCK_FAULT_LOSE_REQUEST,
                                   SQLOCK_FAULT_ERROR};
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    int32_t lease_ms = patience_ms(500);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);

    for (int i = 0; i < 3; i++)
        sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_RENEW, faults[i], 1, 1, 0);
    stays_held(lock, 3 * lease_ms);
    give(lock);
}

static void test_lost_reply_of_a_break_is_settled_within_the_call(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(m, "nightly", 60000, SQLOCK_NO_RENEW);

    fault(w, SQLOCK_STMT_BREAK_NOTED, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    assert_ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &err), &err);
    assert_true(is_free(m, "nightly"));
    sqlock_lock_free(lock);
}

/* P5, P18: it may have been released, or broken before; a second call knows that as well as the
 * first. */
static void test_release_is_unsure_as_long_as_nobody_tells_whether_it_was_broken(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = short_requests();
    sqlock *a = open_manager(w, &oo), *b = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(a, "nightly", 60000, SQLOCK_NO_RENEW);

    assert_ok(sqlock_break(b, "nightly", sqlock_lock_token(lock), &err), &err);
    give(take(b, "nightly"));
    give(take(b, "nightly"));
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_WAS_BROKEN, SQLOCK_FAULT_ERROR, ALWAYS, 0);
    for (int i = 0; i < 2; i++) {
        assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
        assert_true(err.flags & SQLOCK_MAYBE);
    }
    sqlock_lock_free(lock);
}

static int count_rows(const sqlock_info *info, void *user)
{
    *(int *)user += info->held;
    return 0;
}

/* P18: what the database asks to be tried again is tried again. */
static void test_serialization_failures_are_tried_again(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_acquire_opts o = wait_opts(0, 5000, SQLOCK_NO_RENEW);
    const int kinds[] = {SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RENEW, SQLOCK_STMT_BREAK_NOTED,
                         SQLOCK_STMT_RELEASE, SQLOCK_STMT_LIST};
    int rows = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sqlock_fake_fault(fake_at(&w->place), kinds[i], SQLOCK_FAULT_ERROR, 0, 1, 0);
    sqlock_lock *lock = take_with(m, "nightly", &o), *broken = take_with(m, "broken", &o);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(sqlock_break(m, "broken", sqlock_lock_token(broken), &err), &err);
    assert_ok(sqlock_list(m, NULL, count_rows, &rows, &err), &err);
    assert_int_equal(rows, 1);
    sqlock_lock_free(broken);
    give(lock);
}

static void test_failures_without_end_are_told_as_they_are(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = short_requests();
    sqlock *m = open_manager(w, &oo);
    sqlock_error err = {0};
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *none = NULL;
    int64_t begun = now_us();

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_ERROR, ALWAYS, 0);
    assert_code(SQLOCK_EDB, sqlock_acquire(m, "nightly", &o, &none, &err), &err);
    assert_between(0, now_us() - begun, (REQUEST_MS + late_ms(100)) * INT64_C(1000));
    assert_null(none);
    assert_string_equal(err.sqlstate, "40001");
    assert_true(err.flags & SQLOCK_RETRY);
    assert_false(err.flags & SQLOCK_MAYBE);
    assert_non_null(strstr(err.text, "acquire \"nightly\""));
}

/* Behind a pooler its session may be another than the one that was greeted. Elsewhere it is a lost
 * race, and nobody else has to be asked. */
static void test_transaction_that_could_not_be_serialized_asks_who_is_there(void **state)
{
    struct world *w = world(state);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);

    for (int pooled = 0; pooled <= 1; pooled++) {
        sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
        long greeted;
        sqlock *m;

        oo.flags = pooled ? SQLOCK_OPEN_UNPREPARED : 0;
        m = open_manager(w, &oo);
        give(take_with(m, "nightly", &o));
        greeted = sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_HANDSHAKE);
        fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_ERROR, 1, 0);
        give(take_with(m, "nightly", &o));
        assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_HANDSHAKE),
                         greeted + pooled);
    }
}

/* ---- requests that run late ------------------------------------------------------------------ */

/* P5: when it runs, nobody waits for it any more. */
static void test_late_acquire_grants_to_nobody(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_acquire_opts o = wait_opts(0, 60000, 0);
    sqlock_lock *lock = take(other, "nightly");
    int64_t token = sqlock_lock_token(lock);
    long seen;

    give(lock);
    lock = NULL;
    seen = sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE);
    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LATE, REQUEST_MS + 750);
    assert_code(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE), seen);
    assert_soon(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_ACQUIRE) == seen + 1,
                patience_ms(5000));
    o = wait_opts(0, 0, 0);
    sqlock_lock *theirs = take_with(other, "nightly", &o);
    assert_int_equal(sqlock_lock_token(theirs), token + 1);
    mend();
    assert_code(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(5000), &err), &err);
    sqlock_lock_free(lock);
    give(theirs);
}

/* P4, P5: after the deadline the loss has been told. */
static void test_late_renewal_does_not_bring_a_lost_lease_back(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(m, "nightly", 1000, SQLOCK_NO_RENEW);

    /* Between the deadline (900) and the end of the row's lease (1000). */
    fail_and_cut(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LATE, 950);
    assert_code(SQLOCK_EUNSURE, sqlock_renew(lock, &err), &err);
    await_loss(lock);
    int64_t lost = sqlock_now_us();
    give(take(other, "nightly"));
    assert_between(0, sqlock_now_us() - lost, late_ms(500) * INT64_C(1000));
    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_RENEW), 1);
    sqlock_lock_free(lock);
}

/* P3 */
static void test_late_release_that_runs_in_the_server_does_not_free_successor(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_fragile(w), *other = open_manager(w, NULL);
    sqlock_error err = {0};
    long seen = sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_RELEASE);
    sqlock_lock *lock = release_unsure(w, m, SQLOCK_FAULT_LATE, 900, 500);
    sqlock_lock *next = take_for(other, "nightly", 5000, 0);

    assert_int_equal(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_RELEASE), seen);
    assert_soon(sqlock_fake_seen(fake_at(&w->place), SQLOCK_STMT_RELEASE) == seen + 1,
                patience_ms(3000));
    assert_ok(sqlock_renew(next, &err), &err);
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY);
    sqlock_lock_free(lock);
    give(next);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_lost_reply_of_a_renewal_is_asked_again),
    cmocka_unit_test(test_renewal_that_hears_nothing_leaves_the_deadline),
    cmocka_unit_test(test_automatic_renewals_survive_lost_messages),
    cmocka_unit_test(test_lost_reply_of_a_break_is_settled_within_the_call),
    cmocka_unit_test(test_release_is_unsure_as_long_as_nobody_tells_whether_it_was_broken),
    cmocka_unit_test(test_serialization_failures_are_tried_again),
    cmocka_unit_test(test_failures_without_end_are_told_as_they_are),
    cmocka_unit_test(test_transaction_that_could_not_be_serialized_asks_who_is_there),
    cmocka_unit_test(test_late_acquire_grants_to_nobody),
    cmocka_unit_test(test_late_renewal_does_not_bring_a_lost_lease_back),
    cmocka_unit_test(test_late_release_that_runs_in_the_server_does_not_free_successor),
};

TEST_MAIN_ON(fake, tests)
