/* How soon a waiter has a lock whose holder has died; and what requests that wait take of their
 * process. */
#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>

#include <sqlock/async.h>

#include "bench.h"

#define NAME      "bench parked"
#define LEASE_MS  500
#define HELD_MS   120000
#define PARKED_US INT64_C(60000000) /* until all have a place, at most */
#define LOOK_US   INT64_C(10000)

static sqlock *open_one(const struct bench_db *db)
{
    sqlock_error err;
    sqlock *m = NULL;

    if (sqlock_open(db->driver, db->url, NULL, &m, &err) != 0)
        bench_die("%s", err.text);
    return m;
}

static sqlock_lock *acquire(sqlock *m, int lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;

    o.lease_ms = lease_ms;
    o.flags = flags;
    o.wait_ms = SQLOCK_WAIT_FOREVER;
    if (sqlock_acquire(m, NAME, &o, &lock, &err) != 0)
        bench_die("%s", err.text);
    return lock;
}

static void end(sqlock_lock *lock)
{
    sqlock_error err;

    if (sqlock_lock_end(&lock, &err) != 0)
        bench_die("%s", err.text);
}

/* The lease may have begun when the request left. So it is not shorter than what counts here. */
void bench_take_over(const struct bench_db *db, double *out_ms, int times)
{
    sqlock *dead = open_one(db), *m = open_one(db);

    for (int i = 0; i < times; i++) {
        const int64_t begun = sqlock_now_us();
        sqlock_lock *lost = acquire(dead, LEASE_MS, SQLOCK_NO_RENEW), *lock;

        lock = acquire(m, HELD_MS, 0);
        out_ms[i] = (double)(sqlock_now_us() - begun) / 1e3 - LEASE_MS;
        end(lock);
        sqlock_lock_free(lost);
    }
    sqlock_close(m);
    sqlock_close(dead);
}

/* ---- what they take -------------------------------------------------------------------------- */

static double heap(void)
{
    const struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static double descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;

    if (dir == NULL)
        bench_die("/proc/self/fd cannot be read");
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static sqlock_op *start(sqlock *m)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_op *op = NULL;
    sqlock_error err;

    o.wait_ms = SQLOCK_WAIT_FOREVER;
    if (sqlock_acquire_start(m, NAME, &o, &op, &err) != 0)
        bench_die("%s", err.text);
    return op;
}

static void await_places(sqlock_op *const *ops, int n)
{
    const int64_t until = sqlock_now_us() + PARKED_US;

    for (int i = 0; i < n; i++)
        while (sqlock_op_place(ops[i]) == 0) {
            if (sqlock_now_us() >= until)
                bench_die("a request that waits has no place");
            sqlock_sleep_us(LOOK_US);
        }
}

static void cancel(sqlock_op **ops, int n)
{
    for (int i = 0; i < n; i++)
        sqlock_op_cancel(ops[i]);
    for (int i = 0; i < n; i++) {
        sqlock_lock *lock = NULL;
        sqlock_error err;

        if (sqlock_op_finish(ops[i], &lock, &err) != SQLOCK_ECANCELLED)
            bench_die("a request that was cancelled did not end as such");
    }
}

/* The first one is there before: what it needs is the manager's. */
struct bench_parked bench_park(const struct bench_db *db, int requests)
{
    sqlock *holder = open_one(db), *m = open_one(db);
    sqlock_op **ops = calloc((size_t)requests + 1, sizeof(sqlock_op *));
    sqlock_lock *held = acquire(holder, HELD_MS, 0);
    struct bench_parked result;

    if (ops == NULL)
        bench_die("out of memory");
    ops[0] = start(m);
    await_places(ops, 1);
    result = (struct bench_parked){requests, heap(), descriptors()};
    for (int i = 1; i <= requests; i++)
        ops[i] = start(m);
    await_places(ops, requests + 1);
    result.bytes = (heap() - result.bytes) / requests;
    result.descriptors = (descriptors() - result.descriptors) / requests;
    cancel(ops, requests + 1);
    free(ops);
    end(held);
    sqlock_close(m);
    sqlock_close(holder);
    return result;
}
