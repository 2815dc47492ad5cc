/* What held leases cost their process: CPU and memory. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/counted.h"

#include "bench.h"

#define FILLERS          32 /* threads that acquire */
#define FILL_CONNECTIONS 8  /* on so many connections, where a batch does not do */

/* Resident, in bytes. */
static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1)
        bench_die("/proc/self/statm cannot be read");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double allocated(void)
{
    const struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

struct shelf {
    sqlock *m;
    sqlock_lock **locks;
    int leases, lease_ms;
    atomic_int next;
};

static void *fill(void *arg)
{
    struct shelf *s = arg;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error err;
    char name[32];

    o.lease_ms = s->lease_ms;
    for (int i; (i = s->next++) < s->leases;) {
        snprintf(name, sizeof name, "bench lease %d", i);
        if (sqlock_acquire(s->m, name, &o, &s->locks[i], &err) != 0)
            bench_die("%s", err.text);
    }
    return NULL;
}

static void fill_by_many(struct shelf *s)
{
    pthread_t threads[FILLERS];

    for (int i = 0; i < FILLERS; i++)
        if (pthread_create(&threads[i], NULL, fill, s) != 0)
            bench_die("no thread");
    for (int i = 0; i < FILLERS; i++)
        pthread_join(threads[i], NULL);
}

/* The leases run out by themselves: giving back as many would take as long as taking them. */
static void clear(struct shelf *s)
{
    sqlock_close(s->m);
    for (int i = 0; i < s->leases; i++)
        sqlock_lock_free(s->locks[i]);
    free(s->locks);
}

static void measure(struct bench_leases *out, int seconds)
{
    static double times_ms[COUNTED_MAX];
    const double us = (double)seconds * 1e6;
    const struct counted *c;
    double cpu_us;

    counted_begin();
    cpu_us = bench_cpu_us();
    sqlock_sleep_us((int64_t)us);
    cpu_us = bench_cpu_us() - cpu_us;
    c = counted_end();
    if (c->requests == 0)
        bench_die("nothing was renewed");
    memcpy(times_ms, c->ms, c->requests * sizeof *times_ms);
    out->cpu = cpu_us / us;
    out->cpu_outside = (cpu_us - c->cpu_us) / us;
    out->renewed_per_s = (double)c->leases / seconds;
    out->leases_per_batch = (double)c->leases / (double)c->requests;
    out->batch_ms = bench_percentile(times_ms, c->requests, 0.5);
}

struct bench_leases bench_hold(const struct bench_db *db, int leases, int lease_ms, int seconds)
{
    struct bench_leases result = {.leases = leases, .lease_ms = lease_ms};
    struct shelf s = {.leases = leases, .lease_ms = lease_ms};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_driver driver = counted_driver(db->driver);
    sqlock_error err;

    if (!(driver.caps & SQLOCK_CAP_BATCH))
        o.connections = FILL_CONNECTIONS + 1;
    if ((s.locks = calloc((size_t)leases, sizeof(sqlock_lock *))) == NULL ||
        sqlock_open(&driver, db->url, &o, &s.m, &err) != 0)
        bench_die("%s", s.locks == NULL ? "out of memory" : err.text);
    malloc_trim(0); /* what others have used and freed would hide what leases take */
    result.rss_bytes = resident();
    result.heap_bytes = allocated();
    fill_by_many(&s);
    sqlock_sleep_us((int64_t)lease_ms * 1000 / 3); /* until each was renewed once */
    measure(&result, seconds);
    result.rss_bytes = (resident() - result.rss_bytes) / leases;
    result.heap_bytes = (allocated() - result.heap_bytes) / leases;
    for (int i = 0; i < leases; i++)
        result.held += sqlock_is_held(s.locks[i]);
    clear(&s);
    return result;
}
