/* Reaping where somebody else writes to the table, or has locked it: operators, other versions,
 * guards (P3, P20). */
#define SUITE_NEEDS SQL
#include "tests/drivers/suite_in_transaction.h"
#include "tests/drivers/suite_reap.h"

/* The row is swept away while the holder still believes in it: it is told why. */
TEST(test_holder_learns_that_it_was_reaped, m, other)
{
    sqlock_lock *lock = take_for(m, "nightly", 600000, SQLOCK_NO_RENEW);
    sqlock_lock *released = take_for(m, "weekly", 600000, SQLOCK_NO_RENEW);

    age(w, HOUR_MS);
    assert_int_equal(reap_now(other).cleared, 2);
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    assert_lost(lock, SQLOCK_WHY_REAPED);
    says(SQLOCK_ELOST, sqlock_release(released, &said));
    assert_lost(released, SQLOCK_WHY_REAPED);
}

/* P20: what a later version keeps in the table. */
TEST(test_reap_leaves_rows_of_kinds_and_queues_that_it_does_not_know, m)
{
    abandon(m, "held");
    give(take(m, "free"));
    run_past(w, "UPDATE {lock} SET kind = 7");
    age(w, 30 * 24 * HOUR_MS);
    sqlock_reap_report r = reap_idle(m);
    assert_int_equal(r.cleared + r.pruned, 0);
    run_past(w, "UPDATE {lock} SET kind = 0, waiters = 1");
    r = reap_idle(m);
    assert_int_equal(r.cleared, 1);
    assert_int_equal(r.pruned, 0);
    run_past(w, "UPDATE {lock} SET waiters = 0, next_ticket = 3");
    age(w, 30 * 24 * HOUR_MS);
    assert_int_equal(reap_idle(m).pruned, 0);
    run_past(w, "UPDATE {lock} SET next_ticket = 0");
    assert_int_equal(reap_idle(m).pruned, 2);
}

/* The row of its own lease is as old as any, and stays: its tokens need no floor. */
TEST(test_reaper_never_prunes_its_own_row, m)
{
    for (int i = 0; i < 3; i++) {
        sqlock_reap_report r = reap_idle(m);
        assert_int_equal(r.pruned + r.seen, 0);
        age(w, 30 * 24 * HOUR_MS);
    }
}

/* Somebody took its lease away: it stops, says so, and what it did is done. */
TEST(test_reaper_that_lost_its_lease_stops)
{
    struct reaper r = {0};

    reaper_start(&r, w, 200);
    run_past(w, "UPDATE {lock} SET owner = NULL, exp = NULL, ended_why = 2, ended_token = token, "
                "ended_owner = owner WHERE length(ns) = 7");
    pthread_join(r.thread, NULL);
    assert_code(SQLOCK_ELOST, r.code, &r.err);
    assert_between(1, r.r.cleared, 199);
    assert_int_equal(count_rows(r.m).held, 200 - r.r.cleared);
}

/* ---- beside an application's transaction ----------------------------------------------------- */

/* Seen under load: a second reaper whose every look met the first one's transactions said that the
 * lock is guarded. */
TEST_WITH(GUARDS | MANY_WRITERS, begin_app, test_reaper_whose_lease_is_locked_goes_away_quietly)
{
    sqlock *m = open_manager(g.w, NULL);
    assert_int_equal(reap_now(m).ran, 1); /* the lease has its row now */
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, g.driver->dialect->placeholder == '$' /* as a guard does it */
                        ? "SELECT 1 FROM sqlock_lock FOR KEY SHARE"
                        : "SELECT token FROM sqlock_lock FORCE INDEX (nt) LOCK IN SHARE MODE");
    assert_int_equal(reap_now(m).ran, 0);
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(reap_now(m).ran, 1);
}
