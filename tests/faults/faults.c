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

static int watched_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                       int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    int renewal = stmt == SQLOCK_STMT_RENEW;
    int rc;

    calls_here++;
    atomic_fetch_add(&watch.begun[stmt], 1);
    atomic_fetch_add(&watch.locks[stmt], (int)n);
    atomic_fetch_add(&watch.renewing, renewal);
    while (renewal && atomic_load(&watch.stop_renewals))
        sleep_ms(1);
    rc = real->run(conn, stmt, values, n, deadline, rows, err);
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

static struct db db_of_stage(const struct stage *s)
{
    return (struct db){.driver = &watched,
                       .url = s->at.url,
                       .schema = s->at.schema,
                       .request_ms = 1500}; /* so long does a try look for a server that is gone */
}

static void begin(struct stage *s, const struct quirks *q)
{
    memset(s, 0, sizeof *s);
    need_driver(q->name);
    q->make(&s->at);
    s->q = q;
    watch_driver(q->driver());
    db_migrate(db_of_stage(s));
}

void stage_postgres(struct stage *s)
{
#ifdef TEST_HAVE_POSTGRES
    begin(s, &postgres_quirks);
#else
    (void)s;
    skip();
#endif
}

void stage_proxied(struct stage *s)
{
    stage_postgres(s);
    s->proxy = proxy_start_pg();
}

void stage_sqlite(struct stage *s)
{
#ifdef TEST_HAVE_SQLITE
    begin(s, &sqlite_quirks);
#else
    (void)s;
    skip();
#endif
}

const char *stage_file(const struct stage *s)
{
    return s->at.url + strlen("sqlite:");
}

void stage_remove(struct stage *s)
{
    atomic_store(&watch.stop_renewals, 0);
    atomic_store(&watch.stop_answers, 0);
    for (int i = 0; i < STAGE_MANAGERS; i++)
        sqlock_close(s->managers[i]);
    proxy_stop(s->proxy);
    if (s->q != NULL)
        s->q->drop(&s->at);
    memset(s, 0, sizeof *s);
}

struct stage stage;

int stage_teardown(__attribute__((unused)) void **state)
{
    stage_remove(&stage);
    return 0;
}

sqlock *stage_open_at(struct stage *s, const char *url)
{
    int i = 0;

    while (i < STAGE_MANAGERS && s->managers[i] != NULL)
        i++;
    assert_true(i < STAGE_MANAGERS);
    return s->managers[i] = db_open(db_by(db_of_stage(s), url));
}

sqlock *stage_open(struct stage *s)
{
    return stage_open_at(s, s->at.url);
}

sqlock *stage_open_cut(struct stage *s)
{
    return stage_open_at(s, proxy_url(s->proxy));
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
