/* Tokens only rise (P2): drawn under the row's lock, and kept by the floor when rows are pruned. */
#include "races.h"

/* Wrong: the token is drawn before the row is locked, as DEFAULT nextval, VALUES and EXCLUDED do. A
 * client that is delayed between the two is granted the lock later with the smaller token. */
#define TOKEN_DRAWN_EARLY                                                                          \
    "WITH x AS MATERIALIZED (SELECT nextval('{schema}.early') AS token),"                          \
    " h AS MATERIALIZED (SELECT {hold} AS ok FROM x WHERE x.token > 0)"                            \
    "INSERT INTO {lock} AS l (ns, name, owner, token, exp, since)"                                 \
    " SELECT $1, $2, $3, x.token, " PG_NOW " + $4, " PG_NOW " FROM x, h WHERE h.ok"                \
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
    return changed(s, "AND c.token <= m.fence_floor", "");
}

static void test_tokens_rise_under_four_clients_and_two_reapers(void **state)
{
    (void)state;
    tokens_rise(pg_open, 4 * MS, 20, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(pg_open, 4 * MS, prune_and_forget());
}

/* A creator is stopped when it has read the floor; meanwhile the row is made, granted, given back
 * and pruned; the creator goes on, and makes a row with the floor of before. */
static int64_t token_after_a_stalled_creator(const script *grant)
{
    conn a = pg_open(), b = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script pruner = ours(SQLOCK_STMT_PRUNE), creator = ours(SQLOCK_STMT_ACQUIRE);
    creator = changed(creator, "WHERE m.id = 1", "WHERE m.id = 1 AND {hold}");
    run(b, "DELETE FROM {lock}");
    run(b, "UPDATE {meta} SET fence_floor = 0");
    pg_hold(gate);
    pg_start(a, &creator, 1, &ra);
    assert_int_equal(pg_waits(a), 1);
    rb.token = acquire(b, rb).token;
    assert_int_equal(rb.token, 1);
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    EXPECT(prune(b, &pruner, rb), SQLOCK_OUT_DONE);
    assert_int_equal(number(b, "SELECT count(*) FROM {lock}"), 0);
    pg_unhold(gate);
    assert_string_equal(pg_finish(a).error, "");
    assert_int_equal(number(b, "SELECT token FROM {lock}"), 0);
    return ask(a, grant, &ra).token;
}

static void test_row_that_a_stalled_creator_makes_is_granted_above_the_floor(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "greatest(l.token, k.floor) + 1", "l.token + 1");
    (void)state;
    assert_int_equal(token_after_a_stalled_creator(&right), 2);
    assert_int_equal(token_after_a_stalled_creator(&wrong), 1); /* a second time */
}

/* The row is free and idle. Between the pruner's two steps somebody is granted the lock. */
static int64_t token_amid_a_prune(const script *pruner)
{
    conn b = pg_open();
    request r = request_of('A', 5000 * MS);
    answer got;
    run(b, "DELETE FROM {lock}");
    run(b, "UPDATE {meta} SET fence_floor = 0");
    for (int i = 0; i < 3; i++) {
        memset(r.owner, 'a' + i, sizeof r.owner);
        r.token = acquire(b, r).token;
        EXPECT(release(b, r), SQLOCK_OUT_DONE);
    }
    r.floor = r.token;
    pg_start(b, pruner, 0, &r);
    assert_string_equal(pg_finish(b).error, "");
    got = acquire(b, request_of('B', 5000 * MS));
    EXPECT(got, SQLOCK_OUT_DONE);
    pg_start(b, pruner, 1, &r);
    assert_string_equal(pg_finish(b).error, "");
    return got.token;
}

static void test_floor_is_raised_before_anything_is_deleted(void **state)
{
    script right = ours(SQLOCK_STMT_PRUNE), wrong;
    char *first = NULL;
    (void)state;
    assert_int_equal(token_amid_a_prune(&right), 4);
    /* Wrong: deleted first, and only then is the floor raised: 3 tokens are granted once more. */
    wrong = changed(right, "AND c.token <= m.fence_floor", "");
    first = wrong.step[0];
    wrong.step[0] = wrong.step[1];
    wrong.step[1] = first;
    assert_int_equal(token_amid_a_prune(&wrong), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_delayed_client_draws_the_later_token),
        ON_POSTGRES(test_tokens_rise_under_four_clients_and_two_reapers),
        ON_POSTGRES(test_row_that_a_stalled_creator_makes_is_granted_above_the_floor),
        ON_POSTGRES(test_floor_is_raised_before_anything_is_deleted),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("tokens on PostgreSQL", tests, NULL, NULL);
}
