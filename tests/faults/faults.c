#include "tests/faults/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef TEST_HAVE_SQLITE
#include <sqlock/sqlite.h>
#endif

/* ---- the watched driver ------------------------------------------------------------------------
 */

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

/* ---- a database --------------------------------------------------------------------------------
 */

static sqlock_open_opts open_opts(const struct place *p)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;

    opts.schema = p->schema;
    opts.request_ms = 2000; /* so long does a try look for a server that is gone */
    return opts;
}

static void migrate(const struct place *p)
{
    sqlock_open_opts opts = open_opts(p);
    sqlock_error err;

    assert_ok(sqlock_migrate(&watched, p->url, &opts, NULL, &err), &err);
}

void place_postgres(struct place *p)
{
    memset(p, 0, sizeof *p);
    p->name = "postgres";
#ifdef TEST_HAVE_POSTGRES
    p->schema = pg_schema_new();
    p->url = strdup(pg_url());
    watch_driver(sqlock_driver_postgres());
    migrate(p);
#else
    skip();
#endif
}

void place_proxied(struct place *p)
{
    place_postgres(p);
    p->proxy = proxy_start_pg();
}

void place_sqlite(struct place *p)
{
    memset(p, 0, sizeof *p);
    p->name = "sqlite";
    if (!test_wants("sqlite"))
        skip();
#ifdef TEST_HAVE_SQLITE
    p->dir = temp_dir();
    if (asprintf(&p->url, "sqlite:%s/locks.db", p->dir) < 0)
        fail_msg("out of memory");
    watch_driver(sqlock_driver_sqlite());
    migrate(p);
#endif
}

void place_remove(struct place *p)
{
    atomic_store(&watch.stop_renewals, 0);
    atomic_store(&watch.stop_answers, 0);
    for (int i = 0; i < PLACE_MANAGERS; i++)
        sqlock_close(p->managers[i]);
    proxy_stop(p->proxy);
    if (p->schema != NULL)
        pg_schema_drop(p->schema);
    if (p->dir != NULL)
        temp_dir_remove(p->dir);
    free(p->url);
    memset(p, 0, sizeof *p);
}

static sqlock *open_at(struct place *p, const char *url)
{
    sqlock_open_opts opts = open_opts(p);
    sqlock_error err;
    int i = 0;

    while (i < PLACE_MANAGERS && p->managers[i] != NULL)
        i++;
    assert_true(i < PLACE_MANAGERS);
    assert_ok(sqlock_open(&watched, url, &opts, &p->managers[i], &err), &err);
    return p->managers[i];
}

sqlock *place_open(struct place *p)
{
    return open_at(p, p->url);
}

sqlock *place_open_cut(struct place *p)
{
    return open_at(p, proxy_url(p->proxy));
}

sqlock *place_open_child(const struct place *p)
{
    sqlock_open_opts opts = open_opts(p);
    sqlock *m = NULL;

    return sqlock_open(&watched, p->url, &opts, &m, NULL) == 0 ? m : NULL;
}

/* ---- locks -------------------------------------------------------------------------------------
 */

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

struct finder {
    const char *name;
    struct row row;
};

static int find(const sqlock_info *info, void *user)
{
    struct finder *f = user;

    if (strcmp(info->name, f->name) != 0)
        return 0;
    f->row.n++;
    f->row.held = info->held;
    f->row.token = info->holder.token;
    f->row.left_ms = info->holder.left_ms;
    return 0;
}

struct row row_of(sqlock *m, const char *name)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    struct finder f = {name, {0}};
    sqlock_error err;

    opts.flags = SQLOCK_LIST_FREE;
    opts.prefix = name;
    assert_ok(sqlock_list(m, &opts, find, &f, &err), &err);
    return f.row;
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
