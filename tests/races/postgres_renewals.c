/* Renewals that meet thieves, the end of the lease, and locked rows (P3, P7). */
#include "races.h"

/* Wrong: a read decides, and the write believes it. */
#define READ_DECIDES                                                                               \
    "WITH k AS MATERIALIZED (SELECT c.ns, c.name FROM {lock} c WHERE c.ns = $1 AND c.name = $2"    \
    "   AND (c.owner IS NULL OR c.exp <= " PG_NOW ")),"                                            \
    " h AS MATERIALIZED (SELECT {hold} AS ok FROM k)"                                              \
    "UPDATE {lock} l SET owner = $3, token = l.token + 1, exp = " PG_NOW " + $4"                   \
    " FROM k, h WHERE l.ns = k.ns AND l.name = k.name AND h.ok RETURNING 0, 1, l.token"

/* Returns the owner in the end. */
static int64_t thief_and_renewal(const script *thief, answer *got)
{
    *got = pg_beside_a_late_renewal(thief, request_of('T', 5000 * MS));
    return row_owner(pg_open());
}

static void test_thief_gets_nothing_when_the_renewal_came_first(void **state)
{
    conn a = pg_open(), t = pg_open();
    request ra = request_of('A', 150 * MS);
    script right = ours_held(), wrong = written(SQLOCK_STMT_ACQUIRE, READ_DECIDES);
    answer got;
    (void)state;
    assert_int_equal(thief_and_renewal(&right, &got), 'A');
    EXPECT(got, SQLOCK_OUT_SKIPPED); /* its snapshot is older than the renewal: look again */
    EXPECT(acquire(t, request_of('T', 5000 * MS)), SQLOCK_OUT_HELD);
    assert_int_equal(thief_and_renewal(&wrong, &got), 'T');
    EXPECT(got, SQLOCK_OUT_DONE);

    /* The whole statement while the renewal is under way: refused at once. */
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    ra.ttl = 5000 * MS;
    run(a, "BEGIN");
    EXPECT(renew(a, ra), SQLOCK_OUT_DONE);
    pause_ms(200);
    EXPECT(acquire(t, request_of('T', 5000 * MS)), SQLOCK_OUT_SKIPPED);
    run(a, "COMMIT");
    EXPECT(acquire(t, request_of('T', 5000 * MS)), SQLOCK_OUT_HELD);
}

static void test_renewal_after_the_end_is_refused(void **state)
{
    conn c = pg_open(), other = pg_open();
    request r = request_of('A', 50 * MS);
    script right = ours(SQLOCK_STMT_RENEW);
    script wrong = changed(right, "AND c.exp > " PG_NOW, "");
    script at_start = changed(right, "clock_timestamp()", "now()");
    (void)state;
    r.token = acquire(c, r).token;
    pause_ms(60);
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_EXPIRED);
    /* Wrong: the holder may have been told of the loss; now it holds the lock and does not know. */
    wrong = changed(wrong, "AND l.exp > k.t", "");
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);

    /* Sent in time, run too late. */
    for (int i = 0; i < 2; i++) {
        run(c, "UPDATE {lock} SET exp = " PG_NOW " + 100000");
        run(other, TABLE_LOCK);
        pg_start(c, i ? &at_start : &right, 0, &r);
        assert_int_equal(pg_waits(c), 1);
        pause_ms(150);
        run(other, "COMMIT");
        EXPECT(pg_finish(c), i ? SQLOCK_OUT_DONE : SQLOCK_OUT_EXPIRED); /* wrong: now() */
    }
}

/* A's lease ran out and the same request was granted again; a renewal of the first grant is late.
 */
static void test_renewal_is_for_the_exact_grant(void **state)
{
    conn c = pg_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_RENEW);
    script wrong = changed(changed(right, "AND c.token = $4", ""), "AND l.token = $4", "");
    (void)state;
    r.token = acquire(c, r).token;
    let_it_run_out(c);
    assert_int_equal(acquire(c, r).token, r.token + 1);
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_TAKEN);
    /* Wrong: who writes with the old token believes in a lease that is not its own. */
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

#define BATCH         5
#define THIEF_SHORTER 3000 /* milliseconds: its lease, against what a renewal asks for */

/* Wrong: a plain UPDATE waits for the row that somebody has locked, and all others with it. */
#define PLAIN_BATCH                                                                                \
    "UPDATE {lock} l SET exp = " PG_NOW " + i.ttl"                                                 \
    " FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY"                                         \
    "   AS i (ns, name, owner, token, ttl, not_after, ord)"                                        \
    " WHERE l.ns = i.ns AND l.name = i.name AND l.owner = i.owner AND l.token = i.token"           \
    " AND l.exp > " PG_NOW " RETURNING (i.ord - 1)::int, 1, l.token"

/* Five leases of one holder. */
static void batch_of_leases(conn c, request *r)
{
    static const char *const names[BATCH] = {"a", "b", "c", "d", "e"};
    run(c, "DELETE FROM {lock}");
    for (int i = 0; i < BATCH; i++) {
        r[i] = request_name(request_of('A', 500 * MS), names[i], 1);
        r[i].token = acquire(c, r[i]).token;
        r[i].ttl = 9000 * MS;
    }
}

/* Row d goes to somebody else, row c is locked by `other`. */
static void trouble(conn other, request d)
{
    run(other, "UPDATE {lock} SET exp = " PG_NOW " - 1 WHERE name = 'd'");
    memset(d.owner, 'T', sizeof d.owner);
    d.ttl -= 2 * THIEF_SHORTER * MS;
    EXPECT(acquire(other, d), SQLOCK_OUT_DONE);
    run(other, "BEGIN; SELECT 1 FROM {lock} WHERE name = 'c' FOR UPDATE");
}

static int64_t renewed_rows(conn c)
{
    return number(c, "SELECT count(*) FROM {lock} WHERE get_byte(owner, 0) = 65 AND exp > " PG_NOW
                     " + 5000000");
}

static void test_batch_renews_the_others_at_once(void **state)
{
    conn c = pg_open(), other = pg_open();
    request r[BATCH];
    answer got[BATCH];
    const int expected[BATCH] = {SQLOCK_OUT_DONE, SQLOCK_OUT_DONE, SQLOCK_OUT_SKIPPED,
                                 SQLOCK_OUT_TAKEN, SQLOCK_OUT_DONE};
    script right = ours_array(SQLOCK_STMT_RENEW), wrong = written(SQLOCK_STMT_RENEW, PLAIN_BATCH);
    (void)state;
    batch_of_leases(c, r);
    trouble(other, r[3]);
    assert_int_equal(pg_ask_array(c, &right, r, BATCH, got), BATCH);
    for (int i = 0; i < BATCH; i++) /* no order is promised; the index tells */
        assert_int_equal(got[i].outcome, expected[got[i].index]);
    assert_int_equal(renewed_rows(c), 3);
    run(other, "COMMIT");
    EXPECT(renew(c, r[2]), SQLOCK_OUT_DONE);

    batch_of_leases(c, r);
    trouble(other, r[3]);
    pg_start_array(c, &wrong, r, BATCH);
    assert_int_equal(pg_waits(c), 1);
    pause_ms(600); /* longer than the leases */
    assert_int_equal(renewed_rows(other), 0);
    run(other, "COMMIT");
    pg_finish_array(c, got, BATCH);
}

/* The trouble comes after the batch has its snapshot, and ends before (1) or after the answer. */
static void trouble_meanwhile(const script *held, int ends_before, request *r, answer *got)
{
    conn c = pg_open(), other = pg_open(), gate = pg_open();
    batch_of_leases(c, r);
    pg_hold(gate);
    pg_start_array(c, held, r, BATCH);
    assert_int_equal(pg_waits(c), 1);
    trouble(other, r[3]);
    if (ends_before)
        run(other, "COMMIT");
    pg_unhold(gate);
    assert_int_equal(pg_finish_array(c, got, BATCH), BATCH);
    if (!ends_before)
        run(other, "COMMIT");
    assert_int_equal(number(c, "SELECT get_byte(owner, 0) FROM {lock} WHERE name = 'd'"), 'T');
}

static int64_t left_of_the_thief(conn c)
{
    return number(c, "SELECT exp - " PG_NOW " FROM {lock} WHERE name = 'd'");
}

static void test_batch_does_not_renew_what_was_taken_meanwhile(void **state)
{
    conn c = pg_open();
    request r[BATCH];
    answer got[BATCH];
    script held = changed(ours_array(SQLOCK_STMT_RENEW), "FOR NO KEY UPDATE OF c",
                          "AND {hold} FOR NO KEY UPDATE OF c");
    script wrong;
    (void)state;
    for (int before = 0; before < 2; before++) {
        trouble_meanwhile(&held, before, r, got);
        for (int i = 0; i < BATCH; i++) {
            int in_trouble = got[i].index == 3 || (!before && got[i].index == 2);
            assert_int_equal(got[i].outcome, in_trouble ? SQLOCK_OUT_SKIPPED : SQLOCK_OUT_DONE);
        }
        EXPECT(renew(c, r[2]), SQLOCK_OUT_DONE);
        EXPECT(renew(c, r[3]), SQLOCK_OUT_TAKEN);
        assert_true(left_of_the_thief(c) < 9000 * MS - THIEF_SHORTER * MS);
    }
    /* Wrong: the batch reads which leases are its own, and writes by name: what the thief holds by
     * then is extended, and the holder that lost it is told that it was renewed. */
    wrong = changed(held, "FOR NO KEY UPDATE OF c SKIP LOCKED", "");
    wrong = changed(wrong, "AND l.owner = k.owner AND l.token = k.token AND l.exp > k.t", "");
    trouble_meanwhile(&wrong, 1, r, got);
    for (int i = 0; i < BATCH; i++)
        assert_int_equal(got[i].outcome, SQLOCK_OUT_DONE);
    assert_true(left_of_the_thief(c) > 9000 * MS - THIEF_SHORTER * MS);
}

/* One comes too late, another asks for less than is left: it is set, for the clock may have been
 * put back. */
static void test_batch_judges_each_lease_by_its_own_times(void **state)
{
    conn c = pg_open();
    script right = ours_array(SQLOCK_STMT_RENEW);
    request r[BATCH];
    answer got[BATCH];
    (void)state;
    batch_of_leases(c, r);
    run(c, "UPDATE {lock} SET exp = " PG_NOW " + 5000000");
    r[1].not_after = number(c, "SELECT " PG_NOW) - 1;
    r[3].ttl = 1000 * MS;
    assert_int_equal(pg_ask_array(c, &right, r, BATCH, got), BATCH);
    for (int i = 0; i < BATCH; i++)
        assert_int_equal(got[i].outcome, got[i].index == 1 ? SQLOCK_OUT_LATE : SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT exp - " PG_NOW " FROM {lock} WHERE name = 'b'") <= 5000 * MS);
    assert_true(number(c, "SELECT exp - " PG_NOW " FROM {lock} WHERE name = 'd'") <= 1000 * MS);
    assert_true(number(c, "SELECT exp - " PG_NOW " FROM {lock} WHERE name = 'e'") > 5000 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_thief_gets_nothing_when_the_renewal_came_first),
        ON_POSTGRES(test_renewal_after_the_end_is_refused),
        ON_POSTGRES(test_renewal_is_for_the_exact_grant),
        ON_POSTGRES(test_batch_renews_the_others_at_once),
        ON_POSTGRES(test_batch_does_not_renew_what_was_taken_meanwhile),
        ON_POSTGRES(test_batch_judges_each_lease_by_its_own_times),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("renewals on PostgreSQL", tests, NULL, NULL);
}
