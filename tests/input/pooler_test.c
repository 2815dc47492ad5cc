/* Behind pgbouncer in transaction mode, where each request may reach another session. */
#include <libpq-fe.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/pooler.h"
#include "tests/lib/private.h"

static sqlock *open_pooled(const char *schema)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    sqlock *m = NULL;

    o.schema = schema;
    o.flags = SQLOCK_OPEN_UNPREPARED;
    assert_ok(sqlock_open(sqlock_driver_postgres(), pooler_url(), &o, &m, &err), &err);
    return m;
}

static void migrate(const char *schema)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;

    private_exec("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", schema, schema);
    o.schema = schema;
    o.flags = SQLOCK_OPEN_UNPREPARED;
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), pooler_url(), &o, NULL, &err), &err);
}

/* ---- tests -------------------------------------------------------------------------------------
 */

static void test_acquire_renew_release_and_list_work_behind_a_transaction_pooler(void **state)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_error err;
    sqlock *m, *other;
    int64_t token;

    (void)state;
    migrate("pooled");
    m = open_pooled("pooled");
    other = open_pooled("pooled");
    once.wait_ms = 0;
    assert_ok(sqlock_acquire(m, "x", &once, &lock, &err), &err);
    token = sqlock_lock_token(lock);
    once.holder = &holder;
    assert_code(SQLOCK_EBUSY, sqlock_acquire(other, "x", &once, &none, &err), &err);
    assert_true(holder.token == token);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    assert_ok(sqlock_acquire(other, "x", &once, &none, &err), &err);
    assert_true(sqlock_lock_token(none) > token);
    assert_ok(sqlock_release(none, &err), &err);
    sqlock_lock_free(lock);
    sqlock_lock_free(none);
    sqlock_close(m);
    sqlock_close(other);
}

static void test_an_expired_lease_is_taken_over_behind_a_transaction_pooler(void **state)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *stale = NULL, *next = NULL;
    sqlock_error err;
    sqlock *m, *other;

    (void)state;
    migrate("taken");
    m = open_pooled("taken");
    other = open_pooled("taken");
    o.lease_ms = 300;
    o.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(m, "x", &o, &stale, &err), &err);
    o.lease_ms = 10000;
    o.wait_ms = patience_ms(3000);
    assert_ok(sqlock_acquire(other, "x", &o, &next, &err), &err);
    assert_false(sqlock_is_held(stale));
    assert_true(sqlock_lock_token(next) > sqlock_lock_token(stale));
    assert_code(SQLOCK_ELOST, sqlock_release(stale, &err), &err);
    assert_ok(sqlock_release(next, &err), &err);
    sqlock_lock_free(stale);
    sqlock_lock_free(next);
    sqlock_close(m);
    sqlock_close(other);
}

enum { WORKERS = 4, ROUNDS = 25 };

/* Reads and writes a number in two steps: what only a lock makes safe. */
static int count_up(void *arg)
{
    sqlock *m = open_pooled("shared");
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    (void)arg;
    o.wait_ms = patience_ms(15000);
    for (int i = 0; i < ROUNDS; i++) {
        sqlock_lock *lock = NULL;
        sqlock_error err;
        int64_t n;

        assert_ok(sqlock_acquire(m, "number", &o, &lock, &err), &err);
        n = private_number("SELECT n FROM shared.number WHERE token < %lld",
                           (long long)sqlock_lock_token(lock));
        private_exec("UPDATE shared.number SET n = %lld, token = %lld", (long long)n + 1,
                     (long long)sqlock_lock_token(lock));
        assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
    }
    sqlock_close(m);
    return 0;
}

static void test_processes_behind_one_pool_exclude_each_other(void **state)
{
    pid_t child[WORKERS];

    (void)state;
    migrate("shared");
    private_exec("CREATE TABLE shared.number AS SELECT 0::bigint AS n, 0::bigint AS token");
    for (int i = 0; i < WORKERS; i++)
        child[i] = child_start(count_up, NULL);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(child_wait(child[i], patience_ms(20000)), 0);
    assert_int_equal(private_number("SELECT n FROM shared.number"), WORKERS * ROUNDS);
}

/* Counts in a register instead: whoever finds another version reads again. */
static int count_in_a_register(void *arg)
{
    sqlock *m = open_pooled("registers");
    char text[24];
    sqlock_error err;

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int rc = SQLOCK_CONFLICT;

        while (rc == SQLOCK_CONFLICT) {
            int64_t version;
            size_t len;

            assert_ok(sqlock_register_get(m, "n", text, sizeof text - 1, &len, &version, &err),
                      &err);
            text[len] = '\0';
            len = (size_t)snprintf(text, sizeof text, "%d", len > 0 ? atoi(text) + 1 : 1);
            rc = sqlock_register_set(m, "n", text, len, version, NULL, &err);
        }
        assert_ok(rc, &err);
    }
    sqlock_close(m);
    return 0;
}

static void test_no_update_of_a_register_is_lost_behind_one_pool(void **state)
{
    pid_t child[WORKERS];

    (void)state;
    migrate("registers");
    for (int i = 0; i < WORKERS; i++)
        child[i] = child_start(count_in_a_register, NULL);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(child_wait(child[i], patience_ms(20000)), 0);
    assert_int_equal(private_number("SELECT convert_from(value, 'UTF8')::bigint "
                                    "FROM registers.sqlock_register"),
                     WORKERS * ROUNDS);
}

/* A session's prepared statements are not there in the next session: without the flag the pooler's
 * user must be told, and not get a lock that fails later. */
static void test_without_the_flag_a_pooler_never_grants_one_lock_twice(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock *m[3] = {NULL};
    sqlock_lock *lock[3] = {NULL};
    sqlock_error err;
    int granted = 0;

    (void)state;
    migrate("prepared");
    o.schema = "prepared";
    once.wait_ms = 0;
    for (int i = 0; i < 3; i++)
        if (sqlock_open(sqlock_driver_postgres(), pooler_url(), &o, &m[i], &err) == 0)
            granted += sqlock_acquire(m[i], "x", &once, &lock[i], &err) == 0;
    assert_between(0, granted, 1);
    for (int i = 0; i < 3; i++) {
        sqlock_scope_end(&lock[i]);
        sqlock_close(m[i]);
    }
}

/* ---- sessions that became serializable since they were greeted --------------------------------
 */

static struct {
    PGconn *other; /* whose transaction is in the way, past the pooler */
    sqlock *m;
    bool serializable;
} turned;

static void other_must(const char *sql)
{
    PGresult *res = PQexec(turned.other, sql);

    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(turned.other));
    PQclear(res);
}

/* What a session of the pooler's says; it may be one that has been ended. */
static bool pooled_is_serializable(void)
{
    PGconn *c = PQconnectdb(pooler_url());
    PGresult *res = PQexec(c, "SHOW default_transaction_isolation");
    bool is = PQntuples(res) == 1 && strcmp(PQgetvalue(res, 0, 0), "serializable") == 0;

    PQclear(res);
    PQfinish(c);
    return is;
}

static void turn_serializable(void)
{
    turned.serializable = true;
    private_exec("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'");
    private_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                 "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    assert_soon(pooled_is_serializable(), patience_ms(5000));
    assert_non_null(turned.other = PQconnectdb(private_url()));
}

static int turn_back(void **state)
{
    (void)state;
    PQfinish(turned.other);
    sqlock_close(turned.m);
    if (turned.serializable) {
        private_exec("ALTER ROLE postgres RESET default_transaction_isolation");
        private_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    }
    memset(&turned, 0, sizeof turned);
    return 0;
}

/* An acquire that makes the lock's row waits for another who makes it, and commits: in READ
 * COMMITTED that is as good as its own. That it fails here is the first
 * sign that its session is another than the one that was greeted; asked once more, it would be
 * granted there. */
static void test_sessions_that_became_serializable_are_refused(void **state)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    sqlock_error err;

    (void)state;
    migrate("turned");
    turned.m = open_pooled("turned");
    assert_ok(sqlock_acquire(turned.m, "x", &o, &lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    turn_serializable();
    other_must("BEGIN ISOLATION LEVEL READ COMMITTED");
    other_must("INSERT INTO turned.sqlock_lock (ns, name, token, idle_since) "
               "SELECT ns, 'y', 0, idle_since FROM turned.sqlock_lock");
    o.wait_ms = patience_ms(5000);
    assert_ok(sqlock_acquire_start(turned.m, "y", &o, &op, &err), &err);
    assert_soon(private_number("SELECT count(*) FROM pg_stat_activity "
                               "WHERE %d = ANY (pg_blocking_pids(pid))",
                               PQbackendPID(turned.other)) == 1,
                patience_ms(5000));
    other_must("COMMIT");
    assert_soon(sqlock_op_step(op) == 1, patience_ms(5000));
    assert_code(SQLOCK_EREFUSED, sqlock_op_finish(op, &lock, &err), &err);
    assert_non_null(strstr(err.text, "READ COMMITTED"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_acquire_renew_release_and_list_work_behind_a_transaction_pooler),
    cmocka_unit_test(test_an_expired_lease_is_taken_over_behind_a_transaction_pooler),
    cmocka_unit_test(test_processes_behind_one_pool_exclude_each_other),
    cmocka_unit_test(test_no_update_of_a_register_is_lost_behind_one_pool),
    cmocka_unit_test(test_without_the_flag_a_pooler_never_grants_one_lock_twice),
    cmocka_unit_test_teardown(test_sessions_that_became_serializable_are_refused, turn_back),
};

TEST_MAIN_WITH(tests, NULL, pooler_stop)
