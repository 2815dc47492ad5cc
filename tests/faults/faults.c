#include "tests/faults/faults.h"

#include <string.h>

#include "tests/lib/postgres_quirks.h"
#include "tests/lib/sqlite_quirks.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>
#endif

/* ---- the watched driver ---------------------------------------------------------------------- */

struct watch watch;
static sqlock_driver watched;
static const sqlock_driver *real;
static _Thread_local int calls_here;

int driver_calls_here(void)
{
    return calls_here;
}

const sqlock_driver *watched_driver(void)
{
    return &watched;
}

static int watched_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                        sqlock_error *err)
{
    calls_here++;
    return real->open(opts, deadline, out_conn, err);
}

static int watched_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                       const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                       sqlock_error *err)
{
    int renewal = stmt == SQLOCK_STMT_RENEW;
    int rc;

    calls_here++;
    atomic_fetch_add(&watch.begun[stmt], 1);
    atomic_fetch_add(&watch.locks[stmt], (int)n);
    atomic_fetch_add(&watch.renewing, renewal);
    while (renewal && atomic_load(&watch.stop_renewals))
        sleep_ms(1);
    rc = real->run(conn, call, stmt, values, n, deadline, rows, err);
    while (renewal && atomic_load(&watch.stop_answers))
        sleep_ms(1);
    atomic_fetch_sub(&watch.renewing, renewal);
    if (rc == 0)
        atomic_fetch_add(&watch.answered[stmt], 1);
    return rc;
}

static void watch_driver(const sqlock_driver *driver)
{
    memset(&watch, 0, sizeof watch);
    real = driver;
    watched = *driver;
    watched.open = watched_open;
    watched.run = watched_run;
}

/* ---- a database ------------------------------------------------------------------------------ */

struct stage stage;

static struct db db_of_stage(void)
{
    return (struct db){.driver = &watched,
                       .url = stage.at.url,
                       .schema = stage.at.schema,
                       .request_ms = 1500}; /* so long does a try look for a server that is gone */
}

__attribute__((unused)) static void begin(const struct quirks *q)
{
    need_driver(q->name);
    q->make(&stage.at);
    stage.q = q;
    watch_driver(q->driver());
    db_migrate(db_of_stage());
}

void stage_proxied(void)
{
#ifdef TEST_HAVE_POSTGRES
    begin(&postgres_quirks);
    stage.proxy = proxy_start_pg();
#else
    skip();
#endif
}

void stage_sqlite(void)
{
#ifdef TEST_HAVE_SQLITE
    begin(&sqlite_given_quirks);
#else
    skip();
#endif
}

const char *stage_file(void)
{
    return stage.at.url + strlen("sqlite:");
}

int stage_teardown(__attribute__((unused)) void **state)
{
    atomic_store(&watch.stop_renewals, 0);
    atomic_store(&watch.stop_answers, 0);
    for (int i = 0; i < STAGE_MANAGERS; i++)
        sqlock_close(stage.managers[i]);
    proxy_stop(stage.proxy);
    if (stage.q != NULL)
        stage.q->drop(&stage.at);
    memset(&stage, 0, sizeof stage);
    return 0;
}

sqlock *stage_open_at(const char *url)
{
    int i = 0;

    while (i < STAGE_MANAGERS && stage.managers[i] != NULL)
        i++;
    assert_true(i < STAGE_MANAGERS);
    return stage.managers[i] = db_open(db_by(db_of_stage(), url));
}

sqlock *stage_open(void)
{
    return stage_open_at(stage.at.url);
}

sqlock *stage_open_cut(void)
{
    return stage_open_at(proxy_url(stage.proxy));
}

struct db db_of(const char *url)
{
    struct db db = {.url = url};

#ifdef TEST_HAVE_MYSQL
    if (strncmp(url, "mysql:", strlen("mysql:")) == 0)
        db.driver = sqlock_driver_mysql();
#endif
#ifdef TEST_HAVE_POSTGRES
    if (strncmp(url, "postgresql:", strlen("postgresql:")) == 0)
        db.driver = sqlock_driver_postgres();
#endif
    if (db.driver == NULL)
        skip();
    return db;
}

/* ---- locks ----------------------------------------------------------------------------------- */

int take(sqlock *m, const char *name, int32_t lease_ms, int32_t wait_ms, struct events *events,
         sqlock_lock **out, sqlock_error *err)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    opts.lease_ms = lease_ms;
    opts.wait_ms = wait_ms;
    opts.on_event = events != NULL ? note_event : NULL;
    opts.user = events;
    return sqlock_acquire(m, name, &opts, out, err);
}

sqlock_lock *held(sqlock *m, const char *name, int32_t lease_ms, struct events *events)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    assert_ok(take(m, name, lease_ms, 5000, events, &lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    return lock;
}

void wait_renewed(sqlock_lock *lock)
{
    int64_t before = sqlock_lock_deadline_us(lock);

    assert_soon(sqlock_lock_deadline_us(lock) > before, patience_ms(5000));
}

void note_event(sqlock_lock *lock, sqlock_state state, void *user)
{
    struct events *e = user;
    int64_t now = sqlock_now_us();

    if (state == SQLOCK_AT_RISK)
        atomic_store(&e->risk_at, now);
    if (state != SQLOCK_LOST)
        return;
    atomic_store(&e->state, (int)sqlock_lock_state(lock));
    atomic_store(&e->why, (int)sqlock_lock_why(lock));
    atomic_store(&e->talker_inside, atomic_load(&watch.renewing));
    atomic_fetch_add(&e->n_lost, 1);
    atomic_store(&e->lost_at, now);
}
