/* The reaper's statements that meet renewals, take-overs, guards and each other (P3, P10). */
#include "races.h"

/* Ours, which {hold} stops after it saw the row and before it locks it. */
static script reap_held(void)
{
    return changed(ours(SQLOCK_STMT_REAP), "c.kind = 0 AND", "c.kind = 0 AND {hold} AND");
}

/* Wrong: what the page said is believed. */
static script reap_unasked(void)
{
    script s = changed(reap_held(), "FOR UPDATE SKIP LOCKED", "");
    return changed(s, "AND l.exp <= $6 AND l.exp <= i.t", "");
}

/* A's lease ran out; the reaper has seen that, and is stopped. Meanwhile A's row is granted anew,
 * to its own owner or to another, and that lease runs. The first byte of the owner in the end. */
static int64_t owner_after_a_stalled_reaper(const script *reaper, char next, int *cleared)
{
    conn a = pg_open(), sweeper = pg_open(), gate = pg_open();
    request ra = request_of('A', 5000 * MS), rn = request_of(next, 5000 * MS);
    run(a, "DELETE FROM {lock}");
    EXPECT(acquire(a, ra), SQLOCK_OUT_DONE);
    let_it_run_out(a);
    pg_hold(gate);
    pg_start(sweeper, reaper, 0, &ra);
    assert_int_equal(pg_waits(sweeper), 1);
    EXPECT(acquire(a, rn), SQLOCK_OUT_DONE);
    pg_unhold(gate);
    *cleared = (int)pg_finish(sweeper).token;
    return row_owner(a);
}

static void test_lease_that_was_granted_meanwhile_is_not_cleared(void **state)
{
    script right = reap_held(), wrong = reap_unasked();
    int cleared = 0;
    (void)state;
    assert_int_equal(owner_after_a_stalled_reaper(&right, 'B', &cleared), 'B');
    assert_int_equal(cleared, 0);
    assert_int_equal(owner_after_a_stalled_reaper(&right, 'A', &cleared), 'A');
    assert_int_equal(cleared, 0);
    assert_int_equal(owner_after_a_stalled_reaper(&wrong, 'B', &cleared), -1);
    assert_int_equal(cleared, 1); /* B works, and anybody may come in */
}

/* The reaper looks while A's renewal is being committed. It steps over the row, or would have
 * waited. */
static int64_t owner_after_a_late_commit(const script *reaper, int *cleared)
{
    *cleared = (int)pg_beside_a_late_renewal(reaper, request_of('-', 0)).token;
    return row_owner(pg_open());
}

static void test_renewal_that_is_being_committed_is_not_lost(void **state)
{
    script right = reap_held(), wrong = reap_unasked();
    int cleared = 0;
    (void)state;
    assert_int_equal(owner_after_a_late_commit(&right, &cleared), 'A');
    assert_int_equal(cleared, 0);
    assert_int_equal(owner_after_a_late_commit(&wrong, &cleared), -1);
    assert_int_equal(cleared, 1);
}

/* Rows that somebody has locked, or guards, delay nothing: they are stepped over. */
static void test_locked_and_guarded_rows_are_stepped_over(void **state)
{
    const char *blockers[] = {"BEGIN; SELECT 1 FROM {lock} WHERE name = 'held' FOR KEY SHARE",
                              "BEGIN; UPDATE {lock} SET label = 'x' WHERE name = 'held'"};
    conn c = pg_open(), other = pg_open();
    request r = request_name(request_of('A', 1), "free", 4);
    request held = request_name(request_of('A', 1), "held", 4), both = r;
    script right = ours(SQLOCK_STMT_REAP);
    script waits = changed(right, "FOR UPDATE SKIP LOCKED", "FOR UPDATE");
    (void)state;
    both.to = "held";
    for (size_t i = 0; i < COUNT(blockers); i++) {
        run(c, "DELETE FROM {lock}");
        EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
        EXPECT(acquire(c, held), SQLOCK_OUT_DONE);
        pause_ms(2);
        run(other, blockers[i]);
        assert_int_equal(ask(c, &right, &both).token, 1);
        assert_int_equal(ask(c, &right, &held).token, 0);
        pg_start(c, &waits, 0, &both); /* wrong */
        assert_int_equal(pg_waits(c), 1);
        run(other, "COMMIT");
        assert_int_equal(pg_finish(c).token, 1);
    }
}

static void test_guarded_free_row_is_not_pruned(void **state)
{
    conn c = pg_open(), other = pg_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_PRUNE);
    script waits = changed(right, "FOR UPDATE OF c SKIP LOCKED", "");
    (void)state;
    r.token = acquire(c, r).token;
    run(other, "BEGIN; SELECT 1 FROM {lock} FOR KEY SHARE");
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    assert_int_equal(prune(c, &right, r).rows, 0);
    r.floor = r.token;
    pg_start(c, &waits, 1, &r);
    assert_int_equal(pg_waits(c), 1); /* wrong: it hangs on the guard */
    run(other, "COMMIT");
    EXPECT(pg_finish(c), SQLOCK_OUT_DONE);
}

/* The pruner saw the row free; meanwhile it was granted. */
static int64_t rows_after_a_stalled_pruner(const script *pruner)
{
    conn a = pg_open(), sweeper = pg_open(), gate = pg_open();
    request r = request_of('A', 5000 * MS), next = request_of('B', 5000 * MS);
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    run(a, "UPDATE {meta} SET fence_floor = fence_floor + 10");
    pg_hold(gate);
    pg_start(sweeper, pruner, 1, &r);
    assert_int_equal(pg_waits(sweeper), 1);
    EXPECT(acquire(a, next), SQLOCK_OUT_DONE);
    pg_unhold(gate);
    assert_string_equal(pg_finish(sweeper).error, "");
    return number(a, "SELECT count(*) FROM {lock}");
}

static void test_row_that_was_granted_meanwhile_is_not_pruned(void **state)
{
    script right = changed(ours(SQLOCK_STMT_PRUNE), "c.kind = 0 AND", "c.kind = 0 AND {hold} AND");
    script wrong = changed(right, "FOR UPDATE OF c SKIP LOCKED", "");
    (void)state;
    wrong = changed(wrong, "AND l.token = k.token AND l.kind = 0 AND l.owner IS NULL", "");
    wrong = changed(wrong, "AND l.idle_since <= $3", "");
    assert_int_equal(rows_after_a_stalled_pruner(&right), 1);
    assert_int_equal(rows_after_a_stalled_pruner(&wrong), 0); /* B's grant is gone */
}

/* The same for a batch, of which the second row is granted meanwhile. How many rows are left. */
static int64_t rows_after_a_stalled_batch(const script *pruner)
{
    static const char *const names[] = {"a", "b", "c"};
    conn c = pg_open(), sweeper = pg_open(), gate = pg_open();
    request r[COUNT(names)], next;
    answer got[COUNT(names)];
    run(c, "DELETE FROM {lock}");
    for (size_t i = 0; i < COUNT(names); i++) {
        r[i] = request_name(request_of('A', 5000 * MS), names[i], 1);
        r[i].token = acquire(c, r[i]).token;
        EXPECT(release(c, r[i]), SQLOCK_OUT_DONE);
    }
    run(c, "UPDATE {meta} SET fence_floor = fence_floor + 10");
    pg_hold(gate);
    pg_start_array(sweeper, pruner, r, COUNT(names));
    assert_int_equal(pg_waits(sweeper), 1);
    next = request_name(request_of('B', 5000 * MS), names[1], 1);
    EXPECT(acquire(c, next), SQLOCK_OUT_DONE);
    pg_unhold(gate);
    pg_finish_array(sweeper, got, COUNT(names));
    return number(c, "SELECT count(*) FROM {lock}");
}

static void test_row_of_a_batch_that_was_granted_meanwhile_is_not_pruned(void **state)
{
    script right = ours_array(SQLOCK_STMT_PRUNE), wrong;
    (void)state;
    right.step[0] = right.step[1];
    right = changed(right, "c.kind = 0 AND", "c.kind = 0 AND {hold} AND");
    assert_int_equal(rows_after_a_stalled_batch(&right), 1);
    assert_int_equal(row_owner(pg_open()), 'B');
    wrong = changed(right, "FOR UPDATE OF c SKIP LOCKED", "");
    wrong = changed(wrong, "AND l.token = k.token AND l.kind = 0 AND l.owner IS NULL", "");
    wrong = changed(wrong, "AND l.idle_since <= k.cut", "");
    assert_int_equal(rows_after_a_stalled_batch(&wrong), 0); /* B's grant is gone */
}

/* exp of a row, or when it was freed, lies before cut, but the server's clock was put back since.
 */
static void test_clock_that_was_put_back_saves_a_lease_and_a_row(void **state)
{
    conn c = pg_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_REAP), wrong;
    (void)state;
    r.token = acquire(c, r).token;
    assert_int_equal(ask(c, &right, &r).token, 0); /* cut is far in the future */
    wrong = changed(changed(right, "AND c.exp <= " PG_NOW, ""), "AND l.exp <= i.t", "");
    assert_int_equal(ask(c, &wrong, &r).token, 1);

    run(c, "UPDATE {lock} SET idle_since = " PG_NOW " + 60000000");
    r.floor = r.token;
    right = ours(SQLOCK_STMT_PRUNE);
    assert_int_equal(ask(c, &right, &r).rows, 0);
    wrong = changed(right, "AND c.idle_since <= " PG_NOW, "");
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_lease_that_was_granted_meanwhile_is_not_cleared),
        ON_POSTGRES(test_renewal_that_is_being_committed_is_not_lost),
        ON_POSTGRES(test_locked_and_guarded_rows_are_stepped_over),
        ON_POSTGRES(test_guarded_free_row_is_not_pruned),
        ON_POSTGRES(test_row_that_was_granted_meanwhile_is_not_pruned),
        ON_POSTGRES(test_row_of_a_batch_that_was_granted_meanwhile_is_not_pruned),
        ON_POSTGRES(test_clock_that_was_put_back_saves_a_lease_and_a_row),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("the reaper on PostgreSQL", tests, NULL, NULL);
}
