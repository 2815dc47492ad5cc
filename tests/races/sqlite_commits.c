/* A grant counts when its commit is confirmed, and not before (P5): commits that a reader keeps
 * out, that are late, killed or given up; and what else one writer at a time means for a lock. */
#include "races.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"),
                     1); /* two believe that they have it */
}

/* In rollback mode the commit waits for a reader; the lease runs from the statement all the same.
 */
static void test_lease_of_a_late_commit_ends_as_it_was_decided(void **state)
{
    conn a = lite_open(), reader = lite_open();
    request r = request_of('A', 1000 * MS);
    int64_t sent = 0, got = 0, end = 0;
    answer told;
    (void)state;
    EXPECT(acquire(reader, request_of('X', 1)), SQLOCK_OUT_DONE);
    pause_ms(2);
    run(reader, "BEGIN");
    assert_int_equal(number(reader, "SELECT count(*) FROM {lock}"), 1);
    sent = server_us(reader);
    run(a, "BEGIN IMMEDIATE");
    told = acquire(a, r);
    EXPECT(told, SQLOCK_OUT_DONE);
    assert_int_equal(try_run(a, "COMMIT"), SQLITE_BUSY);
    pause_ms(400);
    assert_int_equal(number(reader, "SELECT count(*) FROM {lock} WHERE exp > " LITE_NOW), 0);
    run(reader, "COMMIT");
    run(a, "COMMIT");
    got = server_us(reader);
    end = row_end(a);
    assert_true(sent + r.ttl <= end); /* ours counts from before it asked */
    /* Wrong: who counts from the commit believes for 400 ms more than the row says. */
    assert_true(got + told.left >= end + 300 * MS);
}

/* A process that is killed with -9 right after the row of its grant came (0), or after its commit.
 * The token that it saw, and believes in if it takes the row for the grant. */
static int64_t killed_holder(int committed)
{
    int64_t token = 0;
    int ends[2], status = 0;
    pid_t child = -1;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        conn c = lite_open(); /* of its own: none of the parent's is open */
        request r = request_of('A', 5000 * MS);
        int ok = try_run(c, "BEGIN IMMEDIATE") == 0;
        token = ok ? acquire(c, r).token : -1;
        if (committed && try_run(c, "COMMIT") != 0)
            token = -1;
        if (write(ends[1], &token, sizeof token) == (ssize_t)sizeof token)
            raise(SIGKILL);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &token, sizeof token), sizeof token);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return token;
}

static void test_grant_that_is_killed_before_its_commit_is_none(void **state)
{
    int64_t believed = 0;
    conn b;
    answer got;
    (void)state;
    lite_close_all();
    believed = killed_holder(0);
    assert_true(believed > 0);
    b = lite_open();
    got = acquire(b, request_of('B', 5000 * MS));
    EXPECT(got, SQLOCK_OUT_DONE);
    /* Wrong: who believed the row has it, and so has B. */
    assert_int_equal(number(b, "SELECT count(*) FROM {lock} WHERE ended_why = 0"), 1);
}

static void test_grant_that_is_killed_after_its_commit_is_granted_once(void **state)
{
    int64_t token;
    conn b;
    (void)state;
    lite_close_all();
    token = killed_holder(1);
    assert_true(token > 0);
    b = lite_open();
    assert_int_equal(acquire(b, request_of('A', 5000 * MS)).token,
                     token); /* the same, asked again */
    /* Wrong: who asks again as another owner waits for its own ghost, for a whole lease. */
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_HELD);
}

/* The commit is given up because a reader stays; the transaction must not be left open. */
static void test_grant_that_is_cancelled_in_its_commit_is_none(void **state)
{
    conn a = lite_open(), b = lite_open(), reader = lite_open();
    request r = request_of('A', 5000 * MS);
    (void)state;
    EXPECT(acquire(b, request_of('X', 1)), SQLOCK_OUT_DONE);
    pause_ms(2);
    for (int wrong = 0; wrong < 2; wrong++) {
        run(reader, "BEGIN");
        assert_int_equal(number(reader, "SELECT count(*) FROM {lock}"), 1);
        run(a, "BEGIN IMMEDIATE");
        EXPECT(acquire(a, r), SQLOCK_OUT_DONE);
        assert_int_equal(try_run(a, "COMMIT"), SQLITE_BUSY);
        if (!wrong)
            run(a, "ROLLBACK");
        run(reader, "COMMIT");
        if (!wrong) {
            assert_int_equal(row_owner(b), 'X');
            EXPECT(acquire(b, request_of('B', 1)), SQLOCK_OUT_DONE);
            pause_ms(2);
        }
    }
    /* Wrong: what was left open keeps every writer out, and the next COMMIT brings the grant back.
     */
    assert_string_equal(acquire(b, request_of('B', 5000 * MS)).error, "BUSY");
    run(a, "COMMIT");
    assert_int_equal(row_owner(b), 'A');
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
        ON_ROLLBACK(test_lease_of_a_late_commit_ends_as_it_was_decided),
        ON_ROLLBACK(test_grant_that_is_cancelled_in_its_commit_is_none),
        ON_SQLITE(test_grant_that_is_killed_before_its_commit_is_none),
        ON_SQLITE(test_grant_that_is_killed_after_its_commit_is_granted_once),
        ON_SQLITE(test_waiting_takes_no_write_lock),
    };
    return cmocka_run_group_tests_name("commits on SQLite", tests, NULL, NULL);
}
