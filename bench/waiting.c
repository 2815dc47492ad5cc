/* What is measured of waiting for a lock: how soon it is handed over, who waits longest, and what
 * waiters cost while it stays held. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "bench/line.h"

#define LOOK_WAITERS 8
#define TAKEN_OVER   40

static int is(const struct bench_db *db, const char *name)
{
    return strcmp(db->name, name) == 0;
}

/* ---- hand-overs ------------------------------------------------------------------------------ */

enum entry { APART, TOGETHER, OTHERS }; /* processes, threads of one manager, and what is there */

static void figure(const struct bench_db *db, int waiters, const char *what, struct bench_ratio r,
                   double at_most)
{
    char text[80];

    snprintf(text, sizeof text, "%d waiter%s: hand-over, %s", waiters, waiters > 1 ? "s" : "",
             what);
    bench_figure(db->name, text, r, at_most > 0 ? BENCH_AT_MOST : BENCH_NO_BAR, at_most);
}

/* Below 0: it was not measured. */
static int entry_of(const struct bench_comparison *c, const struct bench_way *way)
{
    for (int i = 0; i < c->n; i++)
        if (c->entries[i].way == way)
            return i;
    return -1;
}

static int entry_of_redis(const struct bench_comparison *c)
{
    const struct bench_peer *redis = bench_peer_named("redis-always");

    return redis != NULL ? entry_of(c, redis->line) : -1;
}

/* What two commits and a notification take is less than that. */
static void judge_beside_lean(const struct bench_db *db, const struct bench_comparison *c,
                              int waiters)
{
    const int lean = entry_of(c, db->client->line), redis = entry_of_redis(c);

    if (db->client->line == NULL)
        return;
    figure(db, waiters, "p50, of the lean hand-over", BENCH_RATIO_TO(c, APART, lean, p50_us), 0);
    if (redis >= 0)
        figure(db, waiters, "lean, p50, of BLPOP", BENCH_RATIO_TO(c, lean, redis, p50_us), 0);
}

static void judge_beside_redis(const struct bench_db *db, const struct bench_comparison *c,
                               int waiters)
{
    const double postgres = waiters == 1 ? 1.2 : 1.3;
    const double p50 = is(db, "postgres") ? postgres : is(db, "mysql") ? 2 : 0;
    const int redis = entry_of_redis(c);
    struct bench_ratio of_p50 = bench_single(-1), of_p99 = bench_single(-1);

    if (redis >= 0) {
        of_p50 = BENCH_RATIO_TO(c, APART, redis, p50_us);
        of_p99 = BENCH_RATIO_TO(c, APART, redis, p99_us);
    }
    figure(db, waiters, "p50, of BLPOP", of_p50, p50);
    figure(db, waiters, "p99, of BLPOP", of_p99, p50 > 0 ? 2 : 0);
}

static void judge(const struct bench_db *db, const struct bench_comparison *c, int waiters)
{
    struct bench_ratio p50 = BENCH_SPREAD(c, APART, p50_us);

    judge_beside_redis(db, c, waiters);
    judge_beside_lean(db, c, waiters);
    if (bench_is_sqlite(db))
        figure(db, waiters, "p50 in us", p50, 1500);
    figure(db, waiters, "of threads, of processes: p50", BENCH_RATIO_TO(c, TOGETHER, APART, p50_us),
           0.7);
    figure(db, waiters, "statements", bench_single(c->all[APART][0].statements),
           is(db, "postgres") ? 3.1 : 0);
    figure(db, waiters, "commits", bench_single(c->all[APART][0].commits),
           is(db, "postgres") ? 2.1 : 0);
}

/* So many waiters behind each holder. */
static json_t *hand_over(const struct bench_db *db, int waiters, const struct bench_settings *s)
{
    static struct bench_comparison c;
    const struct bench_peer *redis = bench_peer_named("redis-always");
    struct bench_settings longer = *s;
    struct bench_entry entries[OTHERS + 2] = {
        [APART] = {db, &bench_line, waiters + 1, waiters + 1},
        [TOGETHER] = {db, &bench_line, waiters + 1, 1},
    };

    int n = OTHERS;

    if (redis != NULL)
        entries[n++] = (struct bench_entry){&redis->db, redis->line, waiters + 1, waiters + 1};
    if (db->client->line != NULL)
        entries[n++] = (struct bench_entry){db, db->client->line, waiters + 1, waiters + 1};
    line_least_ms = 4, line_most_ms = 8;
    longer.ms *= 2; /* there are 150 hand-overs a second */
    bench_compare(&c, entries, n, &longer);
    judge(db, &c, waiters);
    return bench_print(&c);
}

/* ---- fairness -------------------------------------------------------------------------------- */

static json_t *fairness(const struct bench_db *db, const struct bench_settings *s)
{
    static struct bench_comparison c;
    const int look = bench_is_look(s), n = look ? LOOK_WAITERS : 64;
    const struct bench_settings once = {.runs = 1, .ms = look ? 500 : 60000};
    const struct bench_entry entry = {db, &bench_line_waits, n, n};
    char text[80];

    line_least_ms = line_most_ms = 2;
    bench_compare(&c, &entry, 1, &once);
    snprintf(text, sizeof text, "%d processes: longest wait, of the mean", n);
    bench_figure(db->name, text, bench_single(c.all[0][0].most_us / c.all[0][0].mean_us),
                 BENCH_AT_MOST, 1.5);
    return bench_print(&c);
}

/* ---- a lock that stays held ------------------------------------------------------------------ */

static json_t *print_held(const struct bench_db *db, const struct bench_held *h, int hold_ms)
{
    printf(
        "%-9s held for %.0f s, %d waiters in %d process%s: statements a second %.1f, commits "
        "%.1f; %% of a core %.1f, of the server's %.1f; first grant after %.1f ms, the last after "
        "%.0f ms, with %.1f statements and %.1f commits for each, %d out of order\n",
        db->name, hold_ms / 1e3, h->processes * h->threads, h->processes,
        h->processes > 1 ? "es" : "", h->statements_per_s, h->commits_per_s, 100 * h->client_cpu,
        100 * h->server_cpu, h->first_us / 1e3, h->all_us / 1e3, h->statements_each,
        h->commits_each, h->out_of_order);
    fflush(stdout);
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "processes",
                     h->processes, "threads", h->threads, "hold_ms", hold_ms, "statements_per_s",
                     h->statements_per_s, "commits_per_s", h->commits_per_s, "cores", h->client_cpu,
                     "server_cores", h->server_cpu, "first_us", h->first_us, "all_us", h->all_us,
                     "statements_each", h->statements_each, "commits_each", h->commits_each,
                     "out_of_order", h->out_of_order);
}

static void say(const struct bench_db *db, const char *what, int waiters, double value, double bar)
{
    char text[80];

    snprintf(text, sizeof text, "%d waiters of a held lock: %s", waiters, what);
    bench_figure(db->name, text, bench_single(value), bar > 0 ? BENCH_AT_MOST : BENCH_NO_BAR, bar);
}

static json_t *held_by_processes(const struct bench_db *db, int look)
{
    const int processes = look ? 2 : 8, hold_ms = look ? 300 : 20000;
    const struct bench_held h = bench_hold_up(db, processes, look ? 4 : 64, hold_ms);
    const int n = processes * h.threads;
    char text[80];

    if (is(db, "mysql"))
        say(db, "statements a second, of a process", n, h.statements_per_s / processes, 20);
    else if (bench_is_sqlite(db))
        say(db, "commits a second", n, h.commits_per_s, 0);
    else
        say(db, "statements a second", n, h.statements_per_s, 8);
    say(db, "ms to the first grant", n, h.first_us / 1e3, 0);
    say(db, "statements for each, to all grants", n, h.statements_each, 0);
    snprintf(text, sizeof text, "%d waiters of a held lock: out of order", n);
    bench_figure(db->name, text, bench_single(h.out_of_order), BENCH_AT_MOST, 0);
    return print_held(db, &h, hold_ms);
}

static json_t *held_by_threads(const struct bench_db *db, int look)
{
    const int hold_ms = look ? 300 : 20000;
    const struct bench_held h = bench_hold_up(db, 1, look ? LOOK_WAITERS : 500, hold_ms);

    say(db, "% of a core, of the process", h.threads, 100 * h.client_cpu, 3);
    say(db, "% of a core, of the server", h.threads, h.server_cpu < 0 ? -1 : 100 * h.server_cpu, 3);
    return print_held(db, &h, hold_ms);
}

/* ---- a holder that died, and requests without a thread ----------------------------------------
 */

static json_t *take_over(const struct bench_db *db, int look)
{
    double ms[TAKEN_OVER];
    const int times = look ? 3 : TAKEN_OVER;
    struct bench_ratio late;
    double p99;

    bench_take_over(db, ms, times);
    p99 = bench_percentile(ms, (size_t)times, 0.99);
    late = bench_ratio_of(ms, times);
    bench_figure(db->name, "a dead holder's lease ended: ms to the next grant, p50", late,
                 BENCH_NO_BAR, 0);
    bench_figure(db->name, "a dead holder's lease ended: ms to the next grant, p99",
                 bench_single(p99), BENCH_AT_MOST, 50);
    return json_pack("{s:i, s:f, s:f}", "times", times, "p50_ms", late.median, "p99_ms", p99);
}

static json_t *late(const struct bench_db *db, int look)
{
    const int n = look ? 2 : BENCH_LATE_MOST, hold_ms = look ? 300 : 20000;
    double ms[BENCH_LATE_MOST];
    char text[80];

    bench_late(db, hold_ms, ms, n);
    snprintf(text, sizeof text, "held for %.0f s: ms to the waiter's grant, p50", hold_ms / 1e3);
    bench_figure(db->name, text, bench_ratio_of(ms, n),
                 bench_is_sqlite(db) ? BENCH_NO_BAR : BENCH_AT_MOST, is(db, "mysql") ? 50 : 2);
    return json_pack("{s:i, s:i, s:f}", "times", n, "hold_ms", hold_ms, "p50_ms",
                     bench_percentile(ms, (size_t)n, 0.5));
}

static json_t *parked(const struct bench_db *db, int look)
{
    const struct bench_parked p = bench_park(db, look ? 50 : 1000);
    char text[80];

    snprintf(text, sizeof text, "%d requests wait: bytes each", p.requests);
    bench_figure(db->name, text, bench_single(p.bytes), BENCH_AT_MOST, 600);
    snprintf(text, sizeof text, "%d requests wait: descriptors each", p.requests);
    bench_figure(db->name, text, bench_single(p.descriptors), BENCH_AT_MOST, 0);
    return json_pack("{s:i, s:f, s:f}", "requests", p.requests, "bytes", p.bytes, "descriptors",
                     p.descriptors);
}

json_t *bench_measure_waiting(const struct bench_db *db, const struct bench_settings *s)
{
    static const int waiters[] = {1, 8, 64};
    const int look = bench_is_look(s);
    json_t *lines = json_array();

    for (size_t i = 0; i < sizeof waiters / sizeof *waiters; i++)
        if (!look || waiters[i] <= LOOK_WAITERS)
            json_array_append_new(lines, hand_over(db, waiters[i], s));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "hand_overs", lines, "fairness",
                     fairness(db, s), "held", held_by_processes(db, look), "held_by_threads",
                     held_by_threads(db, look), "late", late(db, look), "take_over",
                     take_over(db, look), "parked", parked(db, look));
}
