/* What held leases cost their process: CPU and memory. The driver is wrapped, and its renewals are
 * counted. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define REQUESTS_MAX     100000
#define FILLERS          32 /* threads that acquire */
#define FILL_CONNECTIONS 8  /* on so many connections, where a batch does not do */

static const sqlock_driver *inner;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static double times_ms[REQUESTS_MAX];
static size_t requests, renewed;
static double in_driver_us; /* of CPU */
static int counting;

static double thread_cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1000;
}

static int run_counted(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                       const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                       sqlock_error *err)
{
    double cpu_us = thread_cpu_us();
    int64_t begun = sqlock_now_us();
    int rc = inner->run(conn, call, stmt, values, n, deadline, rows, err);
    int64_t ended = sqlock_now_us();

    cpu_us = thread_cpu_us() - cpu_us;
    pthread_mutex_lock(&mu);
    if (counting && stmt == SQLOCK_STMT_RENEW && requests < REQUESTS_MAX) {
        times_ms[requests++] = (double)(ended - begun) / 1000;
        renewed += n;
        in_driver_us += cpu_us;
    }
    pthread_mutex_unlock(&mu);
    return rc;
}

static void count(int on)
{
    pthread_mutex_lock(&mu);
    counting = on;
    if (on) {
        requests = renewed = 0;
        in_driver_us = 0;
    }
    pthread_mutex_unlock(&mu);
}

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
    double cpu_us, us = (double)seconds * 1e6;

    count(1);
    cpu_us = bench_cpu_us();
    sqlock_sleep_us((int64_t)us);
    cpu_us = bench_cpu_us() - cpu_us;
    count(0);
    if (requests == 0)
        bench_die("nothing was renewed");
    out->cpu = cpu_us / us;
    out->cpu_outside = (cpu_us - in_driver_us) / us;
    out->renewed_per_s = (double)renewed / seconds;
    out->leases_per_batch = (double)renewed / (double)requests;
    out->batch_ms = bench_percentile(times_ms, requests, 0.5);
}

struct bench_leases bench_hold(const struct bench_db *db, int leases, int lease_ms, int seconds)
{
    struct bench_leases result = {.leases = leases, .lease_ms = lease_ms};
    struct shelf s = {.leases = leases, .lease_ms = lease_ms};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_driver counted = *db->driver;
    sqlock_error err;

    inner = db->driver;
    counted.run = run_counted;
    if (!(inner->caps & SQLOCK_CAP_BATCH))
        o.connections = FILL_CONNECTIONS + 1;
    if ((s.locks = calloc((size_t)leases, sizeof(sqlock_lock *))) == NULL ||
        sqlock_open(&counted, db->url, &o, &s.m, &err) != 0)
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
