/* make bench: what a lock costs, beside what the database alone costs.
 *
 *   bench [--runs N] [--ms N] [--leases N] [--instructions OURS/ALL] [--json FILE] NAME=URL...
 *   bench --pairs N NAME=URL
 *
 * Tables on stdout, the same figures in FILE. The second form makes N pairs on one thread, and
 * measures nothing: instructions.sh counts what they take. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sqlock/migrate.h>

#include "bench.h"
#include "core/sql/texts.h"

#define LEASES_OF_LOOK 1000

static const struct bench_client *const clients[] = {
#ifdef BENCH_HAVE_SQLITE
    &bench_sqlite,
#endif
#ifdef BENCH_HAVE_POSTGRES
    &bench_postgres,
#endif
#ifdef BENCH_HAVE_MYSQL
    &bench_mysql,
#endif
    NULL,
};

static const struct bench_client *find_client(const char *name, size_t len)
{
    for (const struct bench_client *const *c = clients; *c != NULL; c++)
        if (strlen((*c)->database) == len && memcmp((*c)->database, name, len) == 0)
            return *c;
    bench_die("there is no database called %.*s here", (int)len, name);
}

static json_t *visit(const char *url, const struct bench_client *client,
                     const struct bench_settings *s)
{
    struct bench_db db = {.url = url, .driver = client->driver(), .client = client};
    struct texts *texts = NULL;
    sqlock_error err;
    json_t *out = NULL;

    if (client->create != NULL)
        client->create(url);
    if (sqlock_migrate(db.driver, url, NULL, NULL, &err) != 0 ||
        texts_render(db.driver->dialect, NULL, NULL, &texts, &err) != 0)
        bench_die("%s", err.text);
    db.scripts = texts_scripts(texts);
    if (s->pairs > 0)
        bench_pairs(&db, s->pairs);
    else
        out = bench_measure(&db, s);
    texts_free(texts);
    return out;
}

static void read_options(int argc, char **argv, struct bench_settings *s)
{
    static const struct option options[] = {{"runs", required_argument, NULL, 'r'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"leases", required_argument, NULL, 'l'},
                                            {"pairs", required_argument, NULL, 'p'},
                                            {"instructions", required_argument, NULL, 'i'},
                                            {"json", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'r')
            s->runs = atoi(optarg);
        else if (c == 'm')
            s->ms = atoi(optarg);
        else if (c == 'l')
            s->leases = atoi(optarg);
        else if (c == 'p')
            s->pairs = atoi(optarg);
        else if (c == 'i')
            sscanf(optarg, "%lf/%lf", &s->instructions, &s->all_instructions);
        else if (c == 'j')
            s->json = optarg;
        else
            exit(64);
    }
    if (s->leases == 0)
        s->leases = s->ms < BENCH_LOOK_MS ? LEASES_OF_LOOK : BENCH_LEASES;
    if (s->runs < 1 || s->runs > BENCH_RUNS_MAX || s->ms < 10 || s->leases < 1 || optind == argc)
        bench_die("usage: bench [--runs 1..%d] [--ms 10..] [--leases N] [--json FILE] NAME=URL...",
                  BENCH_RUNS_MAX);
}

static void print_head(const struct bench_settings *s)
{
    if (s->pairs > 0)
        return;
    printf(
        "acquire and release, each thread its own lock; medians of %d runs of %d ms each way,\n"
        "run in turns. ratio: of the first way to this one, the median of the %d, with the least\n"
        "and the most. slowest: the pairs of the slowest thread, of the mean\n\n"
        "database  threads  way                    pairs/s  p50 us  p99 us cpu us slowest   "
        "ratio\n",
        s->runs, s->ms, s->runs);
}

int main(int argc, char **argv)
{
    struct bench_settings s = {.runs = 5, .ms = 2000};
    json_t *all = json_object(), *databases = json_array();

    read_options(argc, argv, &s);
    print_head(&s);
    for (int i = optind; i < argc; i++) {
        const char *eq = strchr(argv[i], '=');

        if (eq == NULL)
            bench_die("%s is not NAME=URL", argv[i]);
        json_array_append_new(databases,
                              visit(eq + 1, find_client(argv[i], (size_t)(eq - argv[i])), &s));
    }
    json_object_set_new(all, "databases", databases);
    if (s.pairs == 0)
        json_object_set_new(all, "figures", bench_figures());
    if (s.json != NULL && json_dump_file(all, s.json, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0)
        bench_die("%s cannot be written", s.json);
    json_decref(all);
    return 0;
}
