/* The same sale in all ways, and a table of what came of it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/migrate.h>

#include "ways.h"

#define STOCK       80
#define WORKERS     6
#define ORDERS_EACH 60

static const struct way {
    const char *name;
    sell_fn *sell;
    int right;
    int stops; /* one seller stands still for longer than a lease */
} ways[] = {
    {"overwrite from memory", sell_from_memory, 0, 0},
    {"look, then decrement", sell_after_a_look, 0, 0},
    {"release before commit", sell_after_the_release, 0, 0},
    {"lease, a holder paused", sell_under_lease_alone, 0, 1},
    {"lease", sell_under_lease, 1, 0},
    {"lease and guard, paused", sell_behind_guard, 1, 1},
    {"FOR UPDATE", sell_behind_row_lock, 1, 0},
    {"version, compare and set", sell_by_version, 1, 0},
    {"striped stock", sell_from_stripe, 1, 0},
};

static const struct way *now_playing;

static sqlock *open_manager(const char *url)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;

    opts.request_ms = 20000;
    if (sqlock_open(market.driver(), url, &opts, &m, &err) != 0)
        die("%s", err.text);
    return m;
}

static void work(struct crew *c, int me, const char *url)
{
    struct seller s = {.me = me, .db = market.open(url), .m = open_manager(url), .crew = c};
    sqlock_error err = {0};

    if (market.adopt(s.m, s.db, &s.conn, &err) != 0)
        die("%s", err.text);
    srand((unsigned)me + 1);
    crew_wait_go(c, me);
    for (int i = 0; i < ORDERS_EACH; i++) {
        enum sold out;

        while ((out = now_playing->sell(&s)) == AGAIN || out == CONFLICT) {
            atomic_fetch_add(&c->note[me].conflicts, out == CONFLICT);
            atomic_fetch_add(&c->note[me].retries, 1);
        }
        s.sales += out == SOLD;
        atomic_fetch_add(&c->note[me].orders, 1);
        pause_ms(1 + rand() % 3); /* until the next customer comes */
    }
    sqlock_conn_free(s.conn);
    sqlock_close(s.m);
    market.close(s.db);
}

/* Let the one that stands still go on when its lease has run out. */
static void wake_the_stuck_one(struct crew *c)
{
    const int64_t patience = now_ms() + CREW_PATIENCE_MS;
    int stuck;

    while ((stuck = atomic_load(c->stuck)) == 0) {
        pause_ms(5);
        if (now_ms() > patience)
            die("no process has come to stand still");
    }
    pause_ms(3 * LEASE_MS);
    kill(c->pid[stuck - 1], SIGCONT);
}

/* What came of it. */
struct result {
    long sold;
    int over, conflicts, retries, failed;
    int64_t took_ms;
};

static struct result play(const struct way *way, const char *url)
{
    struct result r = {0};
    struct crew crew;
    void *db = market.open(url);

    market_fill(db, STOCK);
    market.close(db); /* before the fork */
    now_playing = way;
    crew_start(&crew, WORKERS, work, url);
    r.took_ms = -now_ms();
    if (way->stops)
        wake_the_stuck_one(&crew);
    r.failed = crew_wait_end(&crew);
    r.took_ms += now_ms();
    for (int i = 0; i < crew.size; i++) {
        r.conflicts += atomic_load(&crew.note[i].conflicts);
        r.retries += atomic_load(&crew.note[i].retries);
    }
    db = market.open(url);
    r.sold = market_sold(db);
    market.close(db);
    r.over = r.sold > STOCK ? (int)(r.sold - STOCK) : 0;
    return r;
}

/* A mistake need not show each time: chance may have kept the sellers apart. */
static int show(const struct way *way, const char *url)
{
    struct result r = play(way, url);
    int as_promised;

    for (int i = 0; i < 4 && !way->right && r.over == 0 && r.failed == 0; i++)
        r = play(way, url);
    as_promised = r.failed == 0 && (way->right ? r.sold == STOCK : r.over > 0);
    printf("%-26s  %6ld  %8d  %9d  %7d  %5.1f s%s\n", way->name, r.sold, r.over, r.conflicts,
           r.retries, (double)r.took_ms / 1000, as_promised ? "" : "   NOT AS PROMISED");
    return as_promised;
}

static void prepare(const char *url)
{
    sqlock_error err = {0};
    void *db;

    if (sqlock_migrate(market.driver(), url, NULL, NULL, &err) != 0)
        die("%s", err.text);
    db = market.open(url);
    market_make(db);
    market.close(db);
}

/* argv[1]: a URL; without it, a file of its own. */
int main(int argc, char **argv)
{
    const char *path = crew_folder();
    char own[300];
    int ok = 1;

    snprintf(own, sizeof own, "sqlite:%s", path);
    setvbuf(stdout, NULL, _IOLBF, 0);
    prepare(argc > 1 ? argv[1] : own);
    printf("The same sale in several ways on %s: %d units, %d orders by %d processes.\n\n",
           market.name, STOCK, WORKERS * ORDERS_EACH, WORKERS);
    printf("%-26s  %6s  %8s  %9s  %7s  %7s\n", "way", "sold", "oversold", "conflicts", "retries",
           "time");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ok &= show(&ways[i], argc > 1 ? argv[1] : own);
    printf("\n%s\n", ok ? "As promised." : "NOT AS PROMISED.");
    return ok ? 0 : 1;
}
