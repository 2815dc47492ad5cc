/* Two ways in turns, with any number of threads. */
#include <pthread.h>
#include <stdlib.h>

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
        for (now = sqlock_now_us(); now < c->until;) {
            before = now;
            c->way->pair(own);
            now = sqlock_now_us();
            if (w->n < SAMPLES_MAX)
                w->samples[w->n++] = (double)(now - before);
        }
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

    c->until = begun + us;
    pthread_barrier_wait(&c->begin);
    pthread_barrier_wait(&c->end);
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
    size_t n = 0, at = 0;

    for (int i = 0; i < c->threads; i++)
        n += c->workers[i].n;
    if ((all = malloc((n + 1) * sizeof *all)) == NULL)
        bench_die("out of memory");
    for (int i = 0; i < c->threads; i++)
        for (size_t k = 0; k < c->workers[i].n; k++)
            all[at++] = c->workers[i].samples[k];
    run.pairs_per_s = (double)n * 1e6 / c->worked_us;
    run.cpu_us = c->cpu_us / (double)n;
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
        c->way->close(c->shared);
    return run;
}

/* One run of both. Several threads do not end a turn together (who waits for SQLite's writer may
 * come late), so they have a single one. */
static void run_both(const struct bench_db *db, int threads, int ms, int first,
                     struct bench_run out[2])
{
    const struct bench_way *ways[2] = {&bench_sqlock, db->bare};
    const int turns = threads == 1 && ms > TURN_MS ? ms / TURN_MS : 1;
    const int64_t us = (int64_t)ms * 1000;
    struct crew crews[2] = {0};

    for (int i = 0; i < 2; i++)
        crew_begin(&crews[i], db, ways[i], threads);
    for (int i = 0; i < 2; i++)
        crew_warm_up(&crews[i], us / WARM_UP_PART);
    for (int turn = 0; turn < turns; turn++) {
        /* Who goes first changes, so that a drift favours neither. */
        crew_turn(&crews[(first + turn) % 2], us / turns);
        crew_turn(&crews[(first + turn + 1) % 2], us / turns);
    }
    for (int i = 0; i < 2; i++)
        out[i] = crew_end(&crews[i]);
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
        struct bench_run both[2];

        run_both(db, threads, ms, i % 2, both);
        ours[i] = both[0];
        bare[i] = both[1];
        ratio[i] = ours[i].pairs_per_s / bare[i].pairs_per_s;
    }
    result.ours = median(ours, runs);
    result.bare = median(bare, runs);
    result.ratio = bench_percentile(ratio, (size_t)runs, 0.5);
    result.ratio_low = ratio[0]; /* sorted by now */
    result.ratio_high = ratio[runs - 1];
    return result;
}
