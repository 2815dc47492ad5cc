/* What it gains to take and give back a list of names in one call each, against one by one.
 * Releases wait for the disk on both sides. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlock/many.h>

#include "bench.h"

struct list {
    sqlock *m;
    sqlock_acquire_opts opts;
    size_t n;
    char (*texts)[32];
    const char **names;
    sqlock_lock **locks;
};

static void check(int rc, const sqlock_error *err)
{
    if (rc != 0)
        bench_die("%s", err->text);
}

static void open_list(struct list *l, const struct bench_db *db, int n)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;

    o.flags = SQLOCK_OPEN_DURABLE_RELEASE;
    *l = (struct list){.opts = SQLOCK_ACQUIRE_OPTS_INIT, .n = (size_t)n};
    l->opts.lease_ms = BENCH_LEASE_MS;
    l->texts = calloc(l->n, sizeof *l->texts);
    l->names = calloc(l->n, sizeof *l->names);
    l->locks = calloc(l->n, sizeof *l->locks);
    if (l->texts == NULL || l->names == NULL || l->locks == NULL)
        bench_die("out of memory");
    for (size_t i = 0; i < l->n; i++) {
        snprintf(l->texts[i], sizeof l->texts[i], "bench list %zu", i);
        l->names[i] = l->texts[i];
    }
    check(sqlock_open(db->driver, db->url, &o, &l->m, &err), &err);
}

static void close_list(struct list *l)
{
    sqlock_close(l->m);
    free(l->texts);
    free(l->names);
    free(l->locks);
}

static double time_at_once(struct list *l)
{
    const int64_t begun = sqlock_now_us();
    sqlock_error err;

    check(sqlock_acquire_each(l->m, l->names, l->n, &l->opts, l->locks, NULL, &err), &err);
    check(sqlock_end_each(l->locks, l->n, NULL, &err), &err);
    return (double)(sqlock_now_us() - begun);
}

static double time_one_by_one(struct list *l)
{
    const int64_t begun = sqlock_now_us();
    sqlock_error err;

    for (size_t i = 0; i < l->n; i++) {
        check(sqlock_acquire(l->m, l->names[i], &l->opts, &l->locks[i], &err), &err);
        check(sqlock_lock_end(&l->locks[i], &err), &err);
    }
    return (double)(sqlock_now_us() - begun);
}

/* The first time the names have no rows yet. */
struct bench_ratio bench_many(const struct bench_db *db, int n, int runs)
{
    double ratios[BENCH_RUNS_MAX];
    struct list l;

    open_list(&l, db, n);
    time_at_once(&l);
    for (int k = 0; k < runs; k++) {
        const double slow = time_one_by_one(&l);
        double at_once = 0;

        for (int turn = 0; turn < 4; turn++)
            at_once += time_at_once(&l) / 4;
        ratios[k] = slow / at_once;
    }
    close_list(&l);
    return bench_ratio_of(ratios, runs);
}
