/* A grant counts when its commit is confirmed, and not before (P5): the commit that is late, that
 * fails after the row came, that is killed or cancelled. A deferred trigger stands for what delays
 * a commit in the field: a synchronous standby, a slow disk. */
#include "races.h"

/* From now on each commit of a grant runs `body` before it takes effect. */
static void at_commit(conn c, const char *body)
{
    char sql[600];
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION {schema}.at_commit() RETURNS trigger LANGUAGE plpgsql AS"
             " $$BEGIN %s; RETURN NULL; END$$",
             body);
    run(c, sql);
    run(c,
        "CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON {lock} DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW WHEN (NEW.owner IS NOT NULL) EXECUTE FUNCTION {schema}.at_commit()");
}

#define WAIT "PERFORM 1 WHERE {hold}"
#define FAIL "RAISE SQLSTATE '53100' USING MESSAGE = 'the disk is full'"

/* The row is there and free. */
static void prepare(conn c)
{
    request r = request_of('X', 5000 * MS);
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
}

/* Sent, decided, and waiting in its commit. */
static void start_commit(conn c, request r)
{
    script s = ours(SQLOCK_STMT_ACQUIRE);
    pg_start(c, &s, 0, &r);
    assert_int_equal(pg_waits(c), 1);
}

static void end_session(conn c, const char *how, conn by)
{
    char sql[80];
    snprintf(sql, sizeof sql, "SELECT %s(%d)", how, PQbackendPID(c.pg));
    run(by, sql);
}

/* The lease runs from the statement, not from the commit's confirmation. */
static void test_lease_of_a_late_commit_ends_as_it_was_decided(void **state)
{
    conn a = pg_open(), gate = pg_open(), thief = pg_open();
    request r = request_of('A', 1000 * MS);
    int64_t sent = 0, got = 0, end = 0;
    answer ours_told;
    (void)state;
    prepare(gate);
    at_commit(gate, WAIT);
    pg_hold(gate);
    sent = server_us(gate);
    start_commit(a, r);
    pause_ms(400);
    /* Nobody else is let in, nor told of a holder that may never be. */
    EXPECT(acquire(thief, request_of('T', 1000 * MS)), SQLOCK_OUT_SKIPPED);
    pg_unhold(gate);
    ours_told = pg_finish(a);
    got = server_us(gate);
    EXPECT(ours_told, SQLOCK_OUT_DONE);
    end = row_end(a);
    assert_true(sent + r.ttl <= end); /* ours counts from before it asked */
    /* Wrong: who counts from the answer believes for 400 ms more than the row says. */
    assert_true(got + ours_told.left >= end + 300 * MS);
}

/* The row of RETURNING came, and then the commit failed. */
static void test_row_before_a_failed_commit_is_no_grant(void **state)
{
    conn a = pg_open(), b = pg_open();
    request r = request_of('A', 5000 * MS);
    script s = ours(SQLOCK_STMT_ACQUIRE);
    PGresult *first = NULL, *rest = NULL;
    answer got;
    (void)state;
    prepare(b);
    at_commit(b, FAIL);
    assert_string_equal(acquire(a, r).error, "53100");
    /* Wrong: believes the first result that came. */
    pg_start(a, &s, 0, &r);
    first = PQgetResult(a.pg);
    assert_int_equal(PQresultStatus(first), PGRES_TUPLES_OK);
    assert_string_equal(PQgetvalue(first, 0, SQLOCK_COL_OUTCOME), "1");
    assert_string_equal(PQgetvalue(first, 0, SQLOCK_COL_TOKEN), "2");
    rest = PQgetResult(a.pg);
    assert_int_equal(PQresultStatus(rest), PGRES_FATAL_ERROR);
    PQclear(first);
    PQclear(rest);
    assert_null(PQgetResult(a.pg));
    assert_int_equal(row_owner(b), -1);
    run(b, "DROP TRIGGER at_commit ON {lock}");
    got = acquire(b, request_of('B', 5000 * MS));
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, 2); /* two believe in one token */
}

/* `how` ends A's statement or session while the commit of s waits. */
static void end_in_its_commit(conn a, const script *s, const char *how, const char *error)
{
    conn gate = pg_open(), b = pg_open();
    request r = request_of('A', 5000 * MS);
    prepare(gate);
    at_commit(gate, WAIT);
    pg_hold(gate);
    pg_start(a, s, 0, &r);
    assert_int_equal(pg_waits(a), 1);
    assert_int_equal(row_owner(b), -1);
    end_session(a, how, b);
    assert_string_equal(pg_finish(a).error, error);
    run(gate, "COMMIT; DROP TRIGGER at_commit ON {lock}; DROP FUNCTION {schema}.at_commit()");
}

/* The same request, on whatever connection, is one grant, and the first of its token. */
static void asked_again_it_is_one_grant(conn b)
{
    request r = request_of('A', 5000 * MS);
    answer got;
    assert_int_equal(row_owner(b), -1);
    got = acquire(b, r);
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, 2);
    assert_int_equal(acquire(b, r).token, 2);
}

/* Wrong: the grant is a lock of the session, which no failed commit takes back. */
#define SESSION_LOCK                                                                               \
    "UPDATE {lock} SET owner = $3, token = token + 1, exp = " PG_NOW " + $4"                       \
    " WHERE ns = $1 AND name = $2 AND pg_try_advisory_lock(731205, 0) RETURNING 0, 1, token"

static void test_grant_that_is_cancelled_in_its_commit_is_none(void **state)
{
    conn a = pg_open(), b = pg_open();
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong = written(SQLOCK_STMT_ACQUIRE, SESSION_LOCK);
    (void)state;
    end_in_its_commit(a, &right, "pg_cancel_backend", "57014");
    asked_again_it_is_one_grant(b);
    run(b, "DELETE FROM {lock}");
    end_in_its_commit(a, &wrong, "pg_cancel_backend", "57014");
    /* A was told that it failed, and keeps everybody out. */
    assert_int_equal(number(b, "SELECT pg_try_advisory_lock(731205, 0)::int"), 0);
}

static void test_grant_that_is_killed_in_its_commit_is_none(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    end_in_its_commit(pg_open(), &right, "pg_terminate_backend", "connection");
    asked_again_it_is_one_grant(pg_open());
}

/* The commit took effect, and the session ended before its answer was read. */
static void test_grant_that_is_killed_after_its_commit_is_granted_once(void **state)
{
    conn a = pg_open(), b = pg_open();
    request r = request_of('A', 5000 * MS);
    script s = ours(SQLOCK_STMT_ACQUIRE);
    (void)state;
    prepare(b);
    pg_start(a, &s, 0, &r);
    for (int i = 0; row_owner(b) != 'A'; i++) {
        assert_true(i < 2000);
        pause_ms(1);
    }
    end_session(a, "pg_terminate_backend", b);
    assert_int_equal(acquire(b, r).token, 2);
    assert_int_equal(number(b, "SELECT token FROM {lock}"), 2);
    /* Wrong: who asks again as another owner waits for its own ghost, for a whole lease. */
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_lease_of_a_late_commit_ends_as_it_was_decided),
        ON_POSTGRES(test_row_before_a_failed_commit_is_no_grant),
        ON_POSTGRES(test_grant_that_is_cancelled_in_its_commit_is_none),
        ON_POSTGRES(test_grant_that_is_killed_in_its_commit_is_none),
        ON_POSTGRES(test_grant_that_is_killed_after_its_commit_is_granted_once),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("commits on PostgreSQL", tests, NULL, NULL);
}
