/* The guard: one statement in the application's own transaction that proves a lease and keeps
 * everyone else from being granted the name until that transaction ends. It works only because
 * every grant asks for the lock that the guard holds, and no renewal or release does; so
 * both are proven here. */
#include "races.h"

/* Wrong: decides rightly between acquirers, but an UPDATE of columns outside the key passes by a
 * guard's FOR KEY SHARE. */
#define PLAIN_ACQUIRE                                                                              \
    "UPDATE {lock} l SET"                                                                          \
    " token = CASE WHEN l.owner = $3 AND l.exp > " PG_NOW " THEN l.token ELSE l.token + 1 END,"    \
    " owner = $3, exp = " PG_NOW " + $4"                                                           \
    " WHERE l.ns = $1 AND l.name = $2"                                                             \
    " AND (l.owner IS NULL OR l.owner = $3 OR l.exp <= " PG_NOW ") RETURNING 0, 1, l.token"

static guarding guarding_with(script acquire)
{
    return (guarding){.open = pg_open,
                      .begins = {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                 "BEGIN ISOLATION LEVEL SERIALIZABLE"},
                      .acquire = acquire,
                      .guard = ours(SQLOCK_STMT_GUARD),
                      .told = 1};
}

static guarding right_guarding(void)
{
    return guarding_with(ours(SQLOCK_STMT_ACQUIRE));
}

static guarding wrong_guarding(void)
{
    return guarding_with(written(SQLOCK_STMT_ACQUIRE, PLAIN_ACQUIRE));
}

static void test_guard_lets_renewals_pass_and_keeps_the_thief_out(void **state)
{
    guarding right = right_guarding(), wrong = wrong_guarding();
    (void)state;
    guard_keeps_the_thief_out(&right, &wrong);
}

static void test_guard_of_a_lease_that_ran_out_is_told_so(void **state)
{
    conn a = pg_open(), app = pg_open();
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    (void)state;
    r.token = acquire(a, r).token;
    let_it_run_out(a);
    run(app, "BEGIN");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_EXPIRED);
    run(app, "ROLLBACK");
}

static void test_guard_outlives_an_early_release_and_a_break(void **state)
{
    guarding right = right_guarding(), wrong = wrong_guarding();
    (void)state;
    guard_outlives_an_early_end(&right, &wrong);
}

static void test_probe_tells_a_guard_from_a_writer_and_from_nobody(void **state)
{
    guarding g = right_guarding();
    (void)state;
    probe_tells_a_guard(&g);
}

static void test_guard_of_the_next_grant_is_not_taken_for_the_last_ones(void **state)
{
    guarding g = right_guarding();
    script wrong = changed(ours(SQLOCK_STMT_PROBE), "l.token = $3", "l.token >= $3");
    (void)state;
    probe_is_for_the_exact_grant(&g, &wrong);
}

static void test_row_being_written_is_not_taken_for_a_guard(void **state)
{
    guarding g = right_guarding();
    script wrong = changed(ours(SQLOCK_STMT_GUARDED), "FOR NO KEY UPDATE SKIP LOCKED", "");
    (void)state;
    writer_is_not_taken_for_a_guard(&g, &wrong);
}

/* Wrong: it was locked a moment ago, so what lets a guard pass must be one. */
#define LOOK_AT_LAST                                                                               \
    "SELECT 0, 12, l.token, l.exp - " PG_NOW ", " PG_NOW " FROM {lock} l"                          \
    " WHERE l.ns = $1 AND l.name = $2 AND $3::bytea <> '' FOR NO KEY UPDATE SKIP LOCKED"

static void test_writer_that_has_ended_is_not_taken_for_a_guard(void **state)
{
    guarding g = right_guarding();
    script wrong = written(SQLOCK_STMT_GUARDED, LOOK_AT_LAST);
    (void)state;
    writer_that_has_ended_is_not_taken_for_a_guard(&g, &wrong);
}

/* Wrong: a stronger lock keeps the holder's own renewals out as well, and the lease is lost. */
static void test_stronger_guard_would_block_renewals(void **state)
{
    guarding g = right_guarding();
    script strong = changed(g.guard, "FOR KEY SHARE", "FOR SHARE");
    (void)state;
    strong_guard_blocks_renewals(&g, &strong);
}

/* The application's snapshot shows A's lease; since then `thief` was granted the lock after A's
 * release. What does A's guard say? */
static answer stale_guard(const char *begin, const script *thief)
{
    conn a = pg_open(), app = pg_open(), t = pg_open();
    request r = request_of('A', 5000 * MS), rt = request_of('T', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    answer got;
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, begin);
    assert_int_equal(number(app, "SELECT count(*) FROM {lock}"), 1);
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    if (thief) {
        EXPECT(release(a, r), SQLOCK_OUT_DONE);
        EXPECT(ask(t, thief, &rt), SQLOCK_OUT_DONE);
    }
    got = ask(app, &guard, &r);
    run(app, "ROLLBACK");
    return got;
}

static void test_guard_with_an_old_snapshot_is_told_to_restart(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE), plain;
    const char *begins[] = {"BEGIN ISOLATION LEVEL REPEATABLE READ",
                            "BEGIN ISOLATION LEVEL SERIALIZABLE"};
    (void)state;
    plain = written(SQLOCK_STMT_ACQUIRE, PLAIN_ACQUIRE);
    for (size_t i = 0; i < COUNT(begins); i++) {
        assert_string_equal(stale_guard(begins[i], &right).error, "40001");
        EXPECT(stale_guard(begins[i], NULL), SQLOCK_OUT_DONE); /* only renewed since */
        /* Wrong: nothing tells the stale guard that the key's lock was taken: it passes. */
        EXPECT(stale_guard(begins[i], &plain), SQLOCK_OUT_DONE);
    }
    EXPECT(stale_guard("BEGIN", &right), SQLOCK_OUT_RELEASED);
}

/* A guard ends with the savepoint it was taken after: guard again. */
static void test_guard_is_undone_by_rollback_to_a_savepoint_before_it(void **state)
{
    conn a = pg_open(), app = pg_open(), thief = pg_open();
    request r = request_of('A', 5000 * MS), t = request_of('T', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    (void)state;
    r.token = acquire(a, r).token;
    run(app, "BEGIN; SAVEPOINT s");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_DONE);
    run(app, "RELEASE s; SAVEPOINT s; ROLLBACK TO s");
    let_it_run_out(a);
    EXPECT(acquire(thief, t), SQLOCK_OUT_SKIPPED); /* taken before s: still there */
    run(app, "COMMIT");

    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, "BEGIN; SAVEPOINT s");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_DONE);
    run(app, "ROLLBACK TO s");
    let_it_run_out(a);
    EXPECT(acquire(thief, t), SQLOCK_OUT_DONE);     /* wrong use: the guard is gone */
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_TAKEN); /* and a second look tells */
    run(app, "ROLLBACK");
}

static void test_guarded_transactions_never_overlap(void **state)
{
    guarding right = right_guarding();
    (void)state;
    guarded_transactions_are_alone(&right);
}

static void test_guarded_transactions_overlap_with_the_plain_grant(void **state)
{
    guarding wrong = wrong_guarding();
    (void)state;
    guarded_transactions_overlap(&wrong);
}

/* ---- SQLite -----------------------------------------------------------------------------------
 */

/* The application's write transaction is the guard. It extends the lease, because the holder's own
 * renewals are kept out with everyone else. */

/* The lease runs out in the middle of the guarded transaction. What is the thief told after it? */
static answer thief_after_a_long_transaction(const script *guard)
{
    conn a = lite_open(), app = lite_open(), thief = lite_open();
    request r = request_of('A', 150 * MS), t = request_of('T', 150 * MS);
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    pause_ms(100);
    run(app, "BEGIN IMMEDIATE");
    EXPECT(ask(app, guard, &r), SQLOCK_OUT_DONE);
    EXPECT(acquire(thief, t), SQLOCK_OUT_HELD);
    pause_ms(80);
    assert_string_equal(acquire(thief, t).error, "BUSY");
    assert_string_equal(renew(a, r).error, "BUSY");
    assert_string_equal(release(a, r).error, "BUSY");
    run(app, "COMMIT");
    return acquire(thief, t);
}

static void test_write_guard_keeps_the_thief_out_and_extends(void **state)
{
    script right = ours(SQLOCK_STMT_GUARD), wrong;
    conn thief = lite_open();
    (void)state;
    EXPECT(thief_after_a_long_transaction(&right), SQLOCK_OUT_HELD);
    pause_ms(150);
    EXPECT(acquire(thief, request_of('T', 150 * MS)), SQLOCK_OUT_DONE);
    /* Wrong: a guard that only proves: no renewal got through, and the lease is lost. */
    wrong = changed(right, "max(exp, " LITE_NOW " + ?5 / 1000)", "exp");
    EXPECT(thief_after_a_long_transaction(&wrong), SQLOCK_OUT_DONE);
}

/* The lease ran out, then others have it. A guard of the first kind would revive the lease, whose
 * loss may have been told. */
static void test_guard_of_a_lost_lease_is_told_so(void **state)
{
    conn a = lite_open(), app = lite_open(), thief = lite_open();
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD), wrong;
    (void)state;
    r.token = acquire(a, r).token;
    let_it_run_out(a);
    run(app, "BEGIN IMMEDIATE");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_EXPIRED);
    wrong = changed(guard, "AND token = ?4 AND exp > " LITE_NOW, "AND token = ?4");
    EXPECT(ask(app, &wrong, &r), SQLOCK_OUT_DONE);
    run(app, "ROLLBACK");
    EXPECT(acquire(thief, request_of('T', 5000 * MS)), SQLOCK_OUT_DONE);
    run(app, "BEGIN IMMEDIATE");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_TAKEN);
    run(app, "ROLLBACK");
}

/* Wrong: a read is no guard. The transaction is open, and somebody else is granted the lock. */
static void test_reading_guard_lets_the_thief_in(void **state)
{
    conn a = lite_open(), app = lite_open(), thief = lite_open();
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    char sql[200];
    (void)state;
    r.token = acquire(a, r).token;
    run(app, "BEGIN");
    snprintf(sql, sizeof sql, "SELECT count(*) FROM {lock} WHERE token = %lld AND exp > %s",
             (long long)r.token, LITE_NOW);
    assert_int_equal(number(app, sql), 1);
    let_it_run_out(a);
    EXPECT(acquire(thief, request_of('T', 5000 * MS)), SQLOCK_OUT_DONE);
    /* What it read still says that the lock is A's. */
    assert_int_equal(number(app, sql), 1);
    /* The guard, asked for so late, says that the transaction must be restarted. */
    assert_string_equal(ask(app, &guard, &r).error, "BUSY_SNAPSHOT");
    run(app, "ROLLBACK");
}

int main(void)
{
    const struct CMUnitTest postgres[] = {
        ON_POSTGRES(test_guard_lets_renewals_pass_and_keeps_the_thief_out),
        ON_POSTGRES(test_guard_of_a_lease_that_ran_out_is_told_so),
        ON_POSTGRES(test_guard_outlives_an_early_release_and_a_break),
        ON_POSTGRES(test_probe_tells_a_guard_from_a_writer_and_from_nobody),
        ON_POSTGRES(test_guard_of_the_next_grant_is_not_taken_for_the_last_ones),
        ON_POSTGRES(test_row_being_written_is_not_taken_for_a_guard),
        ON_POSTGRES(test_writer_that_has_ended_is_not_taken_for_a_guard),
        ON_POSTGRES(test_stronger_guard_would_block_renewals),
        ON_POSTGRES(test_guard_with_an_old_snapshot_is_told_to_restart),
        ON_POSTGRES(test_guard_is_undone_by_rollback_to_a_savepoint_before_it),
        ON_POSTGRES(test_guarded_transactions_never_overlap),
        ON_POSTGRES(test_guarded_transactions_overlap_with_the_plain_grant),
    };
    const struct CMUnitTest sqlite[] = {
        ON_WAL(test_write_guard_keeps_the_thief_out_and_extends),
        ON_ROLLBACK(test_write_guard_keeps_the_thief_out_and_extends),
        ON_WAL(test_guard_of_a_lost_lease_is_told_so),
        ON_ROLLBACK(test_guard_of_a_lost_lease_is_told_so),
        ON_WAL(test_reading_guard_lets_the_thief_in),
    };
    int missing = pg_missing();
    int failed = cmocka_run_group_tests_name("the guard on SQLite", sqlite, NULL, NULL);
    if (missing)
        return failed + missing - 1;
    return failed + cmocka_run_group_tests_name("the guard on PostgreSQL", postgres, NULL, NULL);
}
