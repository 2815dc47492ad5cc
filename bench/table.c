/* The table of a comparison: for the terminal, and as JSON. */
#include <stdio.h>

#include <jansson.h>

#include "bench.h"

static const struct column {
    const char *head, *key;
    size_t field;
    int width, decimals;
} columns[] = {
    {"pairs/s", "pairs_per_s", offsetof(struct bench_run, pairs_per_s), 8, 0},
    {"p50 us", "p50_us", offsetof(struct bench_run, p50_us), 7, 0},
    {"p99 us", "p99_us", offsetof(struct bench_run, p99_us), 7, 0},
    {"slow", "slowest_client", offsetof(struct bench_run, slowest), 5, 2},
    {"stmts", "statements", offsetof(struct bench_run, statements), 6, 2},
    {"commits", "commits", offsetof(struct bench_run, commits), 7, 2},
    {"cpu us", "client_cpu_us", offsetof(struct bench_run, client_cpu_us), 6, 0},
    {"server", "server_cpu_us", offsetof(struct bench_run, server_cpu_us), 6, 0},
};

#define COLUMNS (sizeof columns / sizeof *columns)

void bench_print_head(void)
{
    printf("%-9s %5s %-21s", "database", "n", "way");
    for (size_t i = 0; i < COLUMNS; i++)
        printf(" %*s", columns[i].width, columns[i].head);
    printf("   ratio\n");
}

/* What nobody knows is a dash, and null. */
static void print_value(const struct column *column, double value, json_t *out)
{
    if (value < 0)
        printf(" %*s", column->width, "-");
    else
        printf(" %*.*f", column->width, column->decimals, value);
    json_object_set_new(out, column->key, value < 0 ? json_null() : json_real(value));
}

/* Counted in the first run, and only there. */
static double value_of(const struct bench_comparison *c, int i, size_t field)
{
    if (field == offsetof(struct bench_run, statements))
        return c->all[i][0].statements;
    if (field == offsetof(struct bench_run, commits))
        return c->all[i][0].commits;
    return bench_spread(c, i, field).median;
}

static json_t *print_entry(const struct bench_comparison *c, int i)
{
    const struct bench_entry *e = &c->entries[i];
    json_t *out = json_pack("{s:s, s:i, s:i}", "way", e->way->name, "clients", e->clients,
                            "processes", e->processes);
    char n[16];

    snprintf(n, sizeof n, e->processes > 1 ? "%dx%d" : "%d", e->clients / e->processes,
             e->processes);
    printf("%-9s %5s %-21s", e->db->client != NULL ? e->db->name : "peer", n, e->way->name);
    for (size_t k = 0; k < COLUMNS; k++)
        print_value(&columns[k], value_of(c, i, columns[k].field), out);
    if (i > 0) {
        const struct bench_ratio r = BENCH_RATIO_TO(c, 0, i, pairs_per_s);

        printf("   %5.2f (%.2f to %.2f)", r.median, r.least, r.most);
        json_object_update_new(out, json_pack("{s:f, s:f, s:f, s:f}", "ratio", r.median,
                                              "ratio_least", r.least, "ratio_most", r.most,
                                              "p99_ratio", BENCH_RATIO_TO(c, 0, i, p99_us).median));
    }
    putchar('\n');
    return out;
}

json_t *bench_print(const struct bench_comparison *c)
{
    json_t *ways = json_array();

    for (int i = 0; i < c->n; i++)
        json_array_append_new(ways, print_entry(c, i));
    fflush(stdout);
    return json_pack("{s:i, s:i, s:o}", "runs", c->runs, "ms", c->ms, "ways", ways);
}
