/* The races of PostgreSQL's statements. Each is run twice: with the statement that decides rightly,
 * and with one that looks as good and is wrong, which must be seen to break what the other keeps.
 */
#include "races.h"

#include <pthread.h>
#include <stdlib.h>

static int64_t row_left(conn c)
{
    return number(c, "SELECT exp - " PG_NOW " FROM {lock}");
}

/* The first byte of the owner; -1: free. */
static int64_t row_owner(conn c)
{
    return number(c, "SELECT get_byte(owner, 0) FROM {lock}");
}

static void let_it_run_out(conn c)
{
    run(c, "UPDATE {lock} SET exp = " PG_NOW " - 1 WHERE owner IS NOT NULL");
}

static script ours_held(void)
{
    return changed(ours(SQLOCK_STMT_ACQUIRE), "FOR UPDATE OF c", "AND {hold} FOR UPDATE OF c");
}

/* ---- tokens -----------------------------------------------------------------------------------
 */

/* Wrong: the token is drawn before the row is locked, as DEFAULT nextval, VALUES and EXCLUDED do. A
 * client that is delayed between the two is granted the lock later with the smaller token. */
#define TOKEN_DRAWN_EARLY                                                                          \
    "WITH x AS MATERIALIZED (SELECT nextval('{schema}.early') AS token),"                          \
    " h AS MATERIALIZED (SELECT {hold} AS ok FROM x WHERE x.token > 0)"                            \
    "INSERT INTO {lock} AS l (ns, name, owner, token, exp, since, inc)"                            \
    " SELECT $1, $2, $3, x.token, " PG_NOW " + $4, " PG_NOW ", 0 FROM x, h WHERE h.ok"             \
    " ON CONFLICT (ns, name) DO UPDATE SET owner = excluded.owner, token = excluded.token,"        \
    "  exp = " PG_NOW " + $4, since = " PG_NOW                                                     \
    " WHERE l.owner IS NULL OR l.owner = $3 OR l.exp <= " PG_NOW " RETURNING 0, 1, token"

/* A is stopped after its statement began; B is granted the lock and gives it back; A goes on. */
static void delayed_client(const script *delayed, const script *quick, int64_t *a_token,
                           int64_t *b_token)
{
    conn a = pg_open(), b = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    answer got;
    pg_hold(gate);
    pg_start(a, delayed, 0, &ra);
    assert_int_equal(pg_waits(a), 1);
    got = ask(b, quick, &rb);
    EXPECT(got, SQLOCK_OUT_DONE);
    *b_token = got.token;
    EXPECT(release(b, request_token(rb, got.token)), SQLOCK_OUT_DONE);
    pg_unhold(gate);
    got = pg_finish(a);
    EXPECT(got, SQLOCK_OUT_DONE);
    *a_token = got.token;
    EXPECT(release(a, request_token(ra, got.token)), SQLOCK_OUT_DONE);
}

static void test_delayed_client_draws_the_later_token(void **state)
{
    conn c = pg_open();
    request r = request_of('X', 5000 * MS);
    script held = ours_held(), quick = ours(SQLOCK_STMT_ACQUIRE);
    script early = written(SQLOCK_STMT_ACQUIRE, TOKEN_DRAWN_EARLY);
    script early_quick = changed(early, "{hold}", "true");
    int64_t a = 0, b = 0;
    (void)state;
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    delayed_client(&held, &quick, &a, &b);
    assert_true(a > b);

    run(c, "CREATE SEQUENCE {schema}.early START 100");
    delayed_client(&early, &early_quick, &a, &b);
    assert_true(a < b); /* B's grant ended before A's began, and its token is the larger */
}

static const char *PRUNE[] = {
    "BEGIN",
    /* The second statement's snapshot is younger than this lock: it sees every row whose creator
     * read the floor before. */
    "SELECT 1 FROM {meta} WHERE id = 1 FOR UPDATE",
    "WITH v AS (SELECT ns, name FROM {lock} WHERE owner IS NULL AND idle_since < " PG_NOW
    "           FOR UPDATE SKIP LOCKED),"
    " d AS (DELETE FROM {lock} l USING v WHERE l.ns = v.ns AND l.name = v.name"
    "       AND l.owner IS NULL AND l.idle_since < " PG_NOW " RETURNING l.token)"
    "UPDATE {meta} SET fence_floor = greatest(fence_floor, (SELECT max(token) FROM d))"
    " WHERE id = 1 AND EXISTS (SELECT 1 FROM d)",
    "COMMIT"};

/* Wrong: the row goes, and what it knew with it. */
#define PRUNE_AND_FORGET "DELETE FROM {lock} WHERE owner IS NULL"

static void pruned_stress(stress *s, const char *const *prune, int n)
{
    *s = (stress){.open = pg_open, .ttl = 4 * MS, .ms = 900};
    s->acquire = ours(SQLOCK_STMT_ACQUIRE);
    s->release = ours(SQLOCK_STMT_RELEASE);
    for (int i = 0; i < n; i++)
        s->prune[i] = fill(prune[i]);
    stress_run(s);
}

static void test_tokens_rise_under_four_clients_and_a_pruner(void **state)
{
    static stress s;
    const char *forget[] = {PRUNE_AND_FORGET};
    (void)state;
    pruned_stress(&s, PRUNE, COUNT(PRUNE));
    assert_int_equal(s.errors, 0);
    assert_true(s.grants > 20);
    assert_int_equal(stress_faults(&s), 0);
    assert_true(number(pg_open(), "SELECT fence_floor FROM {meta}") > 0);

    for (int i = 0, faults = 0; !faults; i++) { /* a busy machine may need a second round */
        assert_true(i < 5);
        pruned_stress(&s, forget, 1);
        faults = stress_faults(&s);
    }
}

/* A creator found no row and is stopped before it reads the floor; meanwhile the row is made,
 * granted, given back and pruned; the creator goes on. */
static int64_t token_after_a_stalled_creator(const script *creator)
{
    conn a = pg_open(), b = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    run(b, "DELETE FROM {lock}");
    run(b, "UPDATE {meta} SET fence_floor = 0");
    pg_hold(gate);
    pg_start(a, creator, 1, &ra);
    assert_int_equal(pg_waits(a), 1);
    rb.token = acquire(b, rb).token;
    assert_int_equal(rb.token, 1);
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    pause_ms(2);
    for (size_t i = 0; i < COUNT(PRUNE); i++)
        run(b, PRUNE[i]);
    assert_int_equal(number(b, "SELECT count(*) FROM {lock}"), 0);
    pg_unhold(gate);
    assert_string_equal(pg_finish(a).error, "");
    return acquire(a, ra).token;
}

static void test_stalled_creator_starts_above_the_raised_floor(void **state)
{
    script creator = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    creator = changed(creator, "WHERE m.id = 1 FOR SHARE", "WHERE m.id = 1 AND {hold} FOR SHARE");
    assert_int_equal(token_after_a_stalled_creator(&creator), 2);
    /* Wrong: without the share lock the floor is the one of the statement's snapshot: token 1 is
     * granted a second time. */
    creator = changed(creator, "FOR SHARE", "");
    assert_int_equal(token_after_a_stalled_creator(&creator), 1);
}

/* ---- time -------------------------------------------------------------------------------------
 */

#define TABLE_LOCK "BEGIN; LOCK TABLE {lock} IN ACCESS EXCLUSIVE MODE"
#define ROW_LOCK   "BEGIN; SELECT 1 FROM {lock} FOR UPDATE"

/* The statement is sent while another session has what it needs, for ms; what remains of the lease
 * when it is granted. */
static int64_t lease_after_a_wait(const script *s, const char *blocker, int ms)
{
    conn a = pg_open(), other = pg_open();
    request r = request_of('A', 2000 * MS);
    answer got;
    run(other, "UPDATE {lock} SET owner = NULL, exp = NULL, ended_why = 0");
    run(other, blocker);
    pg_start(a, s, 0, &r);
    assert_int_equal(pg_waits(a), 1);
    pause_ms(ms);
    run(other, "COMMIT");
    got = pg_finish(a);
    EXPECT(got, SQLOCK_OUT_DONE);
    return row_left(a);
}

/* Wrong: exp is computed for VALUES, before the wait for the row, and carried over by EXCLUDED. */
#define EXP_CARRIED                                                                                \
    "INSERT INTO {lock} AS l (ns, name, owner, token, exp, inc)"                                   \
    " VALUES ($1, $2, $3, 1, " PG_NOW " + $4, 0)"                                                  \
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
    assert_true(lease_after_a_wait(&right, TABLE_LOCK, 400) > 1800 * MS);
    assert_true(lease_after_a_wait(&at_start, TABLE_LOCK, 400) <= 1600 * MS);
    assert_true(lease_after_a_wait(&carried, ROW_LOCK, 400) <= 1600 * MS);

    /* Ours does not wait for a row in the first place. */
    run(c, "UPDATE {lock} SET owner = NULL, exp = NULL");
    run(c, ROW_LOCK);
    EXPECT(acquire(pg_open(), request_of('B', 2000 * MS)), SQLOCK_OUT_SKIPPED);
    run(c, "COMMIT");
}

static int64_t lease_in_an_old_transaction(conn c, const script *s, const char *begin)
{
    request r = request_of('A', 1000 * MS);
    int64_t left = 0;
    run(c, "UPDATE {lock} SET owner = NULL, exp = NULL, ended_why = 0");
    run(c, begin);
    run(c, "SELECT count(*) FROM {lock}");
    pause_ms(300);
    EXPECT(ask(c, s, &r), SQLOCK_OUT_DONE);
    left = row_left(c);
    run(c, "COMMIT");
    return left;
}

static void test_lease_granted_in_an_old_transaction_is_whole(void **state)
{
    conn c = pg_open(), b = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "clock_timestamp()", "now()");
    const char *begins[] = {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"};
    (void)state;
    EXPECT(acquire(c, request_of('X', 1)), SQLOCK_OUT_DONE);
    for (size_t i = 0; i < COUNT(begins); i++) {
        assert_true(lease_in_an_old_transaction(c, &right, begins[i]) > 900 * MS);
        /* Wrong: now() is when the transaction began; the holder believes in 300 ms more. */
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
    request r = request_of('A', 5000 * MS);
    script grant = ours(SQLOCK_STMT_ACQUIRE), extend = ours(SQLOCK_STMT_RENEW);
    script grant_wrong = changed(grant, "AND " PG_NOW " <= $5", "");
    script extend_wrong = changed(extend, "AND " PG_NOW " <= $6", "");
    int64_t exp = 0;
    (void)state;
    EXPECT(acquire(c, request_of('X', 1)), SQLOCK_OUT_DONE);
    EXPECT(late(&grant, r), SQLOCK_OUT_LATE);
    assert_int_equal(row_owner(c), 'X');
    /* Wrong: whoever asked has given up; the lock is held by nobody for a whole lease. */
    EXPECT(late(&grant_wrong, r), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), 'A');

    r.token = number(c, "SELECT token FROM {lock}");
    exp = number(c, "SELECT exp FROM {lock}");
    EXPECT(late(&extend, r), SQLOCK_OUT_LATE);
    assert_int_equal(number(c, "SELECT exp FROM {lock}"), exp);
    EXPECT(late(&extend_wrong, r), SQLOCK_OUT_DONE);
    assert_true(number(c, "SELECT exp FROM {lock}") > exp);
}

/* ---- renewals ---------------------------------------------------------------------------------
 */

/* Wrong: a read decides, and the write believes it. */
#define READ_DECIDES                                                                               \
    "WITH k AS MATERIALIZED (SELECT c.ns, c.name FROM {lock} c WHERE c.ns = $1 AND c.name = $2"    \
    "   AND (c.owner IS NULL OR c.exp <= " PG_NOW ")),"                                            \
    " h AS MATERIALIZED (SELECT {hold} AS ok FROM k)"                                              \
    "UPDATE {lock} l SET owner = $3, token = l.token + 1, exp = " PG_NOW " + $4"                   \
    " FROM k, h WHERE l.ns = k.ns AND l.name = k.name AND h.ok RETURNING 0, 1, l.token"

/* The renewal came in time but is not committed when the old lease runs out. A thief looks then,
 * and acts after the renewal's commit. Returns the owner in the end. */
static int64_t thief_and_renewal(const script *thief, answer *got)
{
    conn a = pg_open(), t = pg_open(), gate = pg_open();
    request ra = request_of('A', 150 * MS), rt = request_of('T', 5000 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    ra.ttl = 5000 * MS;
    run(a, "BEGIN");
    EXPECT(renew(a, ra), SQLOCK_OUT_DONE);
    pause_ms(200);
    pg_hold(gate);
    pg_start(t, thief, 0, &rt);
    assert_int_equal(pg_waits(t), 1);
    run(a, "COMMIT");
    pg_unhold(gate);
    *got = pg_finish(t);
    return row_owner(a);
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

#define BATCH 5

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

/* The trouble comes after the batch has its snapshot. */
static void test_batch_does_not_renew_what_was_taken_meanwhile(void **state)
{
    conn c = pg_open(), other = pg_open(), gate = pg_open();
    request r[BATCH];
    answer got[BATCH];
    script held = changed(ours_array(SQLOCK_STMT_RENEW), "FOR NO KEY UPDATE OF c",
                          "AND {hold} FOR NO KEY UPDATE OF c");
    (void)state;
    batch_of_leases(c, r);
    pg_hold(gate);
    pg_start_array(c, &held, r, BATCH);
    assert_int_equal(pg_waits(c), 1);
    trouble(other, r[3]);
    pg_unhold(gate);
    assert_int_equal(pg_finish_array(c, got, BATCH), BATCH);
    for (int i = 0; i < BATCH; i++) {
        int in_trouble = got[i].index == 2 || got[i].index == 3;
        assert_int_equal(got[i].outcome, in_trouble ? SQLOCK_OUT_SKIPPED : SQLOCK_OUT_DONE);
    }
    run(other, "COMMIT");
    EXPECT(renew(c, r[2]), SQLOCK_OUT_DONE);
    EXPECT(renew(c, r[3]), SQLOCK_OUT_TAKEN);
    assert_int_equal(number(c, "SELECT get_byte(owner, 0) FROM {lock} WHERE name = 'd'"), 'T');
}

/* ---- owners -----------------------------------------------------------------------------------
 */

static void test_same_request_twice_is_one_grant(void **state)
{
    conn a = pg_open(), again = pg_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong;
    answer first, second;
    int64_t start = 0;
    (void)state;
    first = acquire(a, r);
    EXPECT(first, SQLOCK_OUT_DONE);
    EXPECT(release(a, request_token(r, first.token)), SQLOCK_OUT_DONE);

    /* The first is not committed yet: not granted twice, not waited for. */
    r = request_of('B', 5000 * MS);
    run(a, "BEGIN");
    first = ask(a, &right, &r);
    EXPECT(first, SQLOCK_OUT_DONE);
    EXPECT(ask(again, &right, &r), SQLOCK_OUT_SKIPPED);
    run(a, "COMMIT");
    start = clock_us();
    second = ask(again, &right, &r);
    EXPECT(second, SQLOCK_OUT_DONE);
    assert_true(clock_us() - start < 1000 * MS);
    assert_int_equal(second.token, first.token);
    assert_int_equal(second.since, first.since);
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);

    /* Wrong: it meets its own ghost and is told to wait for it. */
    wrong = changed(right, "OR c.owner = $3 OR c.exp <=", "OR c.exp <=");
    EXPECT(ask(again, &wrong, &r), SQLOCK_OUT_SKIPPED);
    wrong = changed(wrong, "h.owner IS NULL OR h.owner = $3 OR", "h.owner IS NULL OR");
    EXPECT(ask(again, &wrong, &r), SQLOCK_OUT_HELD);
}

/* The same request runs a second time: after the release (held = 0), or it began before (held = 1).
 */
static answer late_duplicate(script s, int held)
{
    conn a = pg_open(), dup = pg_open(), gate = pg_open();
    request r = request_of('A', 5000 * MS);
    answer got;
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    if (held) {
        s = changed(s, "FOR UPDATE OF c", "AND {hold} FOR UPDATE OF c");
        pg_hold(gate);
        pg_start(dup, &s, 0, &r);
        assert_int_equal(pg_waits(dup), 1);
    }
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    if (!held)
        return ask(dup, &s, &r);
    pg_unhold(gate);
    got = pg_finish(dup);
    return got;
}

static void test_released_owner_is_never_granted_again(void **state)
{
    conn c = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong;
    (void)state;
    wrong = changed(right, "(c.ended_why <> 1 OR c.ended_owner IS DISTINCT FROM $3)", "true");
    wrong = changed(wrong, "(l.ended_why <> 1 OR l.ended_owner IS DISTINCT FROM $3)", "true");
    EXPECT(late_duplicate(right, 0), SQLOCK_OUT_RELEASED);
    assert_int_equal(row_owner(c), -1);
    EXPECT(late_duplicate(right, 1), SQLOCK_OUT_SKIPPED); /* then it looks again: released */
    assert_int_equal(row_owner(c), -1);
    /* Wrong: granted, and nobody is there to renew or release it. */
    EXPECT(late_duplicate(wrong, 0), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), 'A');
    EXPECT(late_duplicate(wrong, 1), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), 'A');
}

/* A's lease ran out, `successor` was granted the lock, and A's release comes late. */
static answer late_release(const script *s, char successor)
{
    conn a = pg_open(), b = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of(successor, 5000 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    let_it_run_out(a);
    rb.token = acquire(b, rb).token;
    assert_int_equal(rb.token, ra.token + 1);
    return ask(a, s, &ra);
}

static void test_late_release_does_not_free_the_successor(void **state)
{
    conn c = pg_open(), b = pg_open();
    request ra = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_RELEASE);
    script by_name = changed(right, "AND l.owner = $3 AND ($4 = 0 OR l.token = $4)", "");
    script by_owner =
        changed(right, "AND l.owner = $3 AND ($4 = 0 OR l.token = $4)", "AND l.owner = $3");
    (void)state;
    EXPECT(late_release(&right, 'B'), SQLOCK_OUT_TAKEN);
    assert_int_equal(row_owner(c), 'B');
    EXPECT(late_release(&right, 'A'), SQLOCK_OUT_TAKEN); /* the same request, granted again */
    assert_int_equal(row_owner(c), 'A');
    EXPECT(late_release(&by_name, 'B'), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), -1);
    EXPECT(late_release(&by_owner, 'A'), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(c), -1);

    /* The release waits while the successor's grant is not committed yet. */
    run(c, "DELETE FROM {lock}");
    ra.token = acquire(c, ra).token;
    let_it_run_out(c);
    run(b, "BEGIN");
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    pg_start(c, &right, 0, &ra);
    assert_int_equal(pg_waits(c), 1);
    run(b, "COMMIT");
    EXPECT(pg_finish(c), SQLOCK_OUT_SKIPPED); /* its snapshot is older: look again */
    EXPECT(release(c, ra), SQLOCK_OUT_TAKEN);
    assert_int_equal(row_owner(c), 'B');
}

/* ---- creation ---------------------------------------------------------------------------------
 */

/* Both found no row. B's insert meets A's, which is not committed yet. */
static answer second_creator(const script *s, conn a, conn b, request ra, request rb)
{
    run(a, "DELETE FROM {lock}");
    pg_start(a, s, 0, &ra);
    assert_int_equal(pg_finish(a).rows, 0);
    pg_start(b, s, 0, &rb);
    assert_int_equal(pg_finish(b).rows, 0);
    run(a, "BEGIN");
    pg_start(a, s, 1, &ra);
    assert_string_equal(pg_finish(a).error, "");
    pg_start(b, s, 1, &rb);
    assert_int_equal(pg_waits(b), 1);
    run(a, "COMMIT");
    return pg_finish(b);
}

static void test_two_creators_make_one_row(void **state)
{
    conn a = pg_open(), b = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "ON CONFLICT (ns, name) DO NOTHING", "");
    (void)state;
    assert_string_equal(second_creator(&right, a, b, ra, rb).error, "");
    pg_start(b, &right, 2, &rb);
    EXPECT(pg_finish(b), SQLOCK_OUT_DONE);
    pg_start(a, &right, 2, &ra);
    EXPECT(pg_finish(a), SQLOCK_OUT_HELD);
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);
    /* Wrong: look, then insert. */
    assert_string_equal(second_creator(&wrong, a, b, ra, rb).error, "23505");
}

#define ROUNDS 40

struct creator {
    conn c;
    script acquire;
    pthread_barrier_t *barrier;
    char letter;
    int granted[ROUNDS], faults;
};

static void *creator_main(void *arg)
{
    struct creator *k = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        request r = request_name(request_of(k->letter, 30000 * MS), name, 3);
        answer a;
        snprintf(name, sizeof name, "n%02d", i);
        pthread_barrier_wait(k->barrier);
        a = ask(k->c, &k->acquire, &r);
        k->granted[i] = a.outcome == SQLOCK_OUT_DONE;
        k->faults += a.rows != 1 || (a.outcome != SQLOCK_OUT_DONE && a.outcome != SQLOCK_OUT_HELD &&
                                     a.outcome != SQLOCK_OUT_SKIPPED);
    }
    return NULL;
}

static void test_four_creators_and_one_grant_each_time(void **state)
{
    static struct creator k[STRESS_CLIENTS];
    pthread_t threads[STRESS_CLIENTS];
    pthread_barrier_t barrier;
    (void)state;
    pthread_barrier_init(&barrier, NULL, STRESS_CLIENTS);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        k[i] = (struct creator){
            pg_open(), ours(SQLOCK_STMT_ACQUIRE), &barrier, (char)('A' + i), {0}, 0};
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, creator_main, &k[i]), 0);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int n = 0; n < ROUNDS; n++) {
        int granted = 0;
        for (int i = 0; i < STRESS_CLIENTS; i++)
            granted += k[i].granted[n];
        assert_int_equal(granted, 1);
    }
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(k[i].faults, 0);
    assert_int_equal(number(pg_open(), "SELECT count(*) FROM {lock}"), ROUNDS);
}

/* ---- incarnations -----------------------------------------------------------------------------
 */

/* A server's name that ends with the present timeline. */
static request server_called(conn c, const char *id, char *buffer, size_t size)
{
    int64_t timeline = number(c, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))"
                                 "::bit(32)::bigint");
    snprintf(buffer, size, "%s/%08llX", id, (long long)timeline);
    return request_name(request_of('-', 0), buffer, strlen(buffer));
}

/* Token 7 was granted, and the server that knew it is gone: the next one has the row of before. */
static answer grant_after_a_lost_commit(const script *s)
{
    conn c = pg_open();
    char name[64];
    request server = server_called(c, "second", name, sizeof name), r = request_of('B', 5000 * MS);
    script meet = ours(SQLOCK_STMT_REINCARNATE);
    run(c, "DELETE FROM {lock}; UPDATE {meta} SET server = 'first', inc = 0, fence_floor = 6");
    run(c, "INSERT INTO {lock} (ns, name, token, inc) VALUES ('app', 'job', 6, 0)");
    EXPECT(ask(c, &meet, &server), SQLOCK_OUT_DONE);
    return ask(c, s, &r);
}

static void test_tokens_jump_over_what_a_lost_server_granted(void **state)
{
    conn c = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong =
        changed(right, "ELSE l.token + (k.inc - l.inc) * 4294967296", "ELSE l.token + 1");
    request other = request_name(request_of('B', 5000 * MS), "new", 3), r = request_of('B', MS);
    answer got;
    (void)state;
    got = grant_after_a_lost_commit(&right);
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_true(got.token == 6 + JUMP);
    assert_true(acquire(c, other).token > 6 + JUMP);
    /* Once: the row belongs to this incarnation now. */
    EXPECT(release(c, request_token(r, got.token)), SQLOCK_OUT_DONE);
    assert_true(acquire(c, request_of('C', MS)).token == 7 + JUMP);
    /* Wrong: 7 is granted a second time. */
    got = grant_after_a_lost_commit(&wrong);
    assert_int_equal(got.token, 7);
}

static void test_two_who_meet_a_new_server_jump_once(void **state)
{
    conn a = pg_open(), b = pg_open();
    char name[64];
    request server = server_called(a, "second", name, sizeof name);
    script right = ours(SQLOCK_STMT_REINCARNATE);
    script wrong = changed(right, "AND m.server <> convert_from($1, 'UTF8')", "");
    answer got;
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "UPDATE {meta} SET server = 'first', inc = 3, fence_floor = 6");
        run(a, "BEGIN");
        EXPECT(ask(a, i ? &wrong : &right, &server), SQLOCK_OUT_DONE);
        pg_start(b, i ? &wrong : &right, 0, &server);
        assert_int_equal(pg_waits(b), 1);
        run(a, "COMMIT");
        got = pg_finish(b);
        assert_string_equal(got.error, "");
        assert_int_equal(got.rows, i);
        assert_int_equal(number(a, "SELECT inc FROM {meta}"), 4 + i); /* wrong: twice */
    }
}

static void test_server_of_another_timeline_grants_nothing(void **state)
{
    conn c = pg_open();
    request r = request_of('A', 5000 * MS), new = request_name(r, "new", 3);
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(
        right, "AND right(m.server, 8) = left(pg_walfile_name(pg_current_wal_lsn()), 8)", "");
    (void)state;
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    memset(r.owner, 'B', sizeof r.owner);
    run(c, "UPDATE {meta} SET server = 'same/7FFFFFFF'");
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_STRANGER);
    EXPECT(ask(c, &right, &new), SQLOCK_OUT_STRANGER);
    assert_int_equal(number(c, "SELECT count(*) FROM {lock} WHERE owner IS NOT NULL"), 0);
    /* Wrong: a session that lived on through a promotion grants before anyone said hello. */
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

/* ---- names ------------------------------------------------------------------------------------
 */

#define FOLDED(name) "lower(encode(" name ", 'escape')) = lower(encode($2, 'escape'))"

static void test_names_are_bytes(void **state)
{
    char longest[256], other[256];
    conn c = pg_open();
    request r = request_of('A', 5000 * MS), pair = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), folded, glued;
    const struct {
        const char *name;
        size_t len;
    } names[] = {{"job", 3},  {"Job", 3},     {"job ", 4},  {"job\xff", 4}, {"job\xff\xfe", 5},
                 {" job", 4}, {longest, 255}, {other, 255}, {longest, 254}};
    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(other, 'x', sizeof other);
    other[254] = 'y';
    for (size_t i = 0; i < COUNT(names); i++) {
        answer got = acquire(c, request_name(r, names[i].name, names[i].len));
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, 1);
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), COUNT(names));
    assert_string_equal(acquire(c, request_name(r, longest, 256)).error, "23514");

    run(c, "DELETE FROM {lock}");
    r.ns = "a", r.ns_len = 1, r.name = "bc", r.name_len = 2;
    pair.ns = "ab", pair.ns_len = 2, pair.name = "c", pair.name_len = 1;
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    /* Wrong: one column's worth of comparison for two columns; a comparison that folds case. */
    glued = changed(right, "c.ns = $1 AND c.name = $2", "c.ns || c.name = $1 || $2");
    glued = changed(glued, "h.ns = $1 AND h.name = $2", "h.ns || h.name = $1 || $2");
    EXPECT(ask(c, &glued, &pair), SQLOCK_OUT_HELD);
    EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
    memset(pair.owner, 'C', sizeof pair.owner);
    pair = request_name(pair, "C", 1);
    folded = changed(right, "c.name = $2", FOLDED("c.name"));
    folded = changed(folded, "h.name = $2", FOLDED("h.name"));
    EXPECT(ask(c, &folded, &pair), SQLOCK_OUT_HELD);
    EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
}

/* ---- cost -------------------------------------------------------------------------------------
 */

/* 100 tries while the lock is held. *wal: bytes of the least busy of twenty rounds (other sessions
 * and the server itself write too). Returns whether a transaction id was drawn. */
static int refused(conn c, const script *s, int64_t *wal)
{
    request r = request_of('B', 5000 * MS);
    int64_t id = 0;
    *wal = INT64_MAX;
    for (int round = 0; round < 20 && *wal > 0; round++) {
        int64_t before = 0, after = 0;
        run(c, "BEGIN");
        before = number(c, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        for (int i = 0; i < 100; i++) {
            answer a = ask(c, s, &r);
            assert_string_equal(a.error, "");
            assert_int_not_equal(a.outcome, SQLOCK_OUT_DONE);
        }
        after = number(c, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        id = number(c, "SELECT count(txid_current_if_assigned())");
        run(c, "COMMIT");
        *wal = after - before < *wal ? after - before : *wal;
    }
    return id > 0;
}

/* Wrong: DO UPDATE locks the row before it asks its WHERE: a transaction id and WAL for each try.
 */
#define UPSERT_REFUSED                                                                             \
    "INSERT INTO {lock} AS l (ns, name, owner, token, exp, inc)"                                   \
    " VALUES ($1, $2, $3, 1, " PG_NOW " + $4, 0)"                                                  \
    " ON CONFLICT (ns, name) DO UPDATE SET owner = excluded.owner, token = l.token + 1,"           \
    "  exp = " PG_NOW " + $4 WHERE l.owner IS NULL OR l.exp <= " PG_NOW " RETURNING 0, 1, token"

static void test_refusals_write_nothing(void **state)
{
    conn c = pg_open(), guard = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong = written(SQLOCK_STMT_ACQUIRE, UPSERT_REFUSED);
    int64_t wal = 0;
    (void)state;
    EXPECT(acquire(c, request_of('A', 60000 * MS)), SQLOCK_OUT_DONE);
    assert_int_equal(refused(c, &right, &wal), 0);
    assert_int_equal(wal, 0);
    /* Nor does the try against a row that is free but locked. */
    let_it_run_out(guard);
    run(guard, "BEGIN; SELECT 1 FROM {lock} FOR KEY SHARE");
    assert_int_equal(refused(c, &right, &wal), 0);
    assert_int_equal(wal, 0);
    run(guard, "COMMIT; UPDATE {lock} SET exp = " PG_NOW " + 60000000");
    assert_int_equal(refused(c, &wrong, &wal), 1);
    assert_true(wal > 0);
}

#define CYCLES 1000

/* Of how many updates of CYCLES leases how many were HOT? */
static void updates_of_cycles(int64_t *updates, int64_t *hot)
{
    conn c = {PQconnectdb(getenv("SQLOCK_TEST_POSTGRES_URL")), NULL}, watch = pg_open();
    script grant = ours(SQLOCK_STMT_ACQUIRE), extend = ours(SQLOCK_STMT_RENEW),
           end = ours(SQLOCK_STMT_RELEASE);
    int faults = 0;
    int64_t before = number(watch, "SELECT pg_stat_get_tuples_updated({lock:text}::regclass)");
    int64_t hot_before =
        number(watch, "SELECT pg_stat_get_tuples_hot_updated({lock:text}::regclass)");
    faults += try_run(c, "SET synchronous_commit = off") != 0; /* only for speed */
    for (int i = 0; i < CYCLES; i++) {
        request r = request_of('A', 5000 * MS);
        memcpy(r.owner, &i, sizeof i);
        r.token = ask(c, &grant, &r).token;
        faults += ask(c, &extend, &r).outcome != SQLOCK_OUT_DONE;
        faults += ask(c, &end, &r).outcome != SQLOCK_OUT_DONE;
    }
    PQfinish(c.pg); /* a session hands in its counts at its end, at the latest */
    assert_int_equal(faults, 0);
    for (int i = 0; i < 200; i++) {
        *updates =
            number(watch, "SELECT pg_stat_get_tuples_updated({lock:text}::regclass)") - before;
        *hot = number(watch, "SELECT pg_stat_get_tuples_hot_updated({lock:text}::regclass)") -
               hot_before;
        if (*updates >= 3 * CYCLES)
            return;
        pause_ms(10);
    }
    fail_msg("the statistics never came: %lld updates", (long long)*updates);
}

static void test_grants_renewals_and_releases_are_hot(void **state)
{
    conn c = pg_open();
    int64_t updates = 0, hot = 0;
    (void)state;
    updates_of_cycles(&updates, &hot);
    assert_int_equal(updates, 3 * CYCLES);
    assert_int_equal(hot, updates);
    /* Wrong: an index for the reaper's sake. */
    run(c, "CREATE INDEX ON {lock} (exp)");
    updates_of_cycles(&updates, &hot);
    assert_true(hot * 20 < updates);
}

#define RACE(test) cmocka_unit_test_setup_teardown(test, pg_setup, race_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RACE(test_delayed_client_draws_the_later_token),
        RACE(test_tokens_rise_under_four_clients_and_a_pruner),
        RACE(test_stalled_creator_starts_above_the_raised_floor),
        RACE(test_waiter_gets_a_full_lease),
        RACE(test_lease_granted_in_an_old_transaction_is_whole),
        RACE(test_statement_held_up_past_not_after_does_nothing),
        RACE(test_thief_gets_nothing_when_the_renewal_came_first),
        RACE(test_renewal_after_the_end_is_refused),
        RACE(test_renewal_is_for_the_exact_grant),
        RACE(test_batch_renews_the_others_at_once),
        RACE(test_batch_does_not_renew_what_was_taken_meanwhile),
        RACE(test_same_request_twice_is_one_grant),
        RACE(test_released_owner_is_never_granted_again),
        RACE(test_late_release_does_not_free_the_successor),
        RACE(test_two_creators_make_one_row),
        RACE(test_four_creators_and_one_grant_each_time),
        RACE(test_tokens_jump_over_what_a_lost_server_granted),
        RACE(test_two_who_meet_a_new_server_jump_once),
        RACE(test_server_of_another_timeline_grants_nothing),
        RACE(test_names_are_bytes),
        RACE(test_refusals_write_nothing),
        RACE(test_grants_renewals_and_releases_are_hot),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("races on PostgreSQL", tests, NULL, NULL);
}
