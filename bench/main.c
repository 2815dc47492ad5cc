/* make bench: acquire and release against a bare loop of the same statements, hand-over, renewals.
 *
 *   bench [--runs N] [--ms N] [--json FILE] NAME=URL...
 *
 * A table on stdout, the same figures in FILE. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sqlock/migrate.h>

#include "bench.h"
#include "core/sql/texts.h"

static const struct bench_way *const bare_ways[] = {
#ifdef BENCH_HAVE_SQLITE
    &bench_bare_sqlite,
#endif
#ifdef BENCH_HAVE_POSTGRES
    &bench_bare_postgres,
#endif
#ifdef BENCH_HAVE_MYSQL
    &bench_bare_mysql,
#endif
    NULL,
};

struct settings {
    int runs, ms;
    const char *json;
};

static const struct bench_way *find_bare(const char *name, size_t len)
{
    for (const struct bench_way *const *way = bare_ways; *way != NULL; way++)
        if (strlen((*way)->database) == len && memcmp((*way)->database, name, len) == 0)
            return *way;
    bench_die("there is no database called %.*s here", (int)len, name);
}

static json_t *json_run(const struct bench_run *run)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "pairs_per_s", run->pairs_per_s, "p50_us", run->p50_us,
                     "p99_us", run->p99_us, "cpu_us", run->cpu_us);
}

static json_t *compare(const struct bench_db *db, int threads, const struct settings *s)
{
    struct bench_ratio r = bench_compare(db, threads, s->runs, s->ms);

    printf("%-9s %7d  %8.0f %7.0f %7.0f %6.0f  %8.0f %7.0f %7.0f %6.0f   %4.2f  (%4.2f to %4.2f)\n",
           db->name, threads, r.ours.pairs_per_s, r.ours.p50_us, r.ours.p99_us, r.ours.cpu_us,
           r.bare.pairs_per_s, r.bare.p50_us, r.bare.p99_us, r.bare.cpu_us, r.ratio, r.ratio_low,
           r.ratio_high);
    fflush(stdout);
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:f, s:f, s:f}", "threads", threads, "runs", r.runs,
                     "ms", s->ms, "sqlock", json_run(&r.ours), "bare", json_run(&r.bare), "ratio",
                     r.ratio, "ratio_least", r.ratio_low, "ratio_most", r.ratio_high);
}

static json_t *hand_over(const struct bench_db *db, const struct settings *s)
{
    struct bench_handover h = bench_hand_over(db, s->ms < 1000 ? 20 : 200);

    printf("%-9s hand-over between two processes, %d times: p50 %.1f ms, p99 %.1f ms\n", db->name,
           h.times, h.p50_us / 1000, h.p99_us / 1000);
    return json_pack("{s:i, s:f, s:f}", "times", h.times, "p50_us", h.p50_us, "p99_us", h.p99_us);
}

static json_t *renew(const struct bench_db *db, const struct settings *s)
{
    struct bench_renewals r = bench_renew(db, 1000, s->ms < 1000 ? 3 : 10);

    printf("%-9s %d leases renewed each second: %.1f requests of %.0f leases, %.1f ms each, "
           "%.1f ms of CPU\n",
           db->name, r.leases, (double)r.requests / r.rounds, r.leases_per_batch, r.batch_ms,
           r.cpu_ms_per_round);
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f}", "leases", r.leases, "rounds", r.rounds,
                     "requests", r.requests, "leases_per_request", r.leases_per_batch, "request_ms",
                     r.batch_ms, "cpu_ms_per_round", r.cpu_ms_per_round);
}

static json_t *measure(const char *url, const struct bench_way *bare, const struct settings *s)
{
    struct bench_db db = {bare->database, url, bare->driver(), NULL, bare};
    struct texts *texts = NULL;
    sqlock_error err;
    json_t *pairs = json_array(), *out;

    if (bare->create != NULL)
        bare->create(url);
    if (sqlock_migrate(db.driver, url, NULL, NULL, &err) != 0 ||
        texts_render(db.driver->dialect, NULL, NULL, &texts, &err) != 0)
        bench_die("%s", err.text);
    db.scripts = texts_scripts(texts);
    json_array_append_new(pairs, compare(&db, 1, s));
    json_array_append_new(pairs, compare(&db, 8, s));
    out = json_pack("{s:s, s:o, s:o, s:o}", "database", bare->database, "acquire_release", pairs,
                    "hand_over", hand_over(&db, s), "renewals", renew(&db, s));
    texts_free(texts);
    return out;
}

static void read_options(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {{"runs", required_argument, NULL, 'r'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"json", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'r')
            s->runs = atoi(optarg);
        else if (c == 'm')
            s->ms = atoi(optarg);
        else if (c == 'j')
            s->json = optarg;
        else
            exit(64);
    }
    if (s->runs < 1 || s->runs > BENCH_PAIRS_MAX || s->ms < 10 || optind == argc)
        bench_die("usage: bench [--runs 1..%d] [--ms 10..] [--json FILE] NAME=URL...",
                  BENCH_PAIRS_MAX);
}

int main(int argc, char **argv)
{
    struct settings s = {5, 2000, NULL};
    json_t *all = json_array();

    read_options(argc, argv, &s);
    printf("acquire and release, each thread its own lock; medians of %d runs of %d ms each way,\n"
           "run in turns; the ratio is the median of the %d, with the least and the most\n\n"
           "                    sqlock                             bare loop\n"
           "database  threads   pairs/s  p50 us  p99 us cpu us   pairs/s  p50 us  p99 us cpu us  "
           "ratio\n",
           s.runs, s.ms, s.runs);
    for (int i = optind; i < argc; i++) {
        const char *eq = strchr(argv[i], '=');

        if (eq == NULL)
            bench_die("%s is not NAME=URL", argv[i]);
        json_array_append_new(all, measure(eq + 1, find_bare(argv[i], (size_t)(eq - argv[i])), &s));
    }
    if (s.json != NULL && json_dump_file(all, s.json, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0)
        bench_die("%s cannot be written", s.json);
    json_decref(all);
    return 0;
}
