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

/* Wrong: the row goes, and what it knew with it. */
static script prune_and_forget(void)
{
    script s = changed(ours(SQLOCK_STMT_PRUNE), "m.fence_floor < $4", "m.fence_floor < 0");
    return changed(s, "AND c.token + ((m.inc - c.inc)::bigint * 4294967296) <= m.fence_floor", "");
}

static void test_tokens_rise_under_four_clients_and_two_reapers(void **state)
{
    (void)state;
    tokens_rise(pg_open, 4 * MS, 20, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(pg_open, 4 * MS, prune_and_forget());
}

/* A creator found no row and is stopped before it reads the floor; meanwhile the row is made,
 * granted, given back and pruned; the creator goes on. */
static int64_t token_after_a_stalled_creator(const script *creator)
{
    conn a = pg_open(), b = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script pruner = ours(SQLOCK_STMT_PRUNE);
    run(b, "DELETE FROM {lock}");
    run(b, "UPDATE {meta} SET fence_floor = 0");
    pg_hold(gate);
    pg_start(a, creator, 1, &ra);
    assert_int_equal(pg_waits(a), 1);
    rb.token = acquire(b, rb).token;
    assert_int_equal(rb.token, 1);
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    EXPECT(prune(b, &pruner, rb), SQLOCK_OUT_DONE);
    assert_int_equal(number(b, "SELECT count(*) FROM {lock}"), 0);
    pg_unhold(gate);
    assert_string_equal(pg_finish(a).error, "");
    return acquire(a, ra).token;
}

static void test_stalled_creator_starts_above_the_raised_floor(void **state)
{
    script creator = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    creator = changed(creator, "WHERE m.id = 1", "WHERE m.id = 1 AND {hold}");
    assert_int_equal(token_after_a_stalled_creator(&creator), 2);
    /* Wrong: without the share lock the floor is the one of the statement's snapshot: token 1 is
     * granted a second time. */
    creator = changed(creator, "FOR SHARE", "");
    assert_int_equal(token_after_a_stalled_creator(&creator), 1);
}

/* A creator has read the floor, and is stopped before it looks for the row, which is free and idle.
 * The token of the grant after its insert, or 0 when the pruner waits for it. */
static int64_t token_after_a_creator_that_read_the_floor(const script *pruner)
{
    conn a = pg_open(), b = pg_open();
    request r = request_of('A', 5000 * MS);
    run(b, "DELETE FROM {lock}");
    run(b, "UPDATE {meta} SET fence_floor = 0");
    for (int i = 0; i < 3; i++) {
        memset(r.owner, 'a' + i, sizeof r.owner);
        r.token = acquire(b, r).token;
        EXPECT(release(b, r), SQLOCK_OUT_DONE);
    }
    run(a, "BEGIN; CREATE TEMP TABLE got ON COMMIT DROP AS"
           " SELECT fence_floor AS token, inc FROM {meta} WHERE id = 1 FOR SHARE");
    r.floor = r.token;
    pg_start(b, pruner, 0, &r);
    if (pg_waits(b)) {
        run(a, "COMMIT");
        assert_string_equal(pg_finish(b).error, "");
        return 0;
    }
    EXPECT(pg_finish(b), SQLOCK_OUT_DONE);
    run(a, "INSERT INTO {lock} (ns, name, token, inc, idle_since)"
           " SELECT 'app', 'job', token, inc, " PG_NOW " FROM got; COMMIT");
    pg_start(b, pruner, 1, &r);
    pg_finish(b);
    return acquire(b, request_of('B', 5000 * MS)).token;
}

static void test_floor_is_raised_before_anything_is_deleted(void **state)
{
    script right = ours(SQLOCK_STMT_PRUNE), wrong;
    char *first = NULL;
    (void)state;
    assert_int_equal(token_after_a_creator_that_read_the_floor(&right), 0);
    /* Wrong: deleted first, and only then is the floor raised: 3 tokens are granted once more. */
    wrong =
        changed(right, "AND c.token + ((m.inc - c.inc)::bigint * 4294967296) <= m.fence_floor", "");
    first = wrong.step[0];
    wrong.step[0] = wrong.step[1];
    wrong.step[1] = first;
    assert_int_equal(token_after_a_creator_that_read_the_floor(&wrong), 1);
}

static void test_pruned_row_of_an_older_incarnation_raises_the_floor_by_the_jump(void **state)
{
    (void)state;
    old_row_raises_the_floor_by_the_jump(pg_open(),
                                         "INSERT INTO {lock} (ns, name, token, inc, idle_since) "
                                         "VALUES ('app', 'job', 8589934592, 0, 1)",
                                         "c.token + ((m.inc - c.inc)::bigint * 4294967296)",
                                         "c.token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_delayed_client_draws_the_later_token),
        ON_POSTGRES(test_tokens_rise_under_four_clients_and_two_reapers),
        ON_POSTGRES(test_stalled_creator_starts_above_the_raised_floor),
        ON_POSTGRES(test_floor_is_raised_before_anything_is_deleted),
        ON_POSTGRES(test_pruned_row_of_an_older_incarnation_raises_the_floor_by_the_jump),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("tokens on PostgreSQL", tests, NULL, NULL);
}
