/* sqlock's own ways: one manager for all threads of a process, with a connection for each or with
 * the default options, and the latter once more without requests that go out together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/many.h>

#include "bench/line.h"
#include "core/engine/batch.h"

enum { CONNECTIONS_MOST = 64 };

struct own {
    sqlock *m;
    int client;
    double handed_us; /* by the last hand-over */
    char name[32];
    char names[2][32]; /* of swaps, whose lock is held while others have their turn */
    int at;
    sqlock_lock *lock;
};

static sqlock *open_with(const struct bench_db *db, const sqlock_open_opts *o)
{
    sqlock_error err;
    sqlock *m = NULL;

    if (sqlock_open(db->driver, db->url, o, &m, &err) != 0)
        bench_die("%s", err.text);
    return m;
}

static void *open_flagged(const struct bench_db *db, int threads, unsigned flags)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.flags = flags;
    o.connections =
        threads < CONNECTIONS_MOST ? threads + 1 : CONNECTIONS_MOST; /* one is kept for renewals */
    o.lease_ms = BENCH_LEASE_MS;
    return open_with(db, &o);
}

static void *open_connections(const struct bench_db *db, int threads)
{
    return open_flagged(db, threads, 0);
}

static void *open_durable(const struct bench_db *db, int threads)
{
    return open_flagged(db, threads, SQLOCK_OPEN_DURABLE_RELEASE);
}

static void *open_one(const struct bench_db *db, int threads)
{
    (void)threads;
    return open_with(db, NULL);
}

static void *open_one_durable(const struct bench_db *db, int threads)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    (void)threads;
    o.flags = SQLOCK_OPEN_DURABLE_RELEASE;
    return open_with(db, &o);
}

/* In a process of its own. */
static void *open_one_alone(const struct bench_db *db, int threads)
{
    batch_most = 1;
    return open_one(db, threads);
}

static void close_manager(void *shared)
{
    sqlock_close(shared);
}

static void *start(const struct bench_db *db, void *shared, int number)
{
    struct own *own = malloc(sizeof *own);

    (void)db;
    if (own == NULL)
        bench_die("out of memory");
    *own = (struct own){.m = shared, .client = number};
    snprintf(own->name, sizeof own->name, "bench %d", number);
    for (int i = 0; i < 2; i++)
        snprintf(own->names[i], sizeof own->names[i], "bench swap %d %d", number, i);
    return own;
}

static void take_and_give(sqlock *m, const char *name, const sqlock_acquire_opts *opts)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    if (sqlock_acquire(m, name, opts, &lock, &err) != 0 || sqlock_release(lock, &err) != 0)
        bench_die("%s", err.text);
    sqlock_lock_free(lock);
}

static void pair(void *arg)
{
    struct own *own = arg;

    take_and_give(own->m, own->name, NULL);
}

static void share(void *arg)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    struct own *own = arg;

    o.mode = SQLOCK_SHARED;
    take_and_give(own->m, own->name, &o);
}

/* All clients are readers of one name. */
static void read_one(void *arg)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    struct own *own = arg;

    o.mode = SQLOCK_SHARED;
    take_and_give(own->m, "bench readers", &o);
}

/* One lock for all of them. */
static void stand_in_line(void *arg)
{
    struct own *own = arg;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;

    o.wait_ms = SQLOCK_WAIT_FOREVER;
    line_wait();
    if (sqlock_acquire(own->m, "bench line", &o, &lock, &err) != 0)
        bench_die("%s", err.text);
    own->handed_us = line_hold(own->client);
    line_leave();
    if (sqlock_release(lock, &err) != 0)
        bench_die("%s", err.text);
    sqlock_lock_free(lock);
}

static double handed(void *arg)
{
    const struct own *own = arg;

    return own->handed_us;
}

static void prepare_line(const struct bench_db *db, int clients)
{
    (void)db, (void)clients;
    line_begin();
}

static void clean_line(const struct bench_db *db)
{
    (void)db;
    line_end();
}

static void swap(void *arg)
{
    struct own *own = arg;
    sqlock_error err;
    int released;

    own->at = !own->at;
    if (sqlock_swap(own->m, &own->lock, own->names[own->at], NULL, &released, &err) != 0 ||
        released != 0)
        bench_die("%s", err.text);
}

static void end_swap(void *arg)
{
    struct own *own = arg;
    sqlock_error err;

    if (sqlock_lock_end(&own->lock, &err) != 0)
        bench_die("%s", err.text);
    free(own);
}

#define WAY_OF(what, ...)                                                                          \
    {                                                                                              \
        __VA_ARGS__, .close = close_manager, .start = start, .end = free, .pair = what             \
    }
#define WAY(...) WAY_OF(pair, __VA_ARGS__)

const struct bench_way bench_sqlock = WAY(.name = "sqlock", .open = open_connections);
const struct bench_way bench_sqlock_durable = WAY(.name = "sqlock, durable", .open = open_durable);
const struct bench_way bench_swap = {.name = "swap, durable",
                                     .open = open_durable,
                                     .close = close_manager,
                                     .start = start,
                                     .end = end_swap,
                                     .pair = swap};
const struct bench_way bench_one = WAY(.name = "one manager", .open = open_one);
const struct bench_way bench_one_durable =
    WAY(.name = "one manager, durable", .open = open_one_durable);
const struct bench_way bench_one_alone = WAY(.name = "one manager, alone", .open = open_one_alone);

const struct bench_way bench_shared = WAY_OF(share, .name = "shared", .open = open_connections);
const struct bench_way bench_readers =
    WAY_OF(read_one, .name = "shared, one name", .open = open_connections);

#define LINE(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__, .prepare = prepare_line, .clean = clean_line, .open = open_one,               \
                     .close = close_manager, .start = start, .end = free, .pair = stand_in_line    \
    }

const struct bench_way bench_line = LINE(.name = "hand-over", .took = handed);
const struct bench_way bench_line_waits = LINE(.name = "wait and hold");

void bench_pairs(const struct bench_db *db, int pairs)
{
    sqlock *m = open_connections(db, 1);
    struct own *own = start(db, m, 0);

    for (int i = 0; i < pairs; i++)
        pair(own);
    free(own);
    sqlock_close(m);
}
