/* Leases and the time (P4, P5): what is left of a lease after a wait, in an old transaction, and
 * for whoever comes too late. */
#include "races.h"

/* The statement is sent while another session has what it needs, for a while; the lease from then
 * on.
 */
static int64_t lease_after_a_wait(const script *s, const char *blocker)
{
    conn a = pg_open(), other = pg_open();
    request r = request_of('A', 2000 * MS);
    int64_t let_go = 0;
    answer got;
    run(other, "UPDATE {lock} SET owner = NULL, exp = NULL, ended_why = 0");
    run(other, blocker);
    pg_start(a, s, 0, &r);
    assert_int_equal(pg_waits(a), 1);
    pause_ms(400);
    let_go = server_us(other);
    run(other, "COMMIT");
    got = pg_finish(a);
    EXPECT(got, SQLOCK_OUT_DONE);
    return row_end(a) - let_go;
}

/* Wrong: exp is computed for VALUES, before the wait for the row, and carried over by EXCLUDED. */
#define EXP_CARRIED                                                                                \
    "INSERT INTO {lock} AS l (ns, name, owner, token, exp)"                                        \
    " VALUES ($1, $2, $3, 1, " PG_NOW " + $4)"                                                     \
    " ON CONFLICT (ns, name) DO UPDATE SET owner = excluded.owner, token = l.token + 1,"           \
    "  exp = excluded.exp"                                                                         \
    " WHERE l.owner IS NULL OR l.exp <= " PG_NOW " RETURNING 0, 1, token"

static void test_waiter_gets_a_full_lease(void **state)
{
    conn c = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script at_start = changed(right, "clock_timestamp()", "now()");
    script carried = written(SQLOCK_STMT_ACQUIRE, EXP_CARRIED);
    request r = request_of('X', 1);
    (void)state;
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    assert_true(lease_after_a_wait(&right, TABLE_LOCK) >= 2000 * MS);
    assert_true(lease_after_a_wait(&at_start, TABLE_LOCK) <= 1600 * MS);
    assert_true(lease_after_a_wait(&carried, ROW_LOCK) <= 1600 * MS);

    /* Ours does not wait for a row in the first place. */
    run(c, "UPDATE {lock} SET owner = NULL, exp = NULL");
    run(c, ROW_LOCK);
    EXPECT(acquire(pg_open(), request_of('B', 2000 * MS)), SQLOCK_OUT_SKIPPED);
    run(c, "COMMIT");
}

/* From when it was asked for. */
static int64_t lease_in_an_old_transaction(conn c, const script *s, const char *begin)
{
    request r = request_of('A', 1000 * MS);
    int64_t asked = 0, lease = 0;
    run(c, "UPDATE {lock} SET owner = NULL, exp = NULL, ended_why = 0");
    run(c, begin);
    run(c, "SELECT count(*) FROM {lock}");
    pause_ms(300);
    asked = server_us(c);
    EXPECT(ask(c, s, &r), SQLOCK_OUT_DONE);
    lease = row_end(c) - asked;
    run(c, "COMMIT");
    return lease;
}

static void test_lease_granted_in_an_old_transaction_is_whole(void **state)
{
    conn c = pg_open(), b = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong;
    const char *begins[] = {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"};
    (void)state;
    EXPECT(acquire(c, request_of('X', 1)), SQLOCK_OUT_DONE);
    for (size_t i = 0; i < COUNT(begins); i++) {
        assert_true(lease_in_an_old_transaction(c, &right, begins[i]) >= 1000 * MS);
        /* Wrong: now() is when the transaction began; the holder believes in 300 ms more. */
        wrong = changed(right, "clock_timestamp()", "now()");
        assert_true(lease_in_an_old_transaction(c, &wrong, begins[i]) <= 700 * MS);
    }
    /* A snapshot in which the lock was free, though it is held now, grants nothing. */
    run(c, "UPDATE {lock} SET owner = NULL, exp = NULL");
    run(c, begins[1]);
    run(c, "SELECT count(*) FROM {lock}");
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    assert_string_equal(acquire(c, request_of('A', 5000 * MS)).error, "40001");
    run(c, "ROLLBACK");
    assert_int_equal(row_owner(b), 'B');
}

/* Held up by a table lock until not_after is past. */
static answer late(const script *s, request r)
{
    conn a = pg_open(), other = pg_open();
    answer got;
    run(other, TABLE_LOCK);
    r.not_after = number(other, "SELECT " PG_NOW) + 100 * MS;
    pg_start(a, s, 0, &r);
    assert_int_equal(pg_waits(a), 1);
    pause_ms(200);
    run(other, "COMMIT");
    got = pg_finish(a);
    return got;
}

static void test_statement_held_up_past_not_after_does_nothing(void **state)
{
    conn c = pg_open();
    (void)state;
    EXPECT(acquire(c, request_of('X', 1)), SQLOCK_OUT_DONE);
    nothing_is_done_too_late(c, late,
                             changed(ours(SQLOCK_STMT_ACQUIRE), "AND " PG_NOW " <= $5", ""),
                             changed(ours(SQLOCK_STMT_RENEW), "AND " PG_NOW " <= $6", ""));
}

/* P5: L's request has been judged to be in time, but has not locked the row, when its last moment
 * passes and somebody sees that it is guarded: so it was not granted. Then the guard ends. */
static answer late_before_its_lock(const script *held)
{
    conn a = pg_open(), app = pg_open(), l = pg_open(), gate = pg_open();
    request r = request_of('A', 5000 * MS), late = request_of('L', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD), look = ours(SQLOCK_STMT_GUARDED);
    answer got;
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, "BEGIN");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_DONE);
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    late.not_after = server_us(a) + 100 * MS;
    pg_hold(gate);
    pg_start(l, held, 0, &late);
    assert_int_equal(pg_waits(l), 1);
    pause_ms(150);
    got = ask(a, &look, &late);
    EXPECT(got, SQLOCK_OUT_GUARDED);
    assert_true(got.now > late.not_after);
    run(app, "COMMIT");
    pg_unhold(gate);
    return pg_finish(l);
}

static void test_request_that_stops_before_its_lock_past_not_after_does_nothing(void **state)
{
    conn c = pg_open();
    script right =
        changed(ours(SQLOCK_STMT_ACQUIRE), "IS NOT TRUE\n      AND " PG_NOW " <= $5 AND (current",
                "IS NOT TRUE\n      AND CASE WHEN " PG_NOW " <= $5 THEN {hold} END AND (current");
    script wrong;
    (void)state;
    EXPECT(late_before_its_lock(&right), SQLOCK_OUT_LATE);
    assert_int_equal(row_owner(c), -1);
    wrong = changed(right, "AND " PG_NOW " <= $5\n    RETURNING", "RETURNING");
    EXPECT(late_before_its_lock(&wrong), SQLOCK_OUT_DONE); /* wrong: what can never be, has come */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_waiter_gets_a_full_lease),
        ON_POSTGRES(test_lease_granted_in_an_old_transaction_is_whole),
        ON_POSTGRES(test_statement_held_up_past_not_after_does_nothing),
        ON_POSTGRES(test_request_that_stops_before_its_lock_past_not_after_does_nothing),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("time on PostgreSQL", tests, NULL, NULL);
}
