/* What the project has set itself for pairs of acquire and release. To add a goal, add a line. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define RATE offsetof(struct bench_run, pairs_per_s)
#define P99  offsetof(struct bench_run, p99_us)
#define SLOW offsetof(struct bench_run, slowest)

#define DURABLE     "sqlock, durable"
#define SWAP        "swap, durable"
#define ONE         "one manager"
#define ONE_DURABLE "one manager, durable"
#define LEAN        "lean loop"
#define LEAN_SWAP   "lean swap"
#define ALWAYS      "Redis, AOF always"

/* In one process, one way beside another one; without the other one, a figure of its own. */
static const struct goal {
    const char *database; /* whose manager it is */
    int clients;
    const char *way;
    const char *other;
    int others; /* clients of the other way; 0: as many */
    size_t field;
    enum bench_bar is;
    double bar;
} goals[] = {
    {"sqlite", 1, DURABLE, "our SQL in sqlite3", 0, RATE, BENCH_AT_LEAST, 0.90},
    {"sqlite", 8, DURABLE, "our SQL in sqlite3", 0, RATE, BENCH_AT_LEAST, 0.90},
    {"sqlite", 1, DURABLE, LEAN, 0, RATE, BENCH_AT_LEAST, 0.92},
    {"sqlite", 8, DURABLE, LEAN, 0, RATE, BENCH_AT_LEAST, 0.92},
    {"sqlite", 1, SWAP, DURABLE, 0, RATE, BENCH_AT_LEAST, 1.9},
    {"sqlite", 8, SWAP, DURABLE, 0, RATE, BENCH_AT_LEAST, 1.6},
    {"sqlite", 1, LEAN_SWAP, LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"sqlite", 8, LEAN_SWAP, LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"sqlite", 1, "shared", "sqlock", 0, RATE, BENCH_AT_LEAST, 1 / 1.5},
    {"sqlite", 8, "shared, one name", "shared", 0, RATE, BENCH_NO_BAR, 0},
    {"sqlite", 8, "shared, one name", NULL, 0, P99, BENCH_NO_BAR, 0},
    {"sqlite", 1, "sqlock", LEAN, 0, RATE, BENCH_AT_LEAST, 1.4},
    {"sqlite", 8, "sqlock", LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"sqlite", 1, "sqlock", "lean loop, lazy", 0, RATE, BENCH_NO_BAR, 0},
    {"sqlite", 8, "sqlock", "lean loop, lazy", 0, RATE, BENCH_NO_BAR, 0},
    {"sqlite", 8, ONE, LEAN, 1, RATE, BENCH_AT_LEAST, 3},
    {"sqlite", 32, ONE, LEAN, 1, RATE, BENCH_AT_LEAST, 5},
    {"sqlite", 32, ONE, "one manager, alone", 0, RATE, BENCH_AT_LEAST, 4},

    {"postgres", 1, DURABLE, "our SQL in libpq", 0, RATE, BENCH_AT_LEAST, 0.95},
    {"postgres", 8, DURABLE, "our SQL in libpq", 0, RATE, BENCH_AT_LEAST, 0.95},
    {"postgres", 1, DURABLE, LEAN, 0, RATE, BENCH_AT_LEAST, 0.90},
    {"postgres", 8, DURABLE, LEAN, 0, RATE, BENCH_AT_LEAST, 0.90},
    {"postgres", 1, SWAP, DURABLE, 0, RATE, BENCH_AT_LEAST, 1.9},
    {"postgres", 8, SWAP, DURABLE, 0, RATE, BENCH_AT_LEAST, 1.6},
    {"postgres", 1, LEAN_SWAP, LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, LEAN_SWAP, LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 1, "shared", "sqlock", 0, RATE, BENCH_AT_LEAST, 1 / 1.5},
    {"postgres", 64, "shared, one name", "shared", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, "shared, one name", NULL, 0, P99, BENCH_NO_BAR, 0},
    {"postgres", 1, "sqlock", LEAN, 0, RATE, BENCH_AT_LEAST, 1.25},
    {"postgres", 8, "sqlock", LEAN, 0, RATE, BENCH_AT_LEAST, 1.1},
    {"postgres", 1, "sqlock", "lean loop, lazy", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, "sqlock", "lean loop, lazy", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, ONE, LEAN, 0, RATE, BENCH_AT_LEAST, 1.2},
    {"postgres", 32, ONE, LEAN, 0, RATE, BENCH_AT_LEAST, 2.2},
    {"postgres", 64, ONE, LEAN, 0, RATE, BENCH_AT_LEAST, 3},
    {"postgres", 256, ONE, LEAN, 0, RATE, BENCH_AT_LEAST, 4},
    {"postgres", 64, ONE, LEAN, 0, P99, BENCH_AT_MOST, 0.3},
    {"postgres", 64, ONE, NULL, 0, SLOW, BENCH_AT_LEAST, 0.9},
    {"postgres", 64, ONE, "one manager, alone", 0, RATE, BENCH_AT_LEAST, 3},

    {"postgres", 1, ONE_DURABLE, ALWAYS, 0, RATE, BENCH_AT_LEAST, 1},
    {"postgres", 8, ONE_DURABLE, ALWAYS, 0, RATE, BENCH_AT_LEAST, 0.9},
    {"postgres", 64, ONE_DURABLE, ALWAYS, 0, RATE, BENCH_AT_LEAST, 0.9},
    {"postgres", 1, ONE, ALWAYS, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, ONE, ALWAYS, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, ONE, ALWAYS, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 1, LEAN, ALWAYS, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, LEAN, ALWAYS, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, LEAN, ALWAYS, 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 1, LEAN, "etcd", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, LEAN, "etcd", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, LEAN, "etcd", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 1, LEAN, "ZooKeeper", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, LEAN, "ZooKeeper", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, LEAN, "ZooKeeper", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 1, ONE, "etcd", 0, RATE, BENCH_AT_LEAST, 2},
    {"postgres", 8, ONE, "etcd", 0, RATE, BENCH_AT_LEAST, 2.2},
    {"postgres", 64, ONE, "etcd", 0, RATE, BENCH_AT_LEAST, 5.5},
    {"postgres", 1, ONE_DURABLE, "etcd", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, ONE_DURABLE, "etcd", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, ONE_DURABLE, "etcd", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 1, ONE, "ZooKeeper", 0, RATE, BENCH_AT_LEAST, 3},
    {"postgres", 8, ONE, "ZooKeeper", 0, RATE, BENCH_AT_LEAST, 4.5},
    {"postgres", 64, ONE, "ZooKeeper", 0, RATE, BENCH_AT_LEAST, 11},
    {"postgres", 1, ONE_DURABLE, "ZooKeeper", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 8, ONE_DURABLE, "ZooKeeper", 0, RATE, BENCH_NO_BAR, 0},
    {"postgres", 64, ONE_DURABLE, "ZooKeeper", 0, RATE, BENCH_NO_BAR, 0},

    {"mysql", 1, "shared", "sqlock", 0, RATE, BENCH_AT_LEAST, 1 / 1.5},
    {"mysql", 64, "shared, one name", "shared", 0, RATE, BENCH_NO_BAR, 0},
    {"mysql", 64, "shared, one name", NULL, 0, P99, BENCH_NO_BAR, 0},
    {"mysql", 1, DURABLE, "our SQL in libmariadb", 0, RATE, BENCH_AT_LEAST, 0.95},
    {"mysql", 8, DURABLE, "our SQL in libmariadb", 0, RATE, BENCH_AT_LEAST, 0.95},
    {"mysql", 1, DURABLE, LEAN, 0, RATE, BENCH_AT_LEAST, 0.85},
    {"mysql", 8, DURABLE, LEAN, 0, RATE, BENCH_AT_LEAST, 0.85},
    {"mysql", 1, SWAP, DURABLE, 0, RATE, BENCH_AT_LEAST, 1.9},
    {"mysql", 8, SWAP, DURABLE, 0, RATE, BENCH_AT_LEAST, 1.6},
    {"mysql", 1, LEAN_SWAP, LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"mysql", 8, LEAN_SWAP, LEAN, 0, RATE, BENCH_NO_BAR, 0},
    {"mysql", 64, ONE, LEAN, 0, RATE, BENCH_AT_LEAST, 2.5},
    {"mysql", 64, ONE, "one manager, alone", 0, RATE, BENCH_AT_LEAST, 3},
};

#define GOALS (sizeof goals / sizeof *goals)

static int find(const struct bench_comparison *c, const char *way, int clients)
{
    for (int i = 0; i < c->n; i++) {
        const struct bench_entry *e = &c->entries[i];

        if (strcmp(e->way->name, way) == 0 && e->clients == clients && e->processes == 1)
            return i;
    }
    return -1;
}

static void say(const struct goal *g, struct bench_ratio value)
{
    char text[80], others[32] = "";

    if (g->others > 0)
        snprintf(others, sizeof others, " with %d client%s", g->others, g->others > 1 ? "s" : "");
    snprintf(text, sizeof text, "%d client%s: %s%s%s%s%s", g->clients, g->clients > 1 ? "s" : "",
             g->way,
             g->field == P99    ? ": p99"
             : g->field == SLOW ? ": slowest client, of the mean"
                                : "",
             g->other != NULL  ? ", of "
             : g->field == P99 ? " in us"
                               : "",
             g->other != NULL ? g->other : "", others);
    bench_figure(g->database, text, value, g->is, g->bar);
}

static struct bench_ratio values[GOALS];
static int is_known[GOALS];

void bench_judge(const struct bench_db *db, const struct bench_comparison *c)
{
    for (size_t n = 0; n < GOALS; n++) {
        const struct goal *g = &goals[n];
        const int i = find(c, g->way, g->clients);
        const int k =
            g->other != NULL ? find(c, g->other, g->others > 0 ? g->others : g->clients) : i;

        if (is_known[n] || strcmp(g->database, db->name) != 0 || i < 0 || k < 0)
            continue; /* two comparisons may have both ways: the first one counts */
        is_known[n] = 1;
        values[n] =
            g->other != NULL ? bench_ratio_to(c, i, k, g->field) : bench_spread(c, i, g->field);
    }
}

void bench_goals(const struct bench_db *db)
{
    const struct bench_ratio unknown = {-1, -1, -1};

    for (size_t n = 0; n < GOALS; n++)
        if (strcmp(goals[n].database, db->name) == 0 &&
            (is_known[n] || goals[n].is != BENCH_NO_BAR))
            say(&goals[n], is_known[n] ? values[n] : unknown);
}
