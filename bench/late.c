/* How soon a waiter in another process has a lock after a long hold. There is one waiter for each
 * lock, and one hand-over after the other: nothing is warm. */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define NAME          "bench late"
#define LATE_APART_US INT64_C(200000) /* one hand-over after the other */

struct late {
    atomic_int begun, waiting;
    _Atomic int64_t granted_at[BENCH_LATE_MOST];
};

static sqlock_lock *late_acquire(sqlock *m, int i)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    char name[32];

    snprintf(name, sizeof name, NAME " %d", i);
    o.wait_ms = SQLOCK_WAIT_FOREVER;
    if (sqlock_acquire(m, name, &o, &lock, &err) != 0)
        bench_die("%s", err.text);
    return lock;
}

static void late_release(sqlock_lock *lock)
{
    sqlock_error err;

    if (sqlock_lock_end(&lock, &err) != 0)
        bench_die("%s", err.text);
}

static void late_process(const struct bench_db *db, struct late *late, int i)
{
    sqlock_error err;
    sqlock *m = NULL;
    sqlock_lock *lock;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!late->begun)
        sqlock_sleep_us(1000);
    if (sqlock_open(db->driver, db->url, NULL, &m, &err) != 0)
        bench_die("%s", err.text);
    late->waiting++;
    lock = late_acquire(m, i);
    late->granted_at[i] = sqlock_now_us();
    late_release(lock);
    sqlock_close(m);
}

void bench_late(const struct bench_db *db, int hold_ms, double *out_ms, int n)
{
    struct late *late =
        mmap(NULL, sizeof *late, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sqlock_lock *locks[BENCH_LATE_MOST];
    pid_t children[BENCH_LATE_MOST];
    sqlock_error err;
    sqlock *m = NULL;

    if (late == MAP_FAILED)
        bench_die("no shared memory");
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        if ((children[i] = fork()) < 0)
            bench_die("no process");
        if (children[i] == 0) {
            late_process(db, late, i);
            _exit(0);
        }
    }
    if (sqlock_open(db->driver, db->url, NULL, &m, &err) != 0)
        bench_die("%s", err.text);
    for (int i = 0; i < n; i++)
        locks[i] = late_acquire(m, i);
    late->begun = 1;
    while (late->waiting < n)
        sqlock_sleep_us(1000);
    sqlock_sleep_us(hold_ms * INT64_C(1000));
    for (int i = 0; i < n; i++) {
        const int64_t released_at = sqlock_now_us();
        int status = 0;

        late_release(locks[i]);
        if (waitpid(children[i], &status, 0) != children[i] || status != 0)
            bench_die("a process that waits for a lock that is held long failed");
        out_ms[i] = (double)(late->granted_at[i] - released_at) / 1e3;
        sqlock_sleep_us(LATE_APART_US);
    }
    sqlock_close(m);
    munmap(late, sizeof *late);
}
