/* Renewals that meet thieves and the end of the lease (P3, P7). */
#include "races.h"

/* The renewal came in time but is not committed when the old lease runs out. A thief reads then,
 * waits for the write lock, and decides after the renewal's commit. Returns the owner in the end.
 */
static int64_t thief_and_renewal(const script *thief, answer *got)
{
    conn a = lite_open(), t = lite_open();
    request ra = request_of('A', 150 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    ra.ttl = 5000 * MS;
    run(a, "BEGIN IMMEDIATE");
    EXPECT(renew(a, ra), SQLOCK_OUT_DONE);
    pause_ms(200);
    *got = ask_behind(t, thief, request_of('T', 5000 * MS), a, 0);
    return row_owner(a);
}

static void test_thief_gets_nothing_when_the_renewal_came_first(void **state)
{
    /* Wrong: the read decides, and the write believes it. */
    script wrong = read_then("UPDATE {lock} SET owner = ?3, token = token + 1,"
                             " exp = " LITE_NOW " + ?4 / 1000"
                             " WHERE ns = ?1 AND name = ?2 RETURNING 0, 1, token");
    script right = ours(SQLOCK_STMT_ACQUIRE);
    answer got;
    (void)state;
    assert_int_equal(thief_and_renewal(&right, &got), 'A');
    EXPECT(got, SQLOCK_OUT_HELD);
    assert_int_equal(thief_and_renewal(&wrong, &got), 'T');
    EXPECT(got, SQLOCK_OUT_DONE);
}

static void test_renewal_after_the_end_is_refused(void **state)
{
    conn c = lite_open(), other = lite_open();
    request r = request_of('A', 50 * MS);
    script right = ours(SQLOCK_STMT_RENEW), wrong;
    (void)state;
    r.token = acquire(c, r).token;
    pause_ms(60);
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_EXPIRED);
    /* Wrong: the holder may have been told of the loss; now it holds the lock and does not know. */
    wrong = changed(right, "AND exp > " LITE_NOW " AND", "AND");
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
    /* Sent in time, run too late. */
    run(c, "UPDATE {lock} SET exp = " LITE_NOW " + 100");
    run(other, "BEGIN IMMEDIATE");
    EXPECT(ask_behind(c, &right, r, other, 150), SQLOCK_OUT_EXPIRED);
}

/* A's lease ran out and the same request was granted again; a renewal of the first grant is late.
 */
static void test_renewal_is_for_the_exact_grant(void **state)
{
    conn c = lite_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_RENEW), wrong;
    (void)state;
    r.token = acquire(c, r).token;
    let_it_run_out(c);
    assert_true(acquire(c, r).token > r.token);
    EXPECT(ask(c, &right, &r), SQLOCK_OUT_TAKEN);
    /* Wrong: who writes with the old token believes in a lease that is not its own. */
    wrong = changed(right, "AND token = ?4 AND exp >", "AND exp >");
    EXPECT(ask(c, &wrong, &r), SQLOCK_OUT_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_thief_gets_nothing_when_the_renewal_came_first),
        ON_SQLITE(test_renewal_after_the_end_is_refused),
        ON_SQLITE(test_renewal_is_for_the_exact_grant),
    };
    return cmocka_run_group_tests_name("renewals on SQLite", tests, NULL, NULL);
}
