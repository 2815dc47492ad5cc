/* What a thousand held leases cost: the driver is wrapped, and its renewals are counted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define LEASE_MS     6000
#define RENEW_MS     1000
#define REQUESTS_MAX 10000

static const sqlock_driver *inner;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static double times_ms[REQUESTS_MAX];
static size_t requests, renewed;
static int counting;

static int run_counted(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                       int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    int64_t begun = sqlock_now_us();
    int rc = inner->run(conn, stmt, values, n, deadline, rows, err);
    int64_t ended = sqlock_now_us();

    if (stmt != SQLOCK_STMT_RENEW)
        return rc;
    pthread_mutex_lock(&mu);
    if (counting && requests < REQUESTS_MAX) {
        times_ms[requests++] = (double)(ended - begun) / 1000;
        renewed += n;
    }
    pthread_mutex_unlock(&mu);
    return rc;
}

static void count(int on)
{
    pthread_mutex_lock(&mu);
    counting = on;
    if (on)
        requests = renewed = 0;
    pthread_mutex_unlock(&mu);
}

static sqlock_lock *acquire(sqlock *m, int i)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    char name[32];

    o.lease_ms = LEASE_MS;
    o.renew_ms = RENEW_MS;
    snprintf(name, sizeof name, "bench lease %d", i);
    if (sqlock_acquire(m, name, &o, &lock, &err) != 0)
        bench_die("%s", err.text);
    return lock;
}

struct bench_renewals bench_renew(const struct bench_db *db, int leases, int seconds)
{
    struct bench_renewals result = {.leases = leases, .rounds = seconds * 1000 / RENEW_MS};
    sqlock_lock **locks = calloc((size_t)leases, sizeof(sqlock_lock *));
    sqlock_driver counted = *db->driver;
    sqlock *m = NULL;
    sqlock_error err;
    double cpu;

    inner = db->driver;
    counted.run = run_counted;
    if (locks == NULL || sqlock_open(&counted, db->url, NULL, &m, &err) != 0)
        bench_die("%s", locks == NULL ? "out of memory" : err.text);
    for (int i = 0; i < leases; i++)
        locks[i] = acquire(m, i);
    sqlock_sleep_us(2 * RENEW_MS * 1000); /* until they come together */
    count(1);
    cpu = bench_cpu_us();
    sqlock_sleep_us((int64_t)seconds * 1000000);
    cpu = bench_cpu_us() - cpu;
    count(0);
    for (int i = 0; i < leases; i++) {
        if (!sqlock_is_held(locks[i]))
            bench_die("lease %d was lost: %s", i, sqlock_why_name(sqlock_lock_why(locks[i])));
        if (sqlock_release(locks[i], &err) != 0)
            bench_die("%s", err.text);
        sqlock_lock_free(locks[i]);
    }
    sqlock_close(m);
    free(locks);
    if (requests == 0)
        bench_die("nothing was renewed");
    result.requests = (int)requests;
    result.leases_per_batch = (double)renewed / (double)requests;
    result.batch_ms = bench_percentile(times_ms, requests, 0.5);
    result.cpu_ms_per_round = cpu / 1000 / result.rounds;
    return result;
}
