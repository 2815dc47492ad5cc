/* sqlock's own way: one manager for all threads, a connection for each. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

struct own {
    sqlock *m;
    char name[32];
};

static void *open_manager(const struct bench_db *db, int threads)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    sqlock *m = NULL;

    o.connections = threads + 1; /* one is kept for renewals */
    o.lease_ms = BENCH_LEASE_MS;
    if (sqlock_open(db->driver, db->url, &o, &m, &err) != 0)
        bench_die("%s", err.text);
    return m;
}

static void close_manager(void *shared)
{
    sqlock_close(shared);
}

static void *start(const struct bench_db *db, void *shared, int thread)
{
    struct own *own = malloc(sizeof *own);

    (void)db;
    if (own == NULL)
        bench_die("out of memory");
    own->m = shared;
    snprintf(own->name, sizeof own->name, "bench %d", thread);
    return own;
}

static void pair(void *arg)
{
    struct own *own = arg;
    sqlock_lock *lock = NULL;
    sqlock_error err;

    if (sqlock_acquire(own->m, own->name, NULL, &lock, &err) != 0 ||
        sqlock_release(lock, &err) != 0)
        bench_die("%s", err.text);
    sqlock_lock_free(lock);
}

const struct bench_way bench_sqlock = {
    .name = "sqlock",
    .open = open_manager,
    .close = close_manager,
    .start = start,
    .end = free,
    .pair = pair,
};
