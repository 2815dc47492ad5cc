/* Behind pgbouncer in transaction mode, where each request may reach another session. */
#include <libpq-fe.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pooler.h"
#include "tests/lib/pq.h"
#include "tests/lib/private.h"
#include "tests/lib/words.h"

static sqlock_error err;

/* A schema by way of the pooler; new_pooled(): made anew, and migrated. */
static struct db pooled(const char *schema)
{
    return db_with(db_by(private_db(schema), pooler_url()), SQLOCK_OPEN_UNPREPARED);
}

static struct db new_pooled(const char *schema)
{
    private_exec("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", schema, schema);
    db_migrate(pooled(schema));
    return pooled(schema);
}

enum { WORKERS = 4, ROUNDS = 25 };

/* Counts in a register, which nobody else changes under the lock. */
static int count_up(__attribute__((unused)) void *arg)
{
    sqlock *m = db_open(pooled("shared"));
    int64_t version;
    char text[24];
    size_t len;

    for (int i = 0; i < ROUNDS; i++) {
        sqlock_lock *lock = lock_take(m, "number", 0, 0);

        assert_ok(sqlock_register_get(m, "n", text, sizeof text - 1, &len, &version, &err), &err);
        text[len] = '\0';
        len = (size_t)snprintf(text, sizeof text, "%d", len > 0 ? atoi(text) + 1 : 1);
        assert_ok(sqlock_register_set(m, "n", text, len, version, NULL, &err), &err);
        lock_give(lock);
    }
    sqlock_close(m);
    return 0;
}

TEST(test_processes_behind_one_pool_exclude_each_other)
{
    pid_t child[WORKERS];

    new_pooled("shared");
    for (int i = 0; i < WORKERS; i++)
        child[i] = child_start(count_up, NULL);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(child_wait(child[i], patience_ms(20000)), 0);
    assert_int_equal(private_number("SELECT convert_from(value, 'UTF8')::bigint "
                                    "FROM shared.sqlock_register"),
                     WORKERS * ROUNDS);
}

/* A session's prepared statements are not there in the next session: without the flag the pooler's
 * user must be told, and not get a lock that fails later. */
TEST(test_without_the_flag_a_pooler_never_grants_one_lock_twice)
{
    sqlock_open_opts o = db_opts(db_with(new_pooled("prepared"), 0));
    sqlock *m[3] = {NULL};
    sqlock_lock *lock[3] = {NULL};
    int granted = 0;

    for (int i = 0; i < 3; i++)
        if (sqlock_open(sqlock_driver_postgres(), pooler_url(), &o, &m[i], &err) == 0)
            granted += lock_try(m[i], "x", 0, &lock[i], &err) == 0;
    assert_between(0, granted, 1);
    for (int i = 0; i < 3; i++) {
        sqlock_scope_end(&lock[i]);
        sqlock_close(m[i]);
    }
}

/* ---- sessions that became serializable since they were greeted ------------------------------- */

static struct {
    PGconn *other; /* whose transaction is in the way, past the pooler */
    sqlock *m;
    bool serializable;
} turned;

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

/* In sessions that begin from now on; the others end. */
static void change_sessions(const char *setting)
{
    private_exec("ALTER ROLE postgres %s", setting);
    private_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                 "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
}

static void turn_serializable(void)
{
    turned.serializable = true;
    change_sessions("SET default_transaction_isolation = 'serializable'");
    assert_soon(pooled_is_serializable(), patience_ms(5000));
    turned.other = pq_open(private_url());
}

static int turn_back(__attribute__((unused)) void **state)
{
    PQfinish(turned.other);
    sqlock_close(turned.m);
    if (turned.serializable)
        change_sessions("RESET default_transaction_isolation");
    memset(&turned, 0, sizeof turned);
    return 0;
}

/* An acquire that makes the lock's row waits for another who makes it, and commits: in READ
 * COMMITTED that is as good as its own. That it fails here is the first sign that its session is
 * another than the one that was greeted; sent once more, it would be granted there. */
TEST(test_sessions_that_became_serializable_are_refused)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;

    turned.m = db_open(new_pooled("turned"));
    lock_draw(turned.m, "x");
    turn_serializable();
    pq_exec(turned.other, "BEGIN ISOLATION LEVEL READ COMMITTED");
    pq_exec(turned.other, "INSERT INTO turned.sqlock_lock (ns, name, token, idle_since) "
                          "SELECT ns, 'y', 0, idle_since FROM turned.sqlock_lock");
    o.wait_ms = patience_ms(5000);
    assert_ok(sqlock_acquire_start(turned.m, "y", &o, &op, &err), &err);
    assert_soon(private_number("SELECT count(*) FROM pg_stat_activity "
                               "WHERE %d = ANY (pg_blocking_pids(pid))",
                               PQbackendPID(turned.other)) == 1,
                patience_ms(5000));
    pq_exec(turned.other, "COMMIT");
    assert_soon(sqlock_op_step(op) == 1, patience_ms(5000));
    assert_error(SQLOCK_EREFUSED, "READ COMMITTED", sqlock_op_finish(op, &lock, &err), &err);
}

TEST_MAIN_EACH(NULL, turn_back)
