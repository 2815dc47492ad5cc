/* What SQLite alone has: one writer, readers that keep a commit out, transactions that cannot be
 * upgraded. */
#include "races.h"

/* In WAL mode a transaction that began as a read cannot write once somebody else did. */
static void test_reader_cannot_become_a_holder_after_a_foreign_write(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    int64_t start = 0;
    (void)state;
    sqlite3_busy_timeout(a.lite, 2000);
    run(a, "BEGIN"); /* wrong: should be IMMEDIATE */
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 0);
    rb.token = acquire(b, rb).token;
    EXPECT(release(b, rb), SQLOCK_OUT_DONE);
    start = clock_us();
    for (int i = 0; i < 2; i++) /* however often, at once, and whatever the timeout */
        assert_string_equal(acquire(a, ra).error, "BUSY_SNAPSHOT");
    assert_true(clock_us() - start < 1000 * MS);
    run(a, "ROLLBACK");
    EXPECT(acquire(a, ra), SQLOCK_OUT_DONE); /* ours: BEGIN IMMEDIATE */
}

/* In rollback mode a reader keeps the commit out: the row of RETURNING came, and nothing is stored.
 */
static void test_grant_counts_only_when_its_commit_is_confirmed(void **state)
{
    conn a = lite_open(), b = lite_open(), reader = lite_open();
    request ra = request_of('A', 5000 * MS);
    answer early, got;
    (void)state;
    EXPECT(acquire(b, request_of('X', 1)), SQLOCK_OUT_DONE);
    pause_ms(2);
    run(reader, "BEGIN");
    assert_int_equal(number(reader, "SELECT count(*) FROM {lock}"), 1);
    /* Ours takes the answer back. */
    assert_string_equal(acquire(a, ra).error, "BUSY");
    /* Wrong: believes the row. */
    run(a, "BEGIN IMMEDIATE");
    early = acquire(a, ra);
    EXPECT(early, SQLOCK_OUT_DONE);
    assert_int_equal(try_run(a, "COMMIT"), SQLITE_BUSY);
    run(a, "ROLLBACK");
    run(reader, "COMMIT");
    got = acquire(b, request_of('B', 5000 * MS));
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, early.token); /* two believe in one token */
}

static void test_waiting_takes_no_write_lock(void **state)
{
    conn a = lite_open(), writer = lite_open();
    request rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong = after_the_read(right);
    int64_t before = 0;
    (void)state;
    EXPECT(acquire(a, request_of('A', 60000 * MS)), SQLOCK_OUT_DONE);
    before = number(writer, "PRAGMA data_version");
    for (int i = 0; i < 100; i++)
        EXPECT(ask(a, &right, &rb), SQLOCK_OUT_HELD);
    assert_int_equal(number(writer, "PRAGMA data_version"), before);
    run(writer, "BEGIN IMMEDIATE");
    EXPECT(ask(a, &right, &rb), SQLOCK_OUT_HELD);
    assert_string_equal(ask(a, &wrong, &rb).error, "BUSY"); /* wrong: no read first */
    run(writer, "COMMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_WAL(test_reader_cannot_become_a_holder_after_a_foreign_write),
        ON_ROLLBACK(test_grant_counts_only_when_its_commit_is_confirmed),
        ON_SQLITE(test_waiting_takes_no_write_lock),
    };
    return cmocka_run_group_tests_name("commits on SQLite", tests, NULL, NULL);
}
