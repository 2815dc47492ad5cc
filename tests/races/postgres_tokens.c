/* Tokens only rise (P2): drawn under the row's lock, and kept by the floor when rows are pruned. */
#include "races.h"

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

static void test_tokens_rise_under_four_clients_and_a_pruner(void **state)
{
    static stress s;
    const char *forget[] = {PRUNE_AND_FORGET};
    (void)state;
    s = (stress){.open = pg_open, .ttl = 4 * MS, .ms = 900};
    stress_run(&s, PRUNE, COUNT(PRUNE));
    assert_int_equal(s.errors, 0);
    assert_true(s.grants > 20);
    assert_int_equal(stress_faults(&s), 0);
    assert_true(number(pg_open(), "SELECT fence_floor FROM {meta}") > 0);

    for (int i = 0, faults = 0; !faults; i++) { /* a busy machine may need a second round */
        assert_true(i < 5);
        s = (stress){.open = pg_open, .ttl = 4 * MS, .ms = 900};
        stress_run(&s, forget, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_delayed_client_draws_the_later_token),
        ON_POSTGRES(test_tokens_rise_under_four_clients_and_a_pruner),
        ON_POSTGRES(test_stalled_creator_starts_above_the_raised_floor),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("tokens on PostgreSQL", tests, NULL, NULL);
}
