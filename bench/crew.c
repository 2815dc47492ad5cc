/* The clients of one entry. Each process opens the way for itself; its threads wait at a barrier
 * for their turns, and write what they measure into memory that the leader sees. */
#include "bench/crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/cpu.h"

#define SAMPLES_MAX 2000000 /* of all clients together; what comes later is counted only */

struct client {
    size_t pairs, n;
    size_t first; /* sample; the number n is of those that follow */
};

/* In memory that all processes see. */
struct field {
    pthread_barrier_t begin, end; /* of a turn; the leader is the last of either */
    int64_t until;                /* the turn's end, 0: there are no more */
    struct client clients[BENCH_CLIENTS_MAX];
    float samples[SAMPLES_MAX]; /* microseconds of each pair, or of what counts of it */
};

struct crew {
    struct bench_entry entry;
    struct field *field;
    pid_t processes[BENCH_PROCESSES_MAX];
    struct cpu_tree server;
    double worked_us, client_cpu_us, server_cpu_us; /* in all turns */
};

/* ---- in a process of the crew ---------------------------------------------------------------- */

struct worker {
    const struct crew *crew;
    void *shared;
    int number;
    pthread_t thread;
};

static void work_a_turn(const struct worker *w, void *own)
{
    const struct bench_way *way = w->crew->entry.way;
    struct field *f = w->crew->field;
    struct client *me = &f->clients[w->number];
    const size_t most = SAMPLES_MAX / (size_t)w->crew->entry.clients;
    int64_t now = sqlock_now_us(), before;

    do { /* at least once: in the first turn the row is made, which bare loops need */
        double us;

        before = now;
        way->pair(own);
        now = sqlock_now_us();
        me->pairs++;
        us = way->took != NULL ? way->took(own) : (double)(now - before);
        if (us >= 0 && me->n < most)
            f->samples[me->first + me->n++] = (float)us;
    } while (now < f->until);
}

static void *work(void *arg)
{
    const struct worker *w = arg;
    const struct bench_entry *e = &w->crew->entry;
    struct field *f = w->crew->field;
    void *own = e->way->start(e->db, w->shared, w->number);

    for (;;) {
        pthread_barrier_wait(&f->begin);
        if (f->until == 0)
            break;
        work_a_turn(w, own);
        pthread_barrier_wait(&f->end);
    }
    e->way->end(own);
    return NULL;
}

static void be_process(const struct crew *c, int process)
{
    const struct bench_entry *e = &c->entry;
    const int threads = e->clients / e->processes;
    struct worker workers[BENCH_CLIENTS_MAX];
    void *shared;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_DFL);
    shared = e->way->open != NULL ? e->way->open(e->db, threads) : NULL;
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){.crew = c, .shared = shared, .number = process * threads + i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no thread for client %d", workers[i].number);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    if (e->way->close != NULL)
        e->way->close(shared);
}

/* ---- the leader ------------------------------------------------------------------------------ */

/* A process that ends on its own has said why. Without this, the leader would wait for it. */
static void miss_process(int signal_number)
{
    (void)signal_number;
    _exit(1);
}

static void make_barrier(pthread_barrier_t *barrier, int clients)
{
    pthread_barrierattr_t shared;

    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &shared, (unsigned)clients + 1);
    pthread_barrierattr_destroy(&shared);
}

static struct field *make_field(int clients)
{
    struct field *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (f == MAP_FAILED)
        bench_die("no shared memory");
    make_barrier(&f->begin, clients);
    make_barrier(&f->end, clients);
    for (int i = 0; i < clients; i++)
        f->clients[i].first = (size_t)i * (SAMPLES_MAX / (size_t)clients);
    return f;
}

struct crew *crew_begin(const struct bench_entry *entry)
{
    struct crew *c = calloc(1, sizeof *c);

    if (c == NULL)
        bench_die("out of memory");
    c->entry = *entry;
    c->field = make_field(entry->clients);
    if (entry->way->prepare != NULL)
        entry->way->prepare(entry->db, entry->clients);
    fflush(stdout);
    signal(SIGCHLD, miss_process);
    for (int i = 0; i < entry->processes; i++) {
        if ((c->processes[i] = fork()) < 0)
            bench_die("no process");
        if (c->processes[i] == 0) {
            be_process(c, i);
            _exit(0);
        }
    }
    return c;
}

void crew_watch_server(struct crew *c)
{
    cpu_tree_find(&c->server, c->entry.db->pid);
}

static double client_cpu_us(const struct crew *c)
{
    double us = 0;

    for (int i = 0; i < c->entry.processes; i++)
        us += cpu_of_process_us(c->processes[i]);
    return us;
}

void crew_turn(struct crew *c, int64_t us)
{
    const double client_us = client_cpu_us(c), server_us = cpu_of_tree_us(&c->server);
    const int64_t begun = sqlock_now_us();

    c->field->until = begun + us;
    pthread_barrier_wait(&c->field->begin);
    pthread_barrier_wait(&c->field->end);
    c->worked_us += (double)(sqlock_now_us() - begun);
    c->client_cpu_us += client_cpu_us(c) - client_us;
    c->server_cpu_us += cpu_of_tree_us(&c->server) - server_us;
}

void crew_forget(struct crew *c)
{
    c->worked_us = c->client_cpu_us = c->server_cpu_us = 0;
    for (int i = 0; i < c->entry.clients; i++)
        c->field->clients[i].pairs = c->field->clients[i].n = 0;
}

/* All samples, in one piece. */
static double *gather(const struct crew *c, size_t *n)
{
    const struct client *clients = c->field->clients;
    double *all;
    size_t at = 0;

    *n = 0;
    for (int i = 0; i < c->entry.clients; i++)
        *n += clients[i].n;
    if ((all = malloc((*n + 1) * sizeof *all)) == NULL)
        bench_die("out of memory");
    for (int i = 0; i < c->entry.clients; i++)
        for (size_t k = 0; k < clients[i].n; k++)
            all[at++] = c->field->samples[clients[i].first + k];
    return all;
}

double crew_pairs(const struct crew *c)
{
    double pairs = 0;

    for (int i = 0; i < c->entry.clients; i++)
        pairs += (double)c->field->clients[i].pairs;
    return pairs;
}

struct bench_run crew_result(const struct crew *c)
{
    struct bench_run run = {.statements = -1, .commits = -1, .server_cpu_us = -1};
    size_t n, fewest = SIZE_MAX;
    double *all = gather(c, &n), pairs = crew_pairs(c);

    for (int i = 0; i < c->entry.clients; i++)
        if (c->field->clients[i].pairs < fewest)
            fewest = c->field->clients[i].pairs;
    run.pairs_per_s = pairs * 1e6 / c->worked_us;
    run.client_cpu_us = c->client_cpu_us / pairs;
    if (c->server.n > 0)
        run.server_cpu_us = c->server_cpu_us / pairs;
    run.slowest = (double)fewest * c->entry.clients / pairs;
    run.p50_us = bench_percentile(all, n, 0.50);
    run.p99_us = bench_percentile(all, n, 0.99);
    for (size_t i = 0; i < n; i++)
        run.mean_us += all[i] / (double)n;
    run.most_us = n > 0 ? all[n - 1] : 0; /* they are sorted now */
    free(all);
    return run;
}

static void crew_end(struct crew *c)
{
    int status = 0;

    c->field->until = 0;
    pthread_barrier_wait(&c->field->begin);
    for (int i = 0; i < c->entry.processes; i++)
        if (waitpid(c->processes[i], &status, 0) != c->processes[i] || status != 0)
            bench_die("a process of \"%s\" failed", c->entry.way->name);
    if (c->entry.way->clean != NULL)
        c->entry.way->clean(c->entry.db);
    munmap(c->field, sizeof *c->field);
    free(c);
}

void crews_end(struct crew **crews, int n)
{
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < n; i++)
        crew_end(crews[i]);
}
