/* One owner for each acquisition (P3, P5): the same request twice, and releases that come late. */
#include "races.h"

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
    wrong = changed(wrong, "h.owner <> $3 AND h.exp", "h.exp");
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
    wrong = changed(right, "(c.ended_why <> 1 OR (c.ended_owner = $3) IS NOT TRUE)", "true");
    wrong = changed(wrong, "(l.ended_why <> 1 OR (l.ended_owner = $3) IS NOT TRUE)", "true");
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

static void test_late_release_does_not_free_the_successor(void **state)
{
    conn c = pg_open(), b = pg_open();
    request ra = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_RELEASE);
    script by_name = changed(right, "AND l.owner = $3 AND l.token = $4", "");
    script by_owner = changed(right, "AND l.owner = $3 AND l.token = $4", "AND l.owner = $3");
    (void)state;
    late_release_frees_nobody(c, b, by_name, by_owner);

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

static void test_acquire_that_arrives_after_its_withdrawal_grants_nothing(void **state)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    (void)state;
    withdrawn_acquire_arrives(pg_open(),
                              changed(s, "AND (k.withdrawn = $3) IS NOT TRUE", "AND false"));
}

static void test_pruner_leaves_the_mark_of_a_withdrawal(void **state)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    (void)state;
    withdrawn_acquire_arrives_after_the_pruner(
        pg_open(), changed(s, "CASE WHEN k.owner IS NULL THEN " PG_NOW " END", "l.idle_since"));
}

/* Another one who withdraws takes the tombstone's place; until not_after nothing is certain. */
static void test_withdrawal_is_certain_only_after_the_last_moment(void **state)
{
    (void)state;
    withdrawal_is_certain_later(pg_open(), pg_open());
}

static void test_withdrawal_leaves_another_holder_alone(void **state)
{
    (void)state;
    withdrawal_beside_another_holder(pg_open(), pg_open());
}

static void test_withdrawal_leaves_how_others_ended(void **state)
{
    (void)state;
    withdrawal_leaves_how_others_ended(pg_open(), pg_open());
}

/* The grant is still committing: no snapshot shows it, only the row's lock does. */
static void withdrawn_in_its_commit(const script *s, int outcome, int owner)
{
    conn a = pg_open(), w = pg_open();
    request r = request_of('A', 5000 * MS);
    r.not_after = 1; /* the last moment has passed meanwhile */
    run(a, "DELETE FROM {lock}");
    EXPECT(acquire(a, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    let_it_run_out(a);
    run(a, "BEGIN");
    EXPECT(acquire(a, request_of('A', 5000 * MS)), SQLOCK_OUT_DONE);
    pg_start(w, s, 0, &r);
    if (owner < 0)
        assert_int_equal(pg_waits(w), 1);
    else
        pg_waits(w);
    run(a, "COMMIT");
    EXPECT(pg_finish(w), outcome);
    assert_int_equal(row_owner(w), owner);
}

static void test_withdrawal_waits_for_a_grant_that_is_committing(void **state)
{
    script right = ours(SQLOCK_STMT_WITHDRAW);
    script blind = changed(right, "FOR NO KEY UPDATE", "");
    script skips = changed(right, "FOR NO KEY UPDATE", "FOR NO KEY UPDATE SKIP LOCKED");
    conn a = pg_open(), w = pg_open();
    request r = request_of('A', 5000 * MS);
    (void)state;
    withdrawn_in_its_commit(&right, SQLOCK_OUT_DONE, -1);
    withdrawn_in_its_commit(&blind, SQLOCK_OUT_NEVER, 'A'); /* wrong: held by nobody */

    /* Wrong: it takes the row for one that is not there, and then again. */
    run(a, "DELETE FROM {lock}; INSERT INTO {lock} (ns, name, token) VALUES ('app', 'job', 0)");
    run(a, "BEGIN");
    EXPECT(acquire(a, r), SQLOCK_OUT_DONE);
    assert_int_equal(ask(w, &skips, &r).rows, 0);
    run(a, "COMMIT");

    /* It does not wait for a guard. */
    run(a, "BEGIN; SELECT 1 FROM {lock} FOR KEY SHARE");
    EXPECT(withdraw(w, r), SQLOCK_OUT_DONE);
    run(a, "COMMIT");
    assert_int_equal(row_owner(w), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_same_request_twice_is_one_grant),
        ON_POSTGRES(test_released_owner_is_never_granted_again),
        ON_POSTGRES(test_late_release_does_not_free_the_successor),
        ON_POSTGRES(test_acquire_that_arrives_after_its_withdrawal_grants_nothing),
        ON_POSTGRES(test_pruner_leaves_the_mark_of_a_withdrawal),
        ON_POSTGRES(test_withdrawal_is_certain_only_after_the_last_moment),
        ON_POSTGRES(test_withdrawal_leaves_another_holder_alone),
        ON_POSTGRES(test_withdrawal_leaves_how_others_ended),
        ON_POSTGRES(test_withdrawal_waits_for_a_grant_that_is_committing),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("owners on PostgreSQL", tests, NULL, NULL);
}
