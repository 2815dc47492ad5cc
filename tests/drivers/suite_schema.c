/* A session without prepared statements, and rows that somebody else has changed. What migrations
 * make, and versions, are in tests/schema. */
#include "tests/drivers/suite.h"

/* Where sessions have to be set up it is refused. */
TEST(test_session_without_prepared_statements_works)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    o.flags = SQLOCK_OPEN_UNPREPARED;
    if (strcmp(w->q->name, "mysql") == 0) {
        says(SQLOCK_EREFUSED, open_here(w, &o, &m, &said));
        return;
    }
    m = open_manager(w, &o);
    sqlock_lock *lock = take_for(m, "nightly", 300, 0);
    sleep_ms(350);
    ok(sqlock_renew(lock, &said));
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    give(lock);
}

CORE_TEST(test_open_without_options_takes_the_defaults)
{
    sqlock *m = NULL;

    if (w->place.url && !w->place.schema)
        ok(sqlock_open(spied_driver(), w->place.url, NULL, &m, &said));
    else
        ok(open_here(w, NULL, &m, &said));
    sqlock_lock *lock = take(m, "nightly");
    assert_between(sqlock_now_us() + 25000000, sqlock_lock_deadline_us(lock),
                   sqlock_now_us() + 28000000);
    give(lock);
    close_here(m);
}

/* P20: whatever it means, it is not a lease that has run out. */
TEST_IF(SQL, test_row_of_an_unknown_kind_is_refused, m)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(3000), 0, 0);
    sqlock_lock *none = NULL;

    give(take(m, "nightly"));
    run_past(w, "UPDATE {lock} SET kind = 7");
    says(SQLOCK_ESCHEMA, sqlock_acquire(m, "nightly", &o, &none, &said));
    assert_null(none);
    assert_true(is_free(m, "other"));
    run_past(w, "UPDATE {lock} SET kind = 0");
    assert_true(is_free(m, "nightly"));
}

static void expect_corrupt(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), 0, 0);
    sqlock_lock *none = NULL;

    assert_takes(0, patience_ms(1000),
                 says(SQLOCK_ECORRUPT, sqlock_acquire(m, name, &o, &none, &said)));
    assert_null(none);
    assert_non_null(strstr(said.text, "meta"));
}

/* Without it there is no token to be drawn. The manager has seen it when it was opened. */
TEST_IF(SQL, test_meta_row_that_vanished_is_reported_at_once, m)
{
    give(take(m, "nightly"));
    run_past(w, "DELETE FROM {meta}");
    expect_corrupt(m, "nightly");
    expect_corrupt(m, "other");
}

/* P20: nor is it a grant of ours any more, or one to be broken. */
TEST_IF(SQL, test_holder_does_not_touch_a_row_that_became_of_an_unknown_kind, m)
{
    sqlock_lock *lock = take_for(m, "nightly", patience_ms(20000), SQLOCK_NO_RENEW);
    int64_t begun = sqlock_now_us();

    run_past(w, "UPDATE {lock} SET kind = 7");
    says(SQLOCK_ESCHEMA, sqlock_renew(lock, &said));
    says(SQLOCK_ESCHEMA, sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    says(SQLOCK_ESCHEMA, sqlock_release(lock, &said));
    assert_between(0, sqlock_now_us() - begun, patience_ms(3000) * INT64_C(1000));
    run_past(w, "UPDATE {lock} SET kind = 0");
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY); /* it was left as it was */
    ok(sqlock_release(lock, &said));
}

/* P20: what a withdrawn acquire leaves behind is for rows that we know. */
TEST_IF(SQL, test_withdrawal_does_not_touch_a_row_of_an_unknown_kind)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock *m, *other = open_manager(w, NULL);
    unsigned char owner[SQLOCK_OWNER_SIZE];
    sqlock_lock *lock = NULL, *again;

    m = open_with(w, with.request_ms = patience_ms(300));
    give(take(m, "nightly"));
    spy_hold_back_acquires();
    says(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &said));
    spy_arrive(0);
    memcpy(owner, sqlock_lock_owner(lock), sizeof owner);
    run_past(w, "UPDATE {lock} SET kind = 7");
    says(SQLOCK_ESCHEMA, sqlock_release(lock, &said));
    run_past(w, "UPDATE {lock} SET kind = 0");
    o.owner = owner;
    ok(sqlock_acquire(other, "nightly", &o, &again, &said)); /* it was left as it was */
    give(again);
    drop(lock);
}

/* P6: what a holder is told for each way in which its row can have changed. The change is made to a
 * lock that renews itself; so the first renewal that comes finds it. */
static void expect_why(struct world *w, const char *sql, sqlock_why why)
{
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take_for(m, "nightly", patience_ms(600), 0);
    int64_t begun = sqlock_now_us();

    run_past(w, sql);
    await_loss(lock);
    /* Told by the answer, not by the deadline. */
    assert_between(0, sqlock_now_us() - begun, late_ms(450) * INT64_C(1000));
    assert_lost(lock, why);
    close_manager(w, m);
}

TEST_IF(SQL, test_holder_learns_why_its_row_changed)
{
    expect_why(w, "DELETE FROM {lock}", SQLOCK_WHY_GONE);
    expect_why(w,
               "UPDATE {lock} SET ended_owner = owner, ended_token = token, ended_why = 3, "
               "owner = NULL, exp = NULL, since = NULL",
               SQLOCK_WHY_REAPED);
    expect_why(w,
               "UPDATE {lock} SET ended_owner = owner, ended_token = token, ended_why = 4, "
               "token = token + 1, owner = ended_owner, exp = exp WHERE ended_owner IS NOT NULL",
               SQLOCK_WHY_TAKEN);
    expect_why(w, "UPDATE {lock} SET exp = 1", SQLOCK_WHY_EXPIRED);
}
