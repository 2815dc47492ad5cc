/* How long a waiter in another process waits after a release. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define NAME        "bench hand-over"
#define HOLD_US     2000 /* long enough for the other one to be waiting when it ends */
#define SAMPLES_MAX 10000

/* In memory that both processes see. */
struct track {
    atomic_int ready;
    _Atomic int64_t released_at;
    atomic_int n;
    int last; /* who held it before; changed by the holder */
    double samples[SAMPLES_MAX];
};

/* A lock that comes back to who released it is no hand-over: it does not count. */
static void take_turn(struct track *t, sqlock *m, int me)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    int64_t now;

    o.wait_ms = SQLOCK_WAIT_FOREVER;
    if (sqlock_acquire(m, NAME, &o, &lock, &err) != 0)
        bench_die("%s", err.text);
    now = sqlock_now_us();
    if (t->last >= 0 && t->last != me && t->n < SAMPLES_MAX)
        t->samples[t->n++] = (double)(now - t->released_at);
    t->last = me;
    sqlock_sleep_us(HOLD_US);
    t->released_at = sqlock_now_us();
    if (sqlock_release(lock, &err) != 0)
        bench_die("%s", err.text);
    sqlock_lock_free(lock);
}

/* After its turn a process lets the other one go first. */
static void play(struct track *t, const struct bench_db *db, int me, int times)
{
    sqlock *m = NULL;
    sqlock_error err;

    if (sqlock_open(db->driver, db->url, NULL, &m, &err) != 0)
        bench_die("%s", err.text);
    t->ready++;
    while (t->ready < 2)
        sqlock_sleep_us(1000);
    while (t->n < times) {
        int before = t->n;

        take_turn(t, m, me);
        for (int i = 0; i < 1000 && t->n == before && t->last == me && before < times; i++)
            sqlock_sleep_us(1000);
    }
    sqlock_close(m);
}

struct bench_handover bench_hand_over(const struct bench_db *db, int times)
{
    struct track *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct bench_handover result = {.times = times};
    pid_t child[2];

    if (t == MAP_FAILED)
        bench_die("no shared memory");
    t->last = -1;
    for (int i = 0; i < 2; i++) {
        if ((child[i] = fork()) < 0)
            bench_die("no process");
        if (child[i] == 0) {
            play(t, db, i, times);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = 0;

        if (waitpid(child[i], &status, 0) != child[i] || status != 0)
            bench_die("a process of the hand-over failed");
    }
    result.times = t->n;
    result.p50_us = bench_percentile(t->samples, (size_t)t->n, 0.50);
    result.p99_us = bench_percentile(t->samples, (size_t)t->n, 0.99);
    munmap(t, sizeof *t);
    return result;
}
