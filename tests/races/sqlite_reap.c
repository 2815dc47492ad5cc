/* The reaper's statements that come after the page was read, and something was committed since (P3,
 * P10). One writer at a time: there is no other way to meet. */
#include "races.h"

/* Wrong: what the page said is believed. */
static script reap_unasked(void)
{
    return changed(ours(SQLOCK_STMT_REAP), "AND exp <= ?6 / 1000 AND exp <= " LITE_NOW, "");
}

static void test_lease_that_was_granted_meanwhile_is_not_cleared(void **state)
{
    conn a = lite_open(), sweeper = lite_open();
    request r = request_of('A', 5000 * MS), next = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_REAP), wrong;
    (void)state;
    EXPECT(acquire(a, r), SQLOCK_OUT_DONE);
    let_it_run_out(a);
    r.cut = number(sweeper, "SELECT " LITE_NOW " * 1000");
    EXPECT(acquire(a, next), SQLOCK_OUT_DONE);
    assert_int_equal(ask(sweeper, &right, &r).rows, 0);
    assert_int_equal(row_owner(a), 'B');
    wrong = reap_unasked();
    EXPECT(ask(sweeper, &wrong, &r), SQLOCK_OUT_DONE);
    assert_int_equal(row_owner(a), -1); /* B works, and anybody may come in */
}

static void test_renewed_lease_is_not_cleared(void **state)
{
    conn a = lite_open(), sweeper = lite_open();
    request r = request_of('A', 100 * MS);
    script right = ours(SQLOCK_STMT_REAP), wrong;
    (void)state;
    r.token = acquire(a, r).token;
    r.cut = number(sweeper, "SELECT exp * 1000 FROM {lock}"); /* the page was read after this, */
    r.ttl = 5000 * MS;
    EXPECT(renew(a, r), SQLOCK_OUT_DONE); /* but the renewal was committed before the reaper came */
    pause_ms(120);
    assert_int_equal(ask(sweeper, &right, &r).rows, 0);
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    wrong = reap_unasked();
    EXPECT(ask(sweeper, &wrong, &r), SQLOCK_OUT_DONE);
    EXPECT(renew(a, r), SQLOCK_OUT_REAPED);
}

static void test_row_that_was_granted_meanwhile_is_not_pruned(void **state)
{
    conn a = lite_open(), sweeper = lite_open();
    request r = request_of('A', 5000 * MS), next = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_PRUNE), wrong;
    (void)state;
    r.token = acquire(a, r).token;
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    EXPECT(acquire(a, next), SQLOCK_OUT_DONE);
    assert_int_equal(prune(sweeper, &right, r).rows, 0);
    wrong = changed(right, "AND owner IS NULL", "");
    wrong = changed(wrong, "AND idle_since <= ?3 / 1000 AND idle_since <= " LITE_NOW, "");
    EXPECT(prune(sweeper, &wrong, r), SQLOCK_OUT_DONE);
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 0); /* B's grant is gone */
}

/* exp of a row, or when it was freed, lies before cut, but the clock was put back since. */
static void test_clock_that_was_put_back_saves_a_lease_and_a_row(void **state)
{
    conn c = lite_open();
    request r = request_of('A', 5000 * MS);
    script reap = ours(SQLOCK_STMT_REAP), prune = ours(SQLOCK_STMT_PRUNE), wrong;
    (void)state;
    r.token = acquire(c, r).token;
    assert_int_equal(ask(c, &reap, &r).rows, 0); /* cut is far in the future */
    wrong = changed(reap, "AND exp <= " LITE_NOW, "");
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);

    run(c, "UPDATE {lock} SET idle_since = " LITE_NOW " + 60000");
    r.floor = r.token;
    assert_int_equal(ask(c, &prune, &r).rows, 0);
    wrong = changed(prune, "AND idle_since <= " LITE_NOW, "");
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_lease_that_was_granted_meanwhile_is_not_cleared),
        ON_SQLITE(test_renewed_lease_is_not_cleared),
        ON_SQLITE(test_row_that_was_granted_meanwhile_is_not_pruned),
        ON_SQLITE(test_clock_that_was_put_back_saves_a_lease_and_a_row),
    };
    return cmocka_run_group_tests_name("the reaper on SQLite", tests, NULL, NULL);
}
