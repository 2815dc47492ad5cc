/* What is measured on a database. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "bench.h"

#define LEASE_MS         30000
#define LEASE_MS_OF_LOOK 3000

static int is_sqlite(const struct bench_db *db)
{
    return strcmp(db->name, "sqlite") == 0;
}

static int has_peers(const struct bench_db *db)
{
    return strcmp(db->name, "postgres") == 0;
}

static int is_look(const struct bench_settings *s)
{
    return s->ms < BENCH_LOOK_MS;
}

/* ---- acquire and release --------------------------------------------------------------------- */

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
    add(&p, db, db->client->bare, clients, 1);
    add(&p, db, &db->client->lean, clients, 1);
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
    const int loops = is_sqlite(db) && clients > 8 ? 1 : clients;
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
    const struct bench_settings once = {.runs = 1, .ms = is_look(s) ? s->ms : 4 * BENCH_LOOK_MS};
    struct plan p = {0};

    for (size_t i = 0; bench_peer(i) != NULL; i++)
        add(&p, &bench_peer(i)->db, bench_peer(i)->way, 8, 1);
    if (p.n > 0)
        bench_compare(&c, p.entries, p.n, &once);
}

static json_t *compare_pairs(const struct bench_db *db, const struct bench_settings *s)
{
    static const int clients[] = {1, 8, 64, 256};
    json_t *out = json_array();

    for (int n = 1; n <= 8; n *= 8)
        json_array_append_new(out, compare_connections(db, n, s));
    for (int n = 1; n <= 8 && db->client->lean_lazy.name != NULL; n *= 8)
        json_array_append_new(out, compare_releases(db, n, s));
    if (is_sqlite(db)) /* there is one writer, so more of them are no faster */
        json_array_append_new(out, compare_one(db, 8, 1, s));
    json_array_append_new(out, compare_one(db, 32, is_sqlite(db) ? 1 : 32, s));
    json_array_append_new(out, compare_alone(db, is_sqlite(db) ? 32 : 64, s));
    if (has_peers(db))
        warm_peers(s);
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
        for (int processes = 1; processes <= 4 && processes <= clients[i]; processes *= 4)
            json_array_append_new(out, compare_all(db, clients[i], processes, s));
    return out;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static json_t *hand_over(const struct bench_db *db, const struct bench_settings *s)
{
    struct bench_handover h = bench_hand_over(db, is_look(s) ? 20 : 200);

    printf("%-9s hand-over between two processes, %d times: p50 %.1f ms, p99 %.1f ms\n", db->name,
           h.times, h.p50_us / 1000, h.p99_us / 1000);
    return json_pack("{s:i, s:f, s:f}", "times", h.times, "p50_us", h.p50_us, "p99_us", h.p99_us);
}

static struct bench_ratio single(double value)
{
    return (struct bench_ratio){value, value, value};
}

/* A SQLite database works in this process. So what the driver takes does not count there. */
static void figures_of_leases(const struct bench_db *db, const struct bench_leases *l)
{
    const char *database = db->name;
    const int inside = is_sqlite(db);
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
    const int lease_ms = s->leases < BENCH_LEASES ? LEASE_MS_OF_LOOK : LEASE_MS;
    struct bench_leases l = bench_hold(db, s->leases, lease_ms, 2 * lease_ms / 3000);

    printf("%-9s %d leases of %d s: %.0f renewed a second, %.0f in a request of %.1f ms; "
           "%.2f %% of a core, %.2f %% outside of the driver; %.0f bytes of heap each, %.0f "
           "resident\n",
           db->name, l.leases, lease_ms / 1000, l.renewed_per_s, l.leases_per_batch, l.batch_ms,
           100 * l.cpu, 100 * l.cpu_outside, l.heap_bytes, l.rss_bytes);
    fflush(stdout);
    figures_of_leases(db, &l);
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "leases", l.leases,
                     "lease_ms", l.lease_ms, "held", l.held, "cores", l.cpu, "cores_outside_driver",
                     l.cpu_outside, "resident_bytes", l.rss_bytes, "heap_bytes", l.heap_bytes,
                     "renewed_per_s", l.renewed_per_s, "leases_per_request", l.leases_per_batch,
                     "request_ms", l.batch_ms);
}

static json_t *print_first(const struct bench_db *db, const struct bench_first *f, const char *what,
                           const char *other, double bar)
{
    char text[80];

    printf("%-9s %s: %.1f ms; %s: %.1f ms; ratio %.2f (%.2f to %.2f)\n", db->name, what,
           f->us / 1000, other, f->other_us / 1000, f->ratio.median, f->ratio.least, f->ratio.most);
    fflush(stdout);
    snprintf(text, sizeof text, "%s, of %s", what, other);
    bench_figure(db->name, text, f->ratio, bar > 0 ? BENCH_AT_MOST : BENCH_NO_BAR, bar);
    return json_pack("{s:f, s:f, s:f}", "us", f->us, "other_us", f->other_us, "ratio",
                     f->ratio.median);
}

static json_t *first_grant(const struct bench_db *db, const struct bench_settings *s)
{
    const struct bench_first f = bench_first_grant(db, s->runs, is_look(s) ? 5 : 40);

    return print_first(db, &f, "open to first grant", "two bare logins",
                       strcmp(db->name, "postgres") == 0 ? 1.3 : 0);
}

static json_t *command(const struct bench_db *db, const struct bench_settings *s)
{
    const char *other = is_sqlite(db) ? "sqlite3" : "psql";
    struct bench_first f = {0};

    if (strcmp(db->name, "mysql") == 0)
        return json_null();
    if (s->command != NULL)
        f = bench_command(db, s->command, s->runs, is_look(s) ? 3 : 20);
    if (f.us <= 0) {
        printf("%-9s sqlock run: SKIPPED, there is no %s\n", db->name,
               s->command != NULL ? other : "command sqlock");
        return json_null();
    }
    return print_first(db, &f, "sqlock run true", other, is_sqlite(db) ? 1.5 : 1.2);
}

static json_t *renew(const struct bench_db *db, const struct bench_settings *s)
{
    const struct bench_ratio r = bench_renew(db, s->runs);
    char text[80];

    if (r.median <= 0) {
        printf("%-9s renewals at once: SKIPPED, the machine is too busy for them\n", db->name);
        return json_null();
    }
    snprintf(text, sizeof text, "%d renewals: time of one by one, of at once", BENCH_RENEWED);
    bench_figure(db->name, text, r, BENCH_AT_LEAST, 40);
    return json_pack("{s:i, s:f}", "leases", BENCH_RENEWED, "ratio", r.median);
}

static json_t *instructions(const struct bench_db *db, const struct bench_settings *s)
{
    if (strcmp(db->name, "postgres") != 0)
        return json_null();
    if (s->instructions <= 0) {
        printf("%-9s instructions of a pair: SKIPPED, nothing could count them\n", db->name);
        return json_null();
    }
    bench_figure(db->name, "1 thread: instructions of a pair, core and driver",
                 single(s->instructions), BENCH_AT_MOST, 7900);
    return json_pack("{s:f, s:f}", "core_and_driver", s->instructions, "process",
                     s->all_instructions);
}

json_t *bench_measure(const struct bench_db *db, const struct bench_settings *s)
{
    json_t *out = json_pack("{s:s}", "database", db->name);

    json_object_set_new(out, "acquire_release", compare_pairs(db, s));
    json_object_set_new(out, "hand_over", hand_over(db, s));
    json_object_set_new(out, "first_grant", first_grant(db, s));
    json_object_set_new(out, "command", command(db, s));
    json_object_set_new(out, "renewals_at_once", renew(db, s));
    json_object_set_new(out, "leases", hold(db, s));
    json_object_set_new(out, "instructions_of_a_pair", instructions(db, s));
    return out;
}
