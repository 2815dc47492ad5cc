/* What waiters cost while the lock stays held by someone else, and how soon all of them have had
 * it after its release. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlock/admin.h>
#include <sqlock/import.h>

#include "bench/cpu.h"

#include "bench.h"

#define NAME           "bench held"
#define WAITERS_MOST   512
#define PASSES_MOST    16   /* within a process, as schema/README.md says */
#define SETTLE_MS_MOST 2000 /* until all wait */

/* In memory that all processes see. */
struct grants {
    atomic_int begun; /* the lock is held */
    atomic_int waiting, n;
    _Atomic int64_t first_at, last_at;
    struct grant {
        unsigned char owner[SQLOCK_OWNER_SIZE];
        pid_t process;
    } all[WAITERS_MOST]; /* one after the other */
};

struct waiter {
    sqlock *m;
    struct grants *grants;
    pthread_t thread;
};

static void *wait_once(void *arg)
{
    struct waiter *w = arg;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    struct grant *grant;
    int64_t none = 0;

    o.wait_ms = SQLOCK_WAIT_FOREVER;
    w->grants->waiting++;
    if (sqlock_acquire(w->m, NAME, &o, &lock, &err) != 0)
        bench_die("%s", err.text);
    w->grants->last_at = sqlock_now_us();
    atomic_compare_exchange_strong(&w->grants->first_at, &none, w->grants->last_at);
    grant = &w->grants->all[w->grants->n++];
    memcpy(grant->owner, sqlock_lock_owner(lock), sizeof grant->owner);
    grant->process = getpid();
    if (sqlock_release(lock, &err) != 0)
        bench_die("%s", err.text);
    sqlock_lock_free(lock);
    return NULL;
}

static void be_process(const struct bench_db *db, struct grants *grants, int threads)
{
    struct waiter *waiters = calloc((size_t)threads, sizeof *waiters);
    sqlock_error err;
    sqlock *m = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!grants->begun)
        sqlock_sleep_us(1000);
    if (waiters == NULL || sqlock_open(db->driver, db->url, NULL, &m, &err) != 0)
        bench_die("%s", waiters == NULL ? "out of memory" : err.text);
    for (int i = 0; i < threads; i++) {
        waiters[i] = (struct waiter){.m = m, .grants = grants};
        if (pthread_create(&waiters[i].thread, NULL, wait_once, &waiters[i]) != 0)
            bench_die("no thread");
    }
    for (int i = 0; i < threads; i++)
        pthread_join(waiters[i].thread, NULL);
    sqlock_close(m);
    free(waiters);
}

/* ---- while it is held ------------------------------------------------------------------------ */

static double cpu_of_us(const pid_t *processes, int n)
{
    double us = 0;

    for (int i = 0; i < n; i++)
        us += cpu_of_process_us(processes[i]);
    return us;
}

/* Returns what the server has done by its end. */
static struct bench_counts rest(struct bench_held *out, const struct bench_db *db,
                                const pid_t *processes, int hold_ms)
{
    static struct cpu_tree server;
    const double s = hold_ms / 1e3;
    struct bench_counts before, after;
    double client_us, server_us;

    cpu_tree_find(&server, db->pid);
    before = db->client->count(db);
    client_us = cpu_of_us(processes, out->processes);
    server_us = cpu_of_tree_us(&server);
    sqlock_sleep_us(hold_ms * INT64_C(1000));
    out->client_cpu = (cpu_of_us(processes, out->processes) - client_us) / 1e6 / s;
    out->server_cpu = db->pid > 0 ? (cpu_of_tree_us(&server) - server_us) / 1e6 / s : -1;
    after = db->client->count(db);
    out->statements_per_s = before.statements < 0 ? -1 : (after.statements - before.statements) / s;
    out->commits_per_s = before.commits < 0 ? -1 : (after.commits - before.commits) / s;
    return after;
}

static void count(const struct bench_db *db, int on)
{
    if (db->client->counting != NULL)
        db->client->counting(db, on);
}

/* ---- when it comes free ---------------------------------------------------------------------- */

struct line {
    size_t n;
    struct place {
        unsigned char owner[SQLOCK_OWNER_SIZE];
        int had_it;
    } places[WAITERS_MOST];
};

static int add_place(const sqlock_waiter *waiter, void *user)
{
    struct line *line = user;

    if (line->n < WAITERS_MOST)
        memcpy(line->places[line->n].owner, waiter->owner, SQLOCK_OWNER_SIZE);
    line->n++;
    return 0;
}

static int is_at(const struct line *line, size_t i, const struct grant *grant)
{
    return memcmp(line->places[i].owner, grant->owner, SQLOCK_OWNER_SIZE) == 0;
}

/* -1: the line does not show all who were granted the lock. */
static int out_of_order(struct line *line, const struct grants *grants)
{
    int out = 0, passes = 0;
    size_t first = 0;

    if (line->n != (size_t)grants->n)
        return -1;
    for (size_t k = 0; k < line->n; k++) {
        const struct grant *g = &grants->all[k];
        size_t i = first;

        while (i < line->n && !is_at(line, i, g))
            i++;
        if (i == line->n)
            return -1;
        line->places[i].had_it = 1;
        passes = i == first ? 0 : passes + 1;
        out += passes > PASSES_MOST || (passes > 0 && k > 0 && g->process != g[-1].process);
        while (first < line->n && line->places[first].had_it)
            first++;
    }
    return out;
}

static void note_drain(struct bench_held *out, const struct bench_db *db,
                       struct bench_counts before)
{
    const struct bench_counts after = db->client->count(db);
    const double n = (double)out->processes * out->threads;

    out->statements_each = before.statements < 0 ? -1 : (after.statements - before.statements) / n;
    out->commits_each = before.commits < 0 ? -1 : (after.commits - before.commits) / n;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Before this process opens a database: SQLite's may not be forked. */
static void start(pid_t *processes, const struct bench_held *h, const struct bench_db *db,
                  struct grants *grants)
{
    fflush(stdout);
    for (int i = 0; i < h->processes; i++) {
        if ((processes[i] = fork()) < 0)
            bench_die("no process");
        if (processes[i] == 0) {
            be_process(db, grants, h->threads);
            _exit(0);
        }
    }
}

static void await_waiters(const struct bench_held *h, struct grants *grants, int hold_ms)
{
    grants->begun = 1;
    while (grants->waiting < h->processes * h->threads)
        sqlock_sleep_us(1000);
    sqlock_sleep_us((hold_ms < SETTLE_MS_MOST ? hold_ms : SETTLE_MS_MOST) * INT64_C(1000));
}

static void await_ends(const pid_t *processes, const struct bench_held *h,
                       const struct grants *grants)
{
    for (int i = 0; i < h->processes; i++) {
        int status = 0;

        if (waitpid(processes[i], &status, 0) != processes[i] || status != 0)
            bench_die("a process that waits for a held lock failed");
    }
    if (grants->n != h->processes * h->threads)
        bench_die("%d of %d waiters had the lock", (int)grants->n, h->processes * h->threads);
}

struct bench_held bench_hold_up(const struct bench_db *db, int processes, int threads, int hold_ms)
{
    struct bench_held result = {.processes = processes, .threads = threads};
    struct grants *grants =
        mmap(NULL, sizeof *grants, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[BENCH_PROCESSES_MAX];
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;
    struct bench_counts before;
    static struct line line;
    int64_t released_at;

    if (processes * threads > WAITERS_MOST)
        bench_die("more than %d waiters", WAITERS_MOST);
    if (grants == MAP_FAILED)
        bench_die("no shared memory");
    start(children, &result, db, grants);
    if (sqlock_open(db->driver, db->url, NULL, &m, &err) != 0 ||
        sqlock_acquire(m, NAME, NULL, &lock, &err) != 0)
        bench_die("%s", err.text);
    count(db, 1);
    await_waiters(&result, grants, hold_ms);
    before = rest(&result, db, children, hold_ms);
    line.n = 0;
    memset(line.places, 0, sizeof line.places);
    if (sqlock_list_waiters(m, NAME, add_place, &line, &err) != 0)
        bench_die("%s", err.text);
    released_at = sqlock_now_us();
    if (sqlock_release(lock, &err) != 0)
        bench_die("%s", err.text);
    await_ends(children, &result, grants);
    note_drain(&result, db, before);
    count(db, 0);
    result.out_of_order = out_of_order(&line, grants);
    result.first_us = (double)(grants->first_at - released_at);
    result.all_us = (double)(grants->last_at - released_at);
    sqlock_lock_free(lock);
    sqlock_close(m);
    munmap(grants, sizeof *grants);
    return result;
}
