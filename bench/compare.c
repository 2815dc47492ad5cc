/* Several entries in turns, run after run. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/crew.h"

#define WARM_UP_PART 4 /* of a run's time goes by before it counts */
#define WARM_UP_US                                                                                 \
    8000 /* for each of the first WARMED clients at least: a session plans its statements */
#define WARMED       64
#define COUNTED_PART 4  /* of a run's time is spent to count what the server does */
#define TURN_MS      50 /* of one client: the disk's pace changes within a second */
#define STUCK_S      180

/* What the server does is counted apart from what is timed: to count costs time. */
static void count_one(struct crew *c, const struct bench_entry *e, int64_t us,
                      struct bench_run *run)
{
    const struct bench_client *client = e->db->client;
    struct bench_counts before, after;
    double pairs;

    if (client == NULL) {
        run->statements = e->way->requests;
        return;
    }
    crew_forget(c);
    before = client->count(e->db);
    crew_turn(c, us);
    after = client->count(e->db);
    pairs = crew_pairs(c);
    if (before.statements >= 0)
        run->statements = (after.statements - before.statements) / pairs;
    if (before.commits >= 0)
        run->commits = (after.commits - before.commits) / pairs;
}

/* The first entry is on the database of all that can be counted. */
static void count(struct bench_comparison *c, struct crew **crews)
{
    const struct bench_db *db = c->entries[0].db;
    void (*counting)(const struct bench_db *, int) =
        db->client != NULL ? db->client->counting : NULL;

    if (counting != NULL)
        counting(db, 1);
    for (int i = 0; i < c->n; i++)
        count_one(crews[i], &c->entries[i], (int64_t)c->ms * 1000 / COUNTED_PART, &c->all[i][0]);
    if (counting != NULL)
        counting(db, 0);
}

static int are_single(const struct bench_comparison *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->entries[i].clients > 1)
            return 0;
    return 1;
}

/* Several clients do not end a turn together (who waits for SQLite's writer may come late), so they
 * have a single one. Who goes first changes, so that a drift favours no one. */
static void take_turns(const struct bench_comparison *c, struct crew **crews, int first)
{
    const int turns = are_single(c) && c->ms > TURN_MS ? c->ms / TURN_MS : 1;
    const int64_t us = (int64_t)c->ms * 1000;

    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < c->n; i++)
            crew_turn(crews[(first + turn + i) % c->n], us / turns);
}

/* Makes the rows, prepares statements, lets files grow. */
static int64_t warm_up_us(const struct bench_entry *e, int64_t us)
{
    const int64_t part = us / WARM_UP_PART,
                  least = (int64_t)(e->clients < WARMED ? e->clients : WARMED) * WARM_UP_US;

    return part > least ? part : least;
}

static void give_up(int signal_number)
{
    static const char text[] = "bench: a run does not end\n";

    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

/* Run number k of all. */
static void run_all(struct bench_comparison *c, int k)
{
    const int64_t us = (int64_t)c->ms * 1000;
    struct crew *crews[BENCH_ENTRIES_MAX];

    signal(SIGALRM, give_up);
    alarm((unsigned)(STUCK_S + 2 * c->n * c->ms / 1000)); /* nothing here may wait for ever */
    for (int i = 0; i < c->n; i++)
        crews[i] = crew_begin(&c->entries[i]);
    for (int i = 0; i < c->n; i++)
        crew_turn(crews[i], warm_up_us(&c->entries[i], us));
    for (int i = 0; i < c->n; i++) {
        crew_forget(crews[i]);
        crew_watch_server(crews[i]);
    }
    take_turns(c, crews, k % c->n);
    for (int i = 0; i < c->n; i++)
        c->all[i][k] = crew_result(crews[i]);
    if (k == 0)
        count(c, crews);
    crews_end(crews, c->n);
    alarm(0);
}

void bench_compare(struct bench_comparison *out, const struct bench_entry *entries, int n,
                   const struct bench_settings *s)
{
    *out = (struct bench_comparison){.runs = s->runs, .ms = s->ms, .n = n};
    memcpy(out->entries, entries, (size_t)n * sizeof *entries);
    for (int k = 0; k < s->runs; k++)
        run_all(out, k);
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static double field_of(const struct bench_run *run, size_t field)
{
    double value;

    memcpy(&value, (const char *)run + field, sizeof value);
    return value;
}

struct bench_ratio bench_spread(const struct bench_comparison *c, int i, size_t field)
{
    double values[BENCH_RUNS_MAX];

    for (int k = 0; k < c->runs; k++)
        values[k] = field_of(&c->all[i][k], field);
    return bench_ratio_of(values, c->runs);
}

struct bench_ratio bench_ratio_to(const struct bench_comparison *c, int i, int k, size_t field)
{
    double values[BENCH_RUNS_MAX];

    for (int run = 0; run < c->runs; run++)
        values[run] = field_of(&c->all[i][run], field) / field_of(&c->all[k][run], field);
    return bench_ratio_of(values, c->runs);
}
