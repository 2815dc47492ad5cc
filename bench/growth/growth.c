/* make growth: what pairs of acquire and release cost on large tables, and after long churn.
 *
 *   growth migrate NAME=URL PREFIX...
 *   growth turns NAME=URL --threads N --connections N --seconds N PREFIX:NAMES...
 *   growth churn NAME=URL --threads N --connections N --seconds N PREFIX:NAMES [URL/PREFIX:NAMES]
 *
 * turns: the tables take turns of TURN_US. A line for each: names, pairs a second, and the ratio to
 *        the first table in the same round, medians; and the quartiles of that ratio.
 * churn: work on one table. With another URL, a fifth of the time goes to that table, the pacer: it
 *        shows the machine's pace. A line for each, with the pairs a second in each tenth of the
 * time, and the ratio of the last to the first; and the table's ratio, as a part of the pacer's. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/migrate.h>
#ifdef BENCH_HAVE_SQLITE
#include <sqlock/sqlite.h>
#endif
#ifdef BENCH_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef BENCH_HAVE_MYSQL
#include <sqlock/mysql.h>
#endif

#include "pace.h"

#define TURN_US    200000
#define TABLES_MAX 8
#define ROUNDS_MAX 4096
#define WINDOWS    10

struct settings {
    const sqlock_driver *driver;
    const char *url;
    int threads, connections, seconds;
};

static const struct {
    const char *name;
    const sqlock_driver *(*driver)(void);
} drivers[] = {
#ifdef BENCH_HAVE_SQLITE
    {"sqlite", sqlock_driver_sqlite},
#endif
#ifdef BENCH_HAVE_POSTGRES
    {"postgres", sqlock_driver_postgres},
#endif
#ifdef BENCH_HAVE_MYSQL
    {"mysql", sqlock_driver_mysql},
#endif
};

static void read_database(struct settings *s, char *text)
{
    char *eq = strchr(text, '=');

    if (eq == NULL)
        pace_die("%s is not NAME=URL", text);
    *eq = '\0';
    s->url = eq + 1;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (strcmp(drivers[i].name, text) == 0)
            s->driver = drivers[i].driver();
    if (s->driver == NULL)
        pace_die("there is no database called %s here", text);
}

static void migrate(const struct settings *s, char **prefixes, int n)
{
    for (int i = 0; i < n; i++) {
        sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
        sqlock_error err;

        o.prefix = prefixes[i];
        if (sqlock_migrate(s->driver, s->url, &o, NULL, &err) != 0)
            pace_die("%s", err.text);
    }
}

static void open_table(struct pace *p, const struct settings *s, const char *url, char *text)
{
    char *colon = strrchr(text, ':');

    if (colon == NULL)
        pace_die("%s is not PREFIX:NAMES", text);
    *colon = '\0';
    *p = (struct pace){.prefix = text, .names = atoll(colon + 1), .threads = s->threads};
    if (p->names < p->threads)
        pace_die("%lld names are too few for %d threads", p->names, p->threads);
    pace_open(p, s->driver, url, s->connections);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value behind which so many quarters of all come. */
static double quartile(const double *values, int n, int quarters)
{
    static double sorted[ROUNDS_MAX];

    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return sorted[n * quarters / 4];
}

static void turns(const struct settings *s, char **texts, int n)
{
    static double rates[TABLES_MAX][ROUNDS_MAX], ratios[ROUNDS_MAX];
    struct pace tables[TABLES_MAX];
    int rounds = (int)(s->seconds * 1000000LL / TURN_US);

    if (n > TABLES_MAX || rounds > ROUNDS_MAX || rounds < 1)
        pace_die("too many tables or seconds");
    for (int i = 0; i < n; i++)
        open_table(&tables[i], s, s->url, texts[i]);
    for (int k = -1; k < rounds; k++) /* the first one warms up */
        for (int i = 0; i < n; i++) {
            const int turn = (i + k + 1) % n;

            pace_turn(&tables[turn], TURN_US);
            rates[turn][k < 0 ? 0 : k] = pace_rate(&tables[turn]);
        }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < rounds; k++)
            ratios[k] = rates[i][k] / rates[0][k];
        printf("%10lld names %9.0f pairs/s, ratio %.3f (%.3f to %.3f)\n", tables[i].names,
               quartile(rates[i], rounds, 2), quartile(ratios, rounds, 2),
               quartile(ratios, rounds, 1), quartile(ratios, rounds, 3));
        pace_close(&tables[i]);
    }
}

static double ratio(const double rates[WINDOWS])
{
    return rates[WINDOWS - 1] / rates[0];
}

static void print_rates(const char *what, const double rates[WINDOWS])
{
    printf("%s last to first %.3f:", what, ratio(rates));
    for (int i = 0; i < WINDOWS; i++)
        printf(" %.0f", rates[i]);
    printf(" pairs/s\n");
}

static void churn(const struct settings *s, char **texts, int n)
{
    char *slash = n > 1 ? strrchr(texts[1], '/') : NULL;
    struct pace table, pacer;
    double rates[WINDOWS], paces[WINDOWS];

    open_table(&table, s, s->url, texts[0]);
    if (slash != NULL) {
        *slash = '\0';
        open_table(&pacer, s, texts[1], slash + 1);
        pace_turn(&pacer, TURN_US);
        pace_rate(&pacer);
    }
    for (int i = 0; i < WINDOWS; i++) {
        const int64_t until = sqlock_now_us() + s->seconds * 1000000LL / WINDOWS;

        do {
            pace_turn(&table, TURN_US * 4);
            if (slash != NULL)
                pace_turn(&pacer, TURN_US);
        } while (sqlock_now_us() < until);
        rates[i] = pace_rate(&table);
        if (slash != NULL)
            paces[i] = pace_rate(&pacer);
    }
    print_rates("the table,", rates);
    pace_close(&table);
    if (slash == NULL)
        return;
    print_rates("the pacer,", paces);
    printf("of the pacer's %.3f\n", ratio(rates) / ratio(paces));
    pace_close(&pacer);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"threads", required_argument, NULL, 't'},
                                            {"connections", required_argument, NULL, 'c'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    struct settings s = {.threads = 1, .seconds = 5};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 't')
            s.threads = atoi(optarg);
        else if (c == 'c')
            s.connections = atoi(optarg);
        else if (c == 's')
            s.seconds = atoi(optarg);
        else
            exit(64);
    }
    if (argc - optind < 3 || s.threads < 1 || s.threads > PACE_THREADS_MAX || s.seconds < 1)
        pace_die("usage: growth migrate|turns|churn NAME=URL [OPTION...] PREFIX:NAMES...");
    read_database(&s, argv[optind + 1]);
    argv += optind;
    argc -= optind;
    if (strcmp(argv[0], "migrate") == 0)
        migrate(&s, argv + 2, argc - 2);
    else if (strcmp(argv[0], "turns") == 0)
        turns(&s, argv + 2, argc - 2);
    else
        churn(&s, argv + 2, argc - 2);
    return 0;
}
