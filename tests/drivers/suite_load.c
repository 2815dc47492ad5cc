/* Reaping and pruning while clients work: what it costs them. The short form is part of every run;
 * with SQLOCK_TEST_ROWS=1000000 (make reap-load) it is a measurement; p99 may at most double. */
#define SUITE_NEEDS (DEAD_ROWS | LEISURE)
#include "tests/drivers/suite_reap.h"

enum { CLIENTS = 8, NAMES = 16, CALLS_MAX = 2000000 };

/* While nobody reaps, and meanwhile. */
enum phase { ALONE, REAPING, PHASES };

struct client {
    sqlock *m;
    pthread_t thread;
    int number;
    unsigned seed;
    long rows;
    sqlock_error err; /* the first error that a call gave */
    size_t n[PHASES]; /* calls that were measured */
};

static struct client clients[CLIENTS];
static int32_t took_us[PHASES][CLIENTS][CALLS_MAX / CLIENTS];
static atomic_int phase, stopping;

static void note(struct client *c, int64_t begun, enum phase p)
{
    if (c->n[p] < CALLS_MAX / CLIENTS)
        took_us[p][c->number][c->n[p]++] = (int32_t)(now_us() - begun);
}

/* Mostly names of its own; now and then one whose holder died, and one that never was: they meet
 * the reaper on its rows and the creators at the floor. */
static void choose(struct client *c, long round, char *name, size_t size)
{
    int dice = rand_r(&c->seed) % 10;

    if (dice == 0)
        snprintf(name, size, "new/%d/%ld", c->number, round);
    else if (dice < 3)
        snprintf(name, size, "dead/%08ld", rand_r(&c->seed) % c->rows + 1);
    else
        snprintf(name, size, "own/%d/%d", c->number, rand_r(&c->seed) % NAMES);
}

static int work_once(struct client *c, const char *name)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), 0, SQLOCK_NO_RENEW);
    enum phase p = (enum phase)atomic_load(&phase);
    sqlock_lock *lock = NULL;
    int64_t begun = now_us();
    int rc = sqlock_acquire(c->m, name, &o, &lock, &c->err);

    note(c, begun, p);
    begun = now_us();
    if (rc == 0) {
        rc = sqlock_release(lock, &c->err);
        note(c, begun, p);
    }
    drop(lock);
    return rc;
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    char name[64];

    for (long i = 0; c->err.code == 0 && !atomic_load(&stopping); i++) {
        choose(c, i, name, sizeof name);
        if (work_once(c, name) != 0)
            break;
        sleep_ms(rand_r(&c->seed) % 4); /* a load, not a contest */
    }
    return NULL;
}

static void start_clients(struct world *w, long rows)
{
    atomic_store(&stopping, 0);
    atomic_store(&phase, ALONE);
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];

        *c = (struct client){.number = i, .seed = 11u + (unsigned)i, .rows = rows};
        c->m = open_manager(w, NULL);
        assert_int_equal(pthread_create(&c->thread, NULL, client_main, c), 0);
    }
}

static int by_size(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

struct spread {
    size_t n;
    int32_t p50, p99, p999, most;
};

static struct spread spread_of(enum phase p)
{
    static int32_t all[CALLS_MAX];
    size_t n = 0;

    for (int i = 0; i < CLIENTS; i++) {
        memcpy(all + n, took_us[p][i], clients[i].n[p] * sizeof *all);
        n += clients[i].n[p];
    }
    qsort(all, n, sizeof *all, by_size);
    if (n == 0)
        return (struct spread){0};
    return (struct spread){n, all[n / 2], all[n * 99 / 100], all[n * 999 / 1000], all[n - 1]};
}

static void print_spread(const struct world *w, const char *what, const char *when,
                         const struct spread *s)
{
    printf("%s-load %-8s %-10s %7zu calls: p50 %6.2f  p99 %6.2f  p99.9 %6.2f  most %6.2f ms\n",
           what, w->q->name, when, s->n, s->p50 / 1000.0, s->p99 / 1000.0, s->p999 / 1000.0,
           s->most / 1000.0);
}

static void stop_clients(void)
{
    atomic_store(&stopping, 1);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i].thread, NULL);
}

static int32_t from_env(const char *name, int32_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? (int32_t)strtol(text, NULL, 10) : otherwise;
}

/* One sweep with clients before, beside and behind it. */
static sqlock_reap_report sweep_beside_clients(struct world *w, sqlock *m, const char *what,
                                               const sqlock_reap_opts *o, int32_t rows)
{
    const int32_t calm_ms = rows >= 100000 ? 15000 : 500;
    sqlock_reap_report r = {.size = sizeof r};

    start_clients(w, rows);
    sleep_ms(calm_ms);
    atomic_store(&phase, REAPING);
    int rc = sqlock_reap(m, o, &r, &said);
    atomic_store(&phase, ALONE);
    sleep_ms(calm_ms);
    stop_clients();

    struct spread alone = spread_of(ALONE), reaping = spread_of(REAPING);
    print_spread(w, what, "alone", &alone);
    print_spread(w, what, "meanwhile", &reaping);
    printf("%s-load %-8s cleared %lld, pruned %lld of %d rows in %lld statements (%d rows, %d ms "
           "pause), %.1f s, the longest statement %.2f ms\n",
           what, w->q->name, (long long)r.cleared, (long long)r.pruned, (int)rows,
           (long long)r.batches, (int)o->batch, (int)o->pause_ms, (double)r.duration_us / 1e6,
           (double)r.longest_us / 1000.0);
    ok(rc);
    for (int i = 0; i < CLIENTS; i++)
        assert_ok(clients[i].err.code, &clients[i].err);
    /* what was not cleared, or pruned, had been taken by a client, and given back */
    assert_between(rows - (int64_t)(alone.n + reaping.n), r.cleared + r.pruned, rows);
    if (rows >= 100000)
        assert_between(0, reaping.p99, 2 * (int64_t)alone.p99);
    return r;
}

static sqlock_reap_opts load_opts(void)
{
    sqlock_reap_opts o = SQLOCK_REAP_OPTS_INIT;

    o.batch = from_env("SQLOCK_TEST_REAP_BATCH", o.batch);
    o.pause_ms = from_env("SQLOCK_TEST_REAP_PAUSE", o.pause_ms);
    return o;
}

TEST(test_reap_under_load_costs_clients_little_and_no_error, m)
{
    const int32_t rows = from_env("SQLOCK_TEST_ROWS", 3000);
    sqlock_reap_opts o = load_opts();

    w->q->leave(&w->place, rows);
    assert_int_equal(sweep_beside_clients(w, m, "reap", &o, rows).pruned, 0);
    o.flags = SQLOCK_REAP_DRY_RUN;
    assert_int_equal(reap(m, &o).cleared, 0);
}

/* The same rows, cleared long ago: each is deleted, and the floor is raised before. */
TEST(test_prune_under_load_costs_clients_little_and_no_error, m)
{
    const int32_t rows = from_env("SQLOCK_TEST_ROWS", 3000);
    sqlock_reap_opts o = load_opts();

    w->q->leave(&w->place, rows);
    assert_int_equal(reap_now(m).cleared, rows);
    age(w, 2 * o.idle_ms);
    assert_int_equal(sweep_beside_clients(w, m, "prune", &o, rows).cleared, 0);
    o.flags = SQLOCK_REAP_DRY_RUN;
    assert_int_equal(reap(m, &o).pruned, 0);
}
