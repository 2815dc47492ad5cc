/* P11: guards on PostgreSQL servers that are not the lock's, or not any more. */
#include <libpq-fe.h>
#include <pthread.h>
#include <sqlock/import.h>
#include <sqlock/postgres.h>
#include <sqlock/transaction.h>

#include "tests/lib/pg.h"
#include "tests/lib/pq.h"
#include "tests/lib/private.h"
#include "tests/lib/proxy.h"
#include "tests/lib/words.h"

static sqlock_error err;

/* ---- copies ---------------------------------------------------------------------------------- */

/* What a guard says on url, where a copy of the lease's row is put first if `copied`. */
static int guard_at(const char *url, sqlock *m, sqlock_lock *lock, int copied)
{
    const unsigned char *owner = sqlock_lock_owner(lock);
    PGconn *c = pq_open(url);
    sqlock_conn *conn = NULL;
    char *hex = textf("%s", "");
    int rc;

    for (int i = 0; i < SQLOCK_OWNER_SIZE; i++)
        hex = textf("%s%02x", hex, owner[i]);
    if (copied)
        pq_exec(c,
                "INSERT INTO copied.sqlock_lock (ns, name, token, owner, exp, since) "
                "VALUES ('', 'sale', %lld, '\\x%s', 4000000000000000, 1)",
                (long long)sqlock_lock_token(lock), hex);
    assert_ok(sqlock_adopt_postgres(m, c, &conn, &err), &err);
    pq_exec(c, "BEGIN");
    rc = sqlock_guard(lock, conn, &err);
    pq_exec(c, "ROLLBACK");
    sqlock_conn_free(conn);
    PQfinish(c);
    return rc;
}

TEST(test_P11_a_guard_on_a_copy_of_the_tables_is_refused)
{
    struct db db = private_new("copied"), copies[2] = {db, db};
    sqlock *m = db_open(db);
    sqlock_lock *lock = lock_take(m, "sale", 0, 0);

    private_exec("CREATE DATABASE elsewhere"); /* on the same server */
    copies[0].url = textf("%s&dbname=elsewhere", private_url());
    copies[1].url = pg_url();
    assert_ok(guard_at(private_url(), m, lock, 0), &err);
    for (int i = 0; i < 2; i++) {
        int64_t none;

        assert_true(pq_fetch(copies[i].url, "CREATE SCHEMA copied", &none));
        db_migrate(copies[i]);
        assert_error(SQLOCK_EREFUSED, "another server", guard_at(copies[i].url, m, lock, 1), &err);
    }
    pg_exec("DROP SCHEMA copied CASCADE");
    assert_true(sqlock_is_held(lock));
    /* A restart is no other server, also before our own connections have met it. */
    private_restart(0);
    assert_ok(guard_at(private_url(), m, lock, 0), &err);
    lock_give(lock);
    sqlock_close(m);
    private_exec("DROP DATABASE elsewhere");
}

/* ---- a server that died -------------------------------------------------------------------- */

struct late_guard {
    PGconn *app;
    sqlock_conn *conn;
    sqlock_lock *lock;
    int code;
    sqlock_error err;
};

static void *late_guard(void *g_)
{
    struct late_guard *g = g_;

    g->code = sqlock_guard(g->lock, g->conn, &g->err);
    return NULL;
}

static bool late_guard_is_answered(const struct late_guard *g)
{
    return private_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND state = "
                          "'idle in transaction' AND query LIKE '%%RELEASE SAVEPOINT%%'",
                          PQbackendPID(g->app)) == 1;
}

/* Its answer comes late. Our own connections have met the next server by then, as they often have
 * behind a pooler. That is no other server: the transaction is gone with the old one. */
TEST(test_P11_a_guard_whose_server_died_says_that_the_transaction_is_gone)
{
    struct late_guard g = {.code = 0};
    struct db db = private_new("late");
    struct proxy *p = proxy_start_url(private_url());
    pthread_t thread;
    int requests;
    sqlock *m;

    db.request_ms = patience_ms(20000);
    m = db_open(db);
    g.lock = lock_take(m, "sale", patience_ms(60000), 0);
    g.app = pq_open(proxy_url(p));
    assert_ok(sqlock_adopt_postgres(m, g.app, &g.conn, &err), &err);
    pq_exec(g.app, "BEGIN");
    proxy_delay(p, patience_ms(300));
    requests = proxy_requests(p);
    assert_int_equal(pthread_create(&thread, NULL, late_guard, &g), 0);
    /* A savepoint, the guard, the savepoint's end: that one's answer is held back. */
    assert_soon(proxy_requests(p) == requests + 3, patience_ms(20000));
    proxy_mode_set(p, PROXY_HOLD_DOWN);
    proxy_delay(p, 0);
    assert_soon(late_guard_is_answered(&g), patience_ms(10000));
    private_restart(0);
    lock_give(lock_take(m, "other", 0, 0));
    proxy_mode_set(p, PROXY_PASS);
    pthread_join(thread, NULL);
    assert_code(SQLOCK_ETXGONE, g.code, &g.err);
    sqlock_conn_free(g.conn);
    PQfinish(g.app);
    lock_give(g.lock);
    sqlock_close(m);
    proxy_stop(p);
}

TEST_MAIN_EACH(NULL, NULL)
