/* Two ways in turns, with any number of threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"

#define WARM_UP_PART 4 /* of a run's time goes by before it counts */
#define SAMPLES_MAX  400000

struct crew {
    const struct bench_db *db;
    const struct bench_way *way;
    void *shared;
    pthread_barrier_t ready;
    int64_t warm_us, run_us;
};

struct worker {
    struct crew *crew;
    int number;
    pthread_t thread;
    double *samples; /* microseconds of each pair */
    size_t n;
    int64_t begun, ended; /* of what was counted */
    double cpu_us;        /* of the whole process in that time */
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct crew *c = w->crew;
    void *own = c->way->start(c->db, c->shared, w->number);
    int64_t now, start;

    c->way->pair(own); /* makes the row, prepares the statements */
    pthread_barrier_wait(&c->ready);
    start = sqlock_now_us();
    for (now = start; now < start + c->warm_us; now = sqlock_now_us())
        c->way->pair(own);
    w->begun = now;
    w->cpu_us = -bench_cpu_us();
    while (now < start + c->warm_us + c->run_us) {
        int64_t before = now;

        c->way->pair(own);
        now = sqlock_now_us();
        if (w->n < SAMPLES_MAX)
            w->samples[w->n++] = (double)(now - before);
    }
    w->ended = now;
    w->cpu_us += bench_cpu_us();
    c->way->end(own);
    return NULL;
}

static struct bench_run sum_up(struct worker *workers, int threads)
{
    struct bench_run run = {0};
    double *all = NULL;
    size_t n = 0, at = 0;
    int64_t begun = INT64_MAX, ended = 0;
    int longest = 0;

    for (int i = 0; i < threads; i++) {
        n += workers[i].n;
        begun = workers[i].begun < begun ? workers[i].begun : begun;
        ended = workers[i].ended > ended ? workers[i].ended : ended;
        if (workers[i].ended - workers[i].begun > workers[longest].ended - workers[longest].begun)
            longest = i;
    }
    run.pairs_per_s = (double)n * 1e6 / (double)(ended - begun);
    if ((all = malloc((n + 1) * sizeof *all)) == NULL)
        bench_die("out of memory");
    for (int i = 0; i < threads; i++)
        for (size_t k = 0; k < workers[i].n; k++)
            all[at++] = workers[i].samples[k];
    run.cpu_us = workers[longest].cpu_us / (double)n; /* who was starved has counted little */
    run.p50_us = bench_percentile(all, n, 0.50);
    run.p99_us = bench_percentile(all, n, 0.99);
    free(all);
    return run;
}

static struct bench_run run_way(const struct bench_db *db, const struct bench_way *way, int threads,
                                int ms)
{
    struct crew crew = {.db = db, .way = way};
    struct worker workers[BENCH_THREADS_MAX] = {0};
    struct bench_run run;

    crew.run_us = (int64_t)ms * 1000;
    crew.warm_us = crew.run_us / WARM_UP_PART;
    crew.shared = way->open != NULL ? way->open(db, threads) : NULL;
    pthread_barrier_init(&crew.ready, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i].crew = &crew;
        workers[i].number = i;
        if ((workers[i].samples = malloc(SAMPLES_MAX * sizeof(double))) == NULL ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no memory or no thread for worker %d", i);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    run = sum_up(workers, threads);
    for (int i = 0; i < threads; i++)
        free(workers[i].samples);
    pthread_barrier_destroy(&crew.ready);
    if (way->close != NULL)
        way->close(crew.shared);
    return run;
}

static struct bench_run median(const struct bench_run *runs, int n)
{
    double rate[BENCH_PAIRS_MAX], p50[BENCH_PAIRS_MAX], p99[BENCH_PAIRS_MAX], cpu[BENCH_PAIRS_MAX];

    for (int i = 0; i < n; i++) {
        rate[i] = runs[i].pairs_per_s;
        p50[i] = runs[i].p50_us;
        p99[i] = runs[i].p99_us;
        cpu[i] = runs[i].cpu_us;
    }
    return (struct bench_run){
        bench_percentile(rate, (size_t)n, 0.5), bench_percentile(p50, (size_t)n, 0.5),
        bench_percentile(p99, (size_t)n, 0.5), bench_percentile(cpu, (size_t)n, 0.5)};
}

struct bench_ratio bench_compare(const struct bench_db *db, int threads, int runs, int ms)
{
    struct bench_run ours[BENCH_PAIRS_MAX], bare[BENCH_PAIRS_MAX];
    struct bench_ratio result = {.threads = threads, .runs = runs};
    double ratio[BENCH_PAIRS_MAX];

    for (int i = 0; i < runs; i++) {
        /* Who goes first changes, so that a drift within a pair favours neither. */
        if (i % 2 == 0)
            ours[i] = run_way(db, &bench_sqlock, threads, ms);
        bare[i] = run_way(db, db->bare, threads, ms);
        if (i % 2 != 0)
            ours[i] = run_way(db, &bench_sqlock, threads, ms);
        ratio[i] = ours[i].pairs_per_s / bare[i].pairs_per_s;
    }
    result.ours = median(ours, runs);
    result.bare = median(bare, runs);
    result.ratio = bench_percentile(ratio, (size_t)runs, 0.5);
    result.ratio_low = ratio[0]; /* sorted by now */
    result.ratio_high = ratio[runs - 1];
    return result;
}
