/* The driver is wrapped, and its renewals are counted. */
#include "bench/counted.h"

#include <pthread.h>
#include <time.h>

static const sqlock_driver *inner;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct counted counted;
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
    if (counting && stmt == SQLOCK_STMT_RENEW && counted.requests < COUNTED_MAX) {
        counted.ms[counted.requests] = (double)(ended - begun) / 1000;
        counted.n[counted.requests++] = (int)n;
        counted.leases += n;
        counted.cpu_us += cpu_us;
    }
    pthread_mutex_unlock(&mu);
    return rc;
}

sqlock_driver counted_driver(const sqlock_driver *driver)
{
    sqlock_driver result = *driver;

    inner = driver;
    result.run = run_counted;
    return result;
}

static void count(int on)
{
    pthread_mutex_lock(&mu);
    counting = on;
    if (on) {
        counted.requests = counted.leases = 0;
        counted.cpu_us = 0;
    }
    pthread_mutex_unlock(&mu);
}

void counted_begin(void)
{
    count(1);
}

const struct counted *counted_end(void)
{
    count(0);
    return &counted;
}
