/* Several ways in turns, with any number of threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define WARM_UP_PART 4  /* of a run's time goes by before it counts */
#define TURN_MS      50 /* of one thread: the disk's pace changes within a second */
#define SAMPLES_MAX  400000

struct crew;

struct worker {
    struct crew *crew;
    int number;
    pthread_t thread;
    double *samples; /* microseconds of each pair */
    size_t n;
};

/* The threads of one way, which work when it is their turn. */
struct crew {
    const struct bench_db *db;
    const struct bench_way *way;
    void *shared;
    int threads;
    struct worker workers[BENCH_THREADS_MAX];
    pthread_barrier_t begin, end; /* of a turn; the one who leads is the last of either */
    int64_t until;                /* the turn's end, 0: there are no more */
    double worked_us, cpu_us;     /* in all turns, the whole process's */
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct crew *c = w->crew;
    void *own = c->way->start(c->db, c->shared, w->number);
    int64_t now, before;

    for (;;) {
        pthread_barrier_wait(&c->begin);
        if (c->until == 0)
            break;
        now = sqlock_now_us();
        do { /* at least once: in the first turn the row is made, which bare loops need */
            before = now;
            c->way->pair(own);
            now = sqlock_now_us();
            if (w->n < SAMPLES_MAX)
                w->samples[w->n++] = (double)(now - before);
        } while (now < c->until);
        pthread_barrier_wait(&c->end);
    }
    c->way->end(own);
    return NULL;
}

static void crew_begin(struct crew *c, const struct bench_db *db, const struct bench_way *way,
                       int threads)
{
    c->db = db;
    c->way = way;
    c->threads = threads;
    c->shared = way->open != NULL ? way->open(db, threads) : NULL;
    pthread_barrier_init(&c->begin, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&c->end, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        struct worker *w = &c->workers[i];

        w->crew = c;
        w->number = i;
        if ((w->samples = malloc(SAMPLES_MAX * sizeof(double))) == NULL ||
            pthread_create(&w->thread, NULL, work, w) != 0)
            bench_die("no memory or no thread for worker %d", i);
    }
}

static void crew_turn(struct crew *c, int64_t us)
{
    const int64_t begun = sqlock_now_us();
    const double cpu_us = bench_cpu_us();

    if (c->way->turn_begins != NULL)
        c->way->turn_begins();
    c->until = begun + us;
    pthread_barrier_wait(&c->begin);
    pthread_barrier_wait(&c->end);
    if (c->way->turn_ends != NULL)
        c->way->turn_ends();
    c->worked_us += (double)(sqlock_now_us() - begun);
    c->cpu_us += bench_cpu_us() - cpu_us;
}

/* Makes the rows, prepares the statements, lets files grow; and forgets what that took. */
static void crew_warm_up(struct crew *c, int64_t us)
{
    crew_turn(c, us);
    c->worked_us = c->cpu_us = 0;
    for (int i = 0; i < c->threads; i++)
        c->workers[i].n = 0;
}

static struct bench_run sum_up(const struct crew *c)
{
    struct bench_run run = {0};
    double *all = NULL;
    size_t n = 0, at = 0, fewest = SIZE_MAX;

    for (int i = 0; i < c->threads; i++) {
        n += c->workers[i].n;
        if (c->workers[i].n < fewest)
            fewest = c->workers[i].n;
    }
    if ((all = malloc((n + 1) * sizeof *all)) == NULL)
        bench_die("out of memory");
    for (int i = 0; i < c->threads; i++)
        for (size_t k = 0; k < c->workers[i].n; k++)
            all[at++] = c->workers[i].samples[k];
    run.pairs_per_s = (double)n * 1e6 / c->worked_us;
    run.cpu_us = c->cpu_us / (double)n;
    run.slowest = (double)fewest * c->threads / (double)n;
    run.p50_us = bench_percentile(all, n, 0.50);
    run.p99_us = bench_percentile(all, n, 0.99);
    free(all);
    return run;
}

static struct bench_run crew_end(struct crew *c)
{
    const struct bench_run run = sum_up(c);

    c->until = 0;
    pthread_barrier_wait(&c->begin);
    for (int i = 0; i < c->threads; i++) {
        pthread_join(c->workers[i].thread, NULL);
        free(c->workers[i].samples);
    }
    pthread_barrier_destroy(&c->begin);
    pthread_barrier_destroy(&c->end);
    if (c->way->close != NULL)
        c->way->close(c->db, c->shared);
    return run;
}

/* One run of all. Several threads do not end a turn together (who waits for SQLite's writer may
 * come late), so they have a single one. Who goes first changes, so that a drift favours no one. */
static void run_all(const struct bench_comparison *c, const struct bench_db *db, int ms, int first,
                    struct bench_run *out)
{
    const int turns = c->threads == 1 && ms > TURN_MS ? ms / TURN_MS : 1;
    const int64_t us = (int64_t)ms * 1000;
    struct crew crews[BENCH_WAYS_MAX] = {0};

    for (int i = 0; i < c->n; i++)
        crew_begin(&crews[i], db, c->ways[i], c->threads);
    for (int i = 0; i < c->n; i++)
        crew_warm_up(&crews[i], us / WARM_UP_PART);
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < c->n; i++)
            crew_turn(&crews[(first + turn + i) % c->n], us / turns);
    for (int i = 0; i < c->n; i++)
        out[i] = crew_end(&crews[i]);
}

/* Of one field (its offset) of so many runs. */
static struct bench_ratio spread(const struct bench_run *runs, int n, size_t field)
{
    double values[BENCH_RUNS_MAX];

    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&runs[i] + field, sizeof values[i]);
    /* It sorts them. */
    return (struct bench_ratio){.median = bench_percentile(values, (size_t)n, 0.5),
                                .least = values[0],
                                .most = values[n - 1]};
}

#define SPREAD(runs, n, field) spread(runs, n, offsetof(struct bench_run, field))

static struct bench_run median(const struct bench_run *runs, int n)
{
    return (struct bench_run){.pairs_per_s = SPREAD(runs, n, pairs_per_s).median,
                              .p50_us = SPREAD(runs, n, p50_us).median,
                              .p99_us = SPREAD(runs, n, p99_us).median,
                              .cpu_us = SPREAD(runs, n, cpu_us).median,
                              .slowest = SPREAD(runs, n, slowest).median};
}

/* The first way's medians and ratios to way number i. */
static void judge(struct bench_comparison *c, struct bench_run runs[][BENCH_RUNS_MAX], int i)
{
    struct bench_run ratios[BENCH_RUNS_MAX] = {0};

    for (int k = 0; k < c->runs; k++) {
        ratios[k].pairs_per_s = runs[0][k].pairs_per_s / runs[i][k].pairs_per_s;
        ratios[k].p99_us = runs[0][k].p99_us / runs[i][k].p99_us;
    }
    c->medians[i] = median(runs[i], c->runs);
    c->rate[i] = SPREAD(ratios, c->runs, pairs_per_s);
    c->p99[i] = SPREAD(ratios, c->runs, p99_us);
}

struct bench_comparison bench_compare(const struct bench_db *db,
                                      const struct bench_way *const *ways, int n, int threads,
                                      int runs, int ms)
{
    struct bench_comparison c = {.threads = threads, .runs = runs, .n = n};
    struct bench_run all[BENCH_WAYS_MAX][BENCH_RUNS_MAX], one[BENCH_WAYS_MAX];

    for (int i = 0; i < n; i++)
        c.ways[i] = ways[i];
    for (int k = 0; k < runs; k++) {
        run_all(&c, db, ms, k % n, one);
        for (int i = 0; i < n; i++)
            all[i][k] = one[i];
    }
    for (int i = 0; i < n; i++)
        judge(&c, all, i);
    c.slowest = SPREAD(all[0], runs, slowest);
    return c;
}
