/* What is measured on a database, and the bars. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "bench.h"

#define LEASE_MS         30000
#define LEASE_MS_OF_LOOK 3000

/* What is to be reached on a database; 0: nothing is set. */
static const struct bars {
    const char *database;
    double bare;        /* against its statements in a bare loop */
    int threads;        /* of one manager with default options, */
    double alone;       /* against the same without batches, */
    double connections; /* and against as many connections */
} bars[] = {
    {"sqlite", 0.90, 32, 4, 0},
    {"postgres", 0.95, 64, 3, 1.5},
    {"mysql", 0.95, 64, 3, 0},
};

static const struct bars *find_bars(const struct bench_db *db)
{
    const struct bars *b = bars;

    while (strcmp(b->database, db->client->database) != 0)
        b++;
    return b;
}

/* ---- acquire and release --------------------------------------------------------------------- */

static json_t *print_way(const struct bench_db *db, const struct bench_comparison *c, int i)
{
    const struct bench_run *run = &c->medians[i];
    const struct bench_ratio *r = &c->rate[i];
    json_t *out = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "way", c->ways[i]->name,
                            "pairs_per_s", run->pairs_per_s, "p50_us", run->p50_us, "p99_us",
                            run->p99_us, "cpu_us", run->cpu_us, "slowest_thread", run->slowest);

    printf("%-9s %7d  %-21s %8.0f %7.0f %7.0f %6.0f %7.2f", db->client->database, c->threads,
           c->ways[i]->name, run->pairs_per_s, run->p50_us, run->p99_us, run->cpu_us, run->slowest);
    if (i > 0) {
        printf("   %5.2f (%.2f to %.2f)", r->median, r->least, r->most);
        json_object_update_new(out, json_pack("{s:f, s:f, s:f, s:f}", "ratio", r->median,
                                              "ratio_least", r->least, "ratio_most", r->most,
                                              "p99_ratio", c->p99[i].median));
    }
    putchar('\n');
    fflush(stdout);
    return out;
}

static json_t *print_comparison(const struct bench_db *db, const struct bench_comparison *c, int ms)
{
    json_t *ways = json_array();

    for (int i = 0; i < c->n; i++)
        json_array_append_new(ways, print_way(db, c, i));
    return json_pack("{s:i, s:i, s:i, s:o}", "threads", c->threads, "runs", c->runs, "ms", ms,
                     "ways", ways);
}

static void figure_of(const struct bench_db *db, int threads, const char *what,
                      struct bench_ratio value, enum bench_bar is, double bar)
{
    char text[80];

    snprintf(text, sizeof text, "%d thread%s%s", threads, threads > 1 ? "s" : "", what);
    bench_figure(db->client->database, text, value, bar > 0 ? is : BENCH_NO_BAR, bar);
}

/* A connection for each thread. All wait for the disk at each release. */
static json_t *compare_connections(const struct bench_db *db, int threads,
                                   const struct bench_settings *s)
{
    const struct bench_way *ways[] = {&bench_sqlock_durable, &db->client->bare, &db->client->lean};
    struct bench_comparison c = bench_compare(db, ways, 3, threads, s->runs, s->ms);

    figure_of(db, threads, ": of our SQL in a bare loop", c.rate[1], BENCH_AT_LEAST,
              find_bars(db)->bare);
    figure_of(db, threads, ": of the lean loop", c.rate[2], BENCH_NO_BAR, 0);
    return print_comparison(db, &c, s->ms);
}

/* The same with releases that do not wait for the disk, as sqlock's do by default. */
static json_t *compare_releases(const struct bench_db *db, int threads,
                                const struct bench_settings *s)
{
    const struct bench_way *ways[] = {&bench_sqlock, &db->client->lean, &db->client->lean_lazy};
    struct bench_comparison c = bench_compare(db, ways, 3, threads, s->runs, s->ms);

    figure_of(db, threads, ", default: of the lean loop", c.rate[1], BENCH_NO_BAR, 0);
    figure_of(db, threads, ", default: of the lean loop that does not wait either", c.rate[2],
              BENCH_NO_BAR, 0);
    return print_comparison(db, &c, s->ms);
}

/* All threads through one manager, which has one connection for them. */
static json_t *compare_default(const struct bench_db *db, const struct bench_settings *s)
{
    const struct bench_way *ways[] = {&bench_sqlock_default, &bench_sqlock_alone,
                                      &db->client->lean};
    const struct bars *b = find_bars(db);
    struct bench_comparison c = bench_compare(db, ways, 3, b->threads, s->runs, s->ms);

    figure_of(db, b->threads, ", one manager: of each request alone", c.rate[1], BENCH_AT_LEAST,
              b->alone);
    figure_of(db, b->threads, ", one manager: of lean connections", c.rate[2], BENCH_AT_LEAST,
              b->connections);
    figure_of(db, b->threads, ", one manager: p99, of lean connections", c.p99[2], BENCH_AT_MOST,
              b->connections > 0 ? 0.5 : 0);
    figure_of(db, b->threads, ", one manager: slowest thread, of the mean", c.slowest,
              BENCH_AT_LEAST, b->connections > 0 ? 0.8 : 0);
    return print_comparison(db, &c, s->ms);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static json_t *hand_over(const struct bench_db *db, const struct bench_settings *s)
{
    struct bench_handover h = bench_hand_over(db, s->ms < BENCH_LOOK_MS ? 20 : 200);

    printf("%-9s hand-over between two processes, %d times: p50 %.1f ms, p99 %.1f ms\n",
           db->client->database, h.times, h.p50_us / 1000, h.p99_us / 1000);
    return json_pack("{s:i, s:f, s:f}", "times", h.times, "p50_us", h.p50_us, "p99_us", h.p99_us);
}

static struct bench_ratio single(double value)
{
    return (struct bench_ratio){value, value, value};
}

/* A SQLite database works in this process. So what the driver takes does not count there. */
static void figures_of_leases(const struct bench_db *db, const struct bench_leases *l)
{
    const char *database = db->client->database;
    const int inside = strcmp(database, "sqlite") == 0;
    char text[80];

    snprintf(text, sizeof text, "%d leases: held to the end", l->leases);
    bench_figure(database, text, single(l->held), BENCH_AT_LEAST, l->leases);
    if (l->leases < BENCH_LEASES)
        return;
    snprintf(text, sizeof text, "%d leases: %% of a core%s", l->leases,
             inside ? ", without SQLite's" : "");
    bench_figure(database, text, single(100 * (inside ? l->cpu_outside : l->cpu)), BENCH_AT_MOST,
                 2);
    snprintf(text, sizeof text, "%d leases: resident bytes of each", l->leases);
    bench_figure(database, text, single(l->rss_bytes), BENCH_AT_MOST, 600);
}

static json_t *hold(const struct bench_db *db, const struct bench_settings *s)
{
    const int is_look = s->leases < BENCH_LEASES, lease_ms = is_look ? LEASE_MS_OF_LOOK : LEASE_MS;
    struct bench_leases l = bench_hold(db, s->leases, lease_ms, 2 * lease_ms / 3000);

    printf("%-9s %d leases of %d s: %.0f renewed a second, %.0f in a request of %.1f ms; "
           "%.2f %% of a core, %.2f %% outside of the driver; %.0f bytes of heap each, %.0f "
           "resident\n",
           db->client->database, l.leases, lease_ms / 1000, l.renewed_per_s, l.leases_per_batch,
           l.batch_ms, 100 * l.cpu, 100 * l.cpu_outside, l.heap_bytes, l.rss_bytes);
    fflush(stdout);
    figures_of_leases(db, &l);
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "leases", l.leases,
                     "lease_ms", l.lease_ms, "held", l.held, "cores", l.cpu, "cores_outside_driver",
                     l.cpu_outside, "resident_bytes", l.rss_bytes, "heap_bytes", l.heap_bytes,
                     "renewed_per_s", l.renewed_per_s, "leases_per_request", l.leases_per_batch,
                     "request_ms", l.batch_ms);
}

static json_t *instructions(const struct bench_db *db, const struct bench_settings *s)
{
    if (strcmp(db->client->database, "postgres") != 0)
        return json_null();
    if (s->instructions <= 0) {
        printf("%-9s instructions of a pair: SKIPPED, nothing could count them\n",
               db->client->database);
        return json_null();
    }
    bench_figure(db->client->database, "1 thread: instructions of a pair, core and driver",
                 single(s->instructions), BENCH_AT_MOST, 7900);
    return json_pack("{s:f, s:f}", "core_and_driver", s->instructions, "process",
                     s->all_instructions);
}

json_t *bench_measure(const struct bench_db *db, const struct bench_settings *s)
{
    json_t *out = json_pack("{s:s}", "database", db->client->database), *pairs = json_array();

    json_array_append_new(pairs, compare_connections(db, 1, s));
    json_array_append_new(pairs, compare_connections(db, 8, s));
    for (int threads = 1; db->client->lean_lazy.name != NULL && threads <= 8; threads *= 8)
        json_array_append_new(pairs, compare_releases(db, threads, s));
    json_array_append_new(pairs, compare_default(db, s));
    json_object_set_new(out, "acquire_release", pairs);
    json_object_set_new(out, "hand_over", hand_over(db, s));
    json_object_set_new(out, "leases", hold(db, s));
    json_object_set_new(out, "instructions_of_a_pair", instructions(db, s));
    return out;
}
