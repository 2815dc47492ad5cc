/* What is measured on a database, beside the pairs of acquire and release. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "bench.h"

#define LEASE_MS         30000
#define LEASE_MS_OF_LOOK 3000

/* A SQLite database works in this process. So what the driver takes does not count there. */
static void figures_of_leases(const struct bench_db *db, const struct bench_leases *l)
{
    const char *database = db->name;
    const int inside = bench_is_sqlite(db);
    char text[80];

    snprintf(text, sizeof text, "%d leases: held to the end", l->leases);
    bench_figure(database, text, bench_single(l->held), BENCH_AT_LEAST, l->leases);
    if (l->leases < BENCH_LEASES)
        return;
    snprintf(text, sizeof text, "%d leases: %% of a core%s", l->leases,
             inside ? ", without SQLite's" : "");
    bench_figure(database, text, bench_single(100 * (inside ? l->cpu_outside : l->cpu)),
                 BENCH_AT_MOST, 2);
    snprintf(text, sizeof text, "%d leases: resident bytes of each", l->leases);
    bench_figure(database, text, bench_single(l->rss_bytes), BENCH_AT_MOST, 600);
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
    const int times = bench_is_look(s) ? 5 : 40;
    const struct bench_first f = bench_first_grant(db, 0, s->runs, times);
    const struct bench_first lean = bench_first_grant(db, 1, s->runs, times);
    json_t *out = print_first(db, &f, "open to first grant", "two bare logins",
                              strcmp(db->name, "postgres") == 0 ? 1.3 : 0);

    json_object_set_new(out, "lean",
                        print_first(db, &lean, "a login and the lean grant", "two bare logins", 0));
    return out;
}

static json_t *command(const struct bench_db *db, const struct bench_settings *s)
{
    const char *other = bench_is_sqlite(db) ? "sqlite3" : "psql";
    const double bar = bench_is_sqlite(db) ? 1.5 : 1.2;
    const int times = bench_is_look(s) ? 3 : 20;
    struct bench_first f = {0}, lean;
    json_t *out;

    if (strcmp(db->name, "mysql") == 0)
        return json_null();
    if (s->command != NULL)
        f = bench_command(db, s->command, 0, s->runs, times);
    if (f.us <= 0) {
        bench_figure(db->name, "sqlock run true", bench_single(-1), BENCH_AT_MOST, bar);
        printf("%-9s sqlock run: SKIPPED, there is no %s\n", db->name,
               s->command != NULL ? other : "command sqlock");
        return json_null();
    }
    out = print_first(db, &f, "sqlock run true", other, bar);
    lean = bench_command(db, s->command, 1, s->runs, times);
    json_object_set_new(
        out, "lean",
        print_first(db, &lean, "sqlock run true",
                    bench_is_sqlite(db) ? "sqlite3 with a lean lock" : "psql with a lean lock", 0));
    return out;
}

static json_t *many(const struct bench_db *db, const struct bench_settings *s)
{
    static const struct {
        int n;
        double postgres, mysql, sqlite;
    } lists[] = {{64, 40, 25, 20}, {512, 75, 50, 30}};
    json_t *out = json_array();

    for (int i = 0; i < (bench_is_look(s) ? 1 : 2); i++) {
        const struct bench_ratio r = bench_many(db, lists[i].n, s->runs);
        struct bench_ratio lean;
        char text[80];

        snprintf(text, sizeof text, "%d names: time of one by one, of at once", lists[i].n);
        bench_figure(db->name, text, r, BENCH_AT_LEAST,
                     bench_is_sqlite(db)                 ? lists[i].sqlite
                     : strcmp(db->name, "postgres") == 0 ? lists[i].postgres
                                                         : lists[i].mysql);
        lean = bench_lean_many(db, lists[i].n, s->runs);
        snprintf(text, sizeof text, "%d names: the same, lean", lists[i].n);
        bench_figure(db->name, text, lean, BENCH_NO_BAR, 0);
        json_array_append_new(out, json_pack("{s:i, s:f, s:f}", "names", lists[i].n, "ratio",
                                             r.median, "lean_ratio", lean.median));
    }
    return out;
}

static json_t *renew(const struct bench_db *db, const struct bench_settings *s)
{
    const struct bench_ratio r = bench_renew(db, s->runs), lean = bench_lean_renew(db, s->runs);
    char text[80];

    if (r.median <= 0) {
        bench_figure(db->name, "renewals at once", bench_single(-1), BENCH_AT_LEAST, 40);
        printf("%-9s renewals at once: SKIPPED, the machine is too busy for them\n", db->name);
        return json_null();
    }
    snprintf(text, sizeof text, "%d renewals: time of one by one, of at once", BENCH_RENEWED);
    bench_figure(db->name, text, r, BENCH_AT_LEAST, 40);
    snprintf(text, sizeof text, "%d renewals: the same, lean", BENCH_RENEWED);
    bench_figure(db->name, text, lean, BENCH_NO_BAR, 0);
    return json_pack("{s:i, s:f, s:f}", "leases", BENCH_RENEWED, "ratio", r.median, "lean_ratio",
                     lean.median);
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
                 bench_single(s->instructions), BENCH_AT_MOST, 7900);
    return json_pack("{s:f, s:f}", "core_and_driver", s->instructions, "process",
                     s->all_instructions);
}

/* In this order; the key is that of the JSON, and what --only chooses by. */
static const struct part {
    const char *key;
    json_t *(*measure)(const struct bench_db *db, const struct bench_settings *s);
} parts[] = {
    {"acquire_release", bench_measure_pairs},
    {"waiting", bench_measure_waiting},
    {"first_grant", first_grant},
    {"command", command},
    {"many_at_once", many},
    {"renewals_at_once", renew},
    {"leases", hold},
    {"instructions_of_a_pair", instructions},
};

json_t *bench_measure(const struct bench_db *db, const struct bench_settings *s)
{
    json_t *out = json_pack("{s:s}", "database", db->name);
    int measured = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (s->only != NULL && strcmp(s->only, parts[i].key) != 0)
            continue;
        json_object_set_new(out, parts[i].key, parts[i].measure(db, s));
        measured = 1;
    }
    if (!measured)
        bench_die("nothing here is called %s", s->only);
    return out;
}
