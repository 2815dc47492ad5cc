/* What is measured of acquire and release: which ways, beside which, with how many clients. */
#include <string.h>

#include <jansson.h>

#include "bench.h"

static int has_peers(const struct bench_db *db)
{
    return strcmp(db->name, "postgres") == 0;
}

/* Entries of a comparison, while it is put together. */
struct plan {
    struct bench_entry entries[BENCH_ENTRIES_MAX];
    int n;
};

static void add(struct plan *p, const struct bench_db *db, const struct bench_way *way, int clients,
                int processes)
{
    if (way->name == NULL) /* the database cannot */
        return;
    if (p->n == BENCH_ENTRIES_MAX)
        bench_die("too many ways at once");
    p->entries[p->n++] = (struct bench_entry){db, way, clients, processes};
}

static json_t *compare(const struct bench_db *db, const struct plan *p,
                       const struct bench_settings *s)
{
    static struct bench_comparison c;

    bench_compare(&c, p->entries, p->n, s);
    bench_judge(db, &c);
    return bench_print(&c);
}

/* A connection for each thread. All wait for the disk at each release. */
static json_t *compare_connections(const struct bench_db *db, int clients,
                                   const struct bench_settings *s)
{
    struct plan p = {0};

    add(&p, db, &bench_sqlock_durable, clients, 1);
    add(&p, db, &bench_swap, clients, 1);
    add(&p, db, db->client->bare, clients, 1);
    add(&p, db, &db->client->lean, clients, 1);
    add(&p, db, &db->client->lean_swap, clients, 1);
    return compare(db, &p, s);
}

/* The same with releases that do not wait for the disk, as sqlock's do by default. */
static json_t *compare_releases(const struct bench_db *db, int clients,
                                const struct bench_settings *s)
{
    struct plan p = {0};

    add(&p, db, &bench_sqlock, clients, 1);
    add(&p, db, &db->client->lean, clients, 1);
    add(&p, db, &db->client->lean_lazy, clients, 1);
    return compare(db, &p, s);
}

/* Shared locks beside exclusive ones. A seat is granted under the lock of its name's row, so
 * readers of one name come one after the other: each waits for the statements of the others, and
 * for no lease. */
static json_t *compare_shared(const struct bench_db *db, int clients,
                              const struct bench_settings *s)
{
    struct plan p = {0};

    add(&p, db, &bench_shared, clients, 1);
    add(&p, db, &bench_readers, clients, 1);
    add(&p, db, &bench_sqlock, clients, 1);
    return compare(db, &p, s);
}

/* All threads through one manager with default options, beside lean connections. */
static json_t *compare_one(const struct bench_db *db, int clients, int lean_clients,
                           const struct bench_settings *s)
{
    struct plan p = {0};

    add(&p, db, &bench_one, clients, 1);
    add(&p, db, &db->client->lean, lean_clients, 1);
    return compare(db, &p, s);
}

/* The same beside requests that go out one by one. */
static json_t *compare_alone(const struct bench_db *db, int clients, const struct bench_settings *s)
{
    struct plan p = {0};

    add(&p, db, &bench_one, clients, 1);
    add(&p, db, &bench_one_alone, clients, 1);
    return compare(db, &p, s);
}

/* All that locks, in one process or several. Many writers of SQLite do nothing but wait for each
 * other, for seconds: one of them stands for them. */
static json_t *compare_all(const struct bench_db *db, int clients, int processes,
                           const struct bench_settings *s)
{
    const int loops = bench_is_sqlite(db) && clients > 8 ? 1 : clients;
    struct plan p = {0};

    add(&p, db, &bench_one, clients, processes);
    if (db->client->lean_lazy.name != NULL) /* it has releases that do not wait */
        add(&p, db, &bench_one_durable, clients, processes);
    add(&p, db, &db->client->lean, loops, loops < clients ? 1 : processes);
    add(&p, db, db->client->bare, loops, loops < clients ? 1 : processes);
    add(&p, db, &db->client->advisory, clients, processes);
    for (size_t i = 0; has_peers(db) && bench_peer(i) != NULL; i++)
        add(&p, &bench_peer(i)->db, bench_peer(i)->way, clients, processes);
    return compare(db, &p, s);
}

/* A server in Java is slow until it has compiled what it runs. */
static void warm_peers(const struct bench_settings *s)
{
    static struct bench_comparison c;
    const struct bench_settings once = {.runs = 1,
                                        .ms = bench_is_look(s) ? s->ms : 4 * BENCH_LOOK_MS};
    struct plan p = {0};

    for (size_t i = 0; bench_peer(i) != NULL; i++)
        add(&p, &bench_peer(i)->db, bench_peer(i)->way, 8, 1);
    if (p.n > 0)
        bench_compare(&c, p.entries, p.n, &once);
}

json_t *bench_measure_pairs(const struct bench_db *db, const struct bench_settings *s)
{
    static const int clients[] = {1, 8, 64, 256};
    json_t *out = json_array();

    for (int n = 1; n <= 8; n *= 8)
        json_array_append_new(out, compare_connections(db, n, s));
    for (int n = 1; n <= 8 && db->client->lean_lazy.name != NULL; n *= 8)
        json_array_append_new(out, compare_releases(db, n, s));
    json_array_append_new(out, compare_shared(db, 1, s));
    json_array_append_new(out, compare_shared(db, bench_is_sqlite(db) ? 8 : 64, s));
    if (bench_is_sqlite(db)) /* there is one writer, so more of them are no faster */
        json_array_append_new(out, compare_one(db, 8, 1, s));
    json_array_append_new(out, compare_one(db, 32, bench_is_sqlite(db) ? 1 : 32, s));
    json_array_append_new(out, compare_alone(db, bench_is_sqlite(db) ? 32 : 64, s));
    if (has_peers(db))
        warm_peers(s);
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
        for (int processes = 1; processes <= 4 && processes <= clients[i]; processes *= 4)
            json_array_append_new(out, compare_all(db, clients[i], processes, s));
    bench_goals(db);
    return out;
}
