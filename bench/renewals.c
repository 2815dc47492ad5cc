/* What a renewal of many leases in one request gains against as many requests. Both are timed in
 * the driver: the worker renews leases together by itself, and no call of a user's does. */
#include <stdio.h>

#include <sqlock/many.h>

#include "bench/counted.h"

#include "bench.h"

#define LEASES   BENCH_RENEWED
#define LEASE_MS 30000
#define RENEW_MS 1000 /* of the ones that the worker renews */
#define PAUSE_US 200

/* All at once, so that they are due at once. */
static void acquire_all(sqlock *m, sqlock_lock **locks, const char *what,
                        const sqlock_acquire_opts *opts)
{
    const char *names[LEASES];
    char texts[LEASES][48];
    sqlock_error err;

    for (int i = 0; i < LEASES; i++) {
        snprintf(texts[i], sizeof texts[i], "bench renewed %s %d", what, i);
        names[i] = texts[i];
    }
    if (sqlock_acquire_all(m, names, LEASES, opts, locks, &err) != 0)
        bench_die("%s", err.text);
}

static void free_all(sqlock_lock **locks)
{
    sqlock_error err;

    if (sqlock_end_each(locks, LEASES, NULL, &err) != 0)
        bench_die("%s", err.text);
}

/* All the time: what is sent after a second of silence takes half as long again, because the
 * machine has gone to sleep. With pauses, for SQLite has one writer at a time. */
static void renew_for(sqlock_lock **locks, int64_t us)
{
    const int64_t until = sqlock_now_us() + us;
    sqlock_error err;

    for (int i = 0; sqlock_now_us() < until; i = (i + 1) % LEASES) {
        if (sqlock_renew(locks[i], &err) != 0)
            bench_die("%s", err.text);
        sqlock_sleep_us(PAUSE_US);
    }
}

/* The median time of the requests that renewed n leases; 0: there was none. */
static double median_of(const struct counted *c, int n)
{
    static double values[COUNTED_MAX];
    size_t found = 0;

    for (size_t i = 0; i < c->requests; i++)
        if (c->n[i] == n)
            values[found++] = c->ms[i];
    return bench_percentile(values, found, 0.5);
}

struct bench_ratio bench_renew(const struct bench_db *db, int runs)
{
    sqlock_acquire_opts together = SQLOCK_ACQUIRE_OPTS_INIT, single = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_driver driver = counted_driver(db->driver);
    sqlock_lock *ours[LEASES] = {0}, *theirs[LEASES] = {0};
    double ratios[BENCH_RUNS_MAX], many_ms = 1;
    sqlock_error err;
    sqlock *m = NULL;

    together.lease_ms = single.lease_ms = LEASE_MS;
    together.renew_ms = RENEW_MS;
    single.flags = SQLOCK_NO_RENEW;
    if (sqlock_open(&driver, db->url, NULL, &m, &err) != 0)
        bench_die("%s", err.text);
    acquire_all(m, theirs, "together", &together);
    acquire_all(m, ours, "one by one", &single);
    sqlock_sleep_us(2 * RENEW_MS * 1000); /* from now on they are due together */
    for (int k = 0; k < runs && many_ms > 0; k++) {
        const struct counted *c;

        counted_begin();
        renew_for(ours, 2 * RENEW_MS * INT64_C(1000));
        c = counted_end();
        many_ms = median_of(c, LEASES);
        ratios[k] = many_ms > 0 ? LEASES * median_of(c, 1) / many_ms : 0;
    }
    free_all(ours);
    free_all(theirs);
    sqlock_close(m);
    return many_ms > 0 ? bench_ratio_of(ratios, runs) : (struct bench_ratio){0};
}
