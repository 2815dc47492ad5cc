/* The table of the lean loops; and what the lean statements take where sqlock sends one request for
 * many locks, or the first of a session. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define NAMES_MAX (2 * BENCH_CLIENTS_MAX)
#define LIST_SIZE (NAMES_MAX * 16)

/* 'bench 0', 'bench 1' and so on, or another word, each with what stands around it. */
static void list(char *out, const char *word, const char *before, int n, const char *after)
{
    size_t len = 0;

    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, LIST_SIZE - len, "%s%s'%s %d'%s", i > 0 ? ", " : "",
                                before, word, i, after);
}

void bench_lean_prepare(const struct bench_db *db, int clients)
{
    char sql[BENCH_LEAN_TEXT] = "INSERT INTO bench_lean (name) VALUES ";

    list(sql + strlen(sql), "bench", "(", 2 * clients, ")");
    snprintf(sql + strlen(sql), 3, ", ");
    list(sql + strlen(sql), "swap", "(", 2 * clients, ")");
    db->client->run(db->url, "DROP TABLE IF EXISTS bench_lean");
    db->client->run(db->url, db->client->lean_table);
    db->client->run(db->url, sql);
}

void bench_lean_clean(const struct bench_db *db)
{
    db->client->run(db->url, "DROP TABLE bench_lean");
}

void bench_lean_text(char out[BENCH_LEAN_TEXT], const char *text, int n)
{
    for (; *text != '\0'; text++) {
        if (*text == '@')
            list(out, "bench", "", n, "");
        else
            snprintf(out, 2, "%c", *text);
        out += strlen(out);
    }
}

static void say(const struct bench_db *db, void *conn, const char *text, int n)
{
    char sql[BENCH_LEAN_TEXT];
    int changed;

    bench_lean_text(sql, text, n);
    if ((changed = db->client->say(conn, sql)) != n)
        bench_die("lean loop: %d of %d rows were changed", changed, n);
}

/* The lean pair of one name, so often. */
static double time_pairs(const struct bench_db *db, void *own, int n)
{
    const int64_t begun = sqlock_now_us();

    for (int i = 0; i < n; i++)
        db->client->lean.pair(own);
    return (double)(sqlock_now_us() - begun);
}

/* n names are taken, renewed so often, and given back. Returns the time of all but the renewals;
 * *out_renewal: of one of these. */
static double time_at_once(const struct bench_db *db, void *conn, int n, int renewals,
                           double *out_renewal)
{
    const struct bench_client *client = db->client;
    const int64_t begun = sqlock_now_us();
    int64_t taken, renewed;

    say(db, conn, client->lean_take, n);
    taken = sqlock_now_us();
    for (int i = 0; i < renewals; i++)
        say(db, conn, client->lean_renew, n);
    renewed = sqlock_now_us();
    say(db, conn, client->lean_give, n);
    *out_renewal = renewals > 0 ? (double)(renewed - taken) / renewals : 0;
    return (double)(sqlock_now_us() - begun - (renewed - taken));
}

/* A renewal by itself is half a pair: one UPDATE and one commit. */
static struct bench_ratio ratio(const struct bench_db *db, int n, int runs, int renews)
{
    double ratios[BENCH_RUNS_MAX];
    void *own, *conn;

    bench_lean_prepare(db, NAMES_MAX / 2);
    own = db->client->lean.start(db, NULL, 0);
    conn = db->client->login(db->url);
    for (int k = 0; k < runs; k++) {
        const double pairs = time_pairs(db, own, n);
        double at_once = 0, renewal;

        for (int turn = 0; turn < 4; turn++) {
            const double both = time_at_once(db, conn, n, renews ? 2 : 0, &renewal);

            at_once += (renews ? 2 * renewal : both) / 4;
        }
        ratios[k] = pairs / at_once;
    }
    db->client->logout(conn);
    db->client->lean.end(own);
    bench_lean_clean(db);
    return bench_ratio_of(ratios, runs);
}

struct bench_ratio bench_lean_many(const struct bench_db *db, int n, int runs)
{
    return ratio(db, n, runs, 0);
}

struct bench_ratio bench_lean_renew(const struct bench_db *db, int runs)
{
    return ratio(db, BENCH_RENEWED, runs, 1);
}

int64_t bench_lean_first(const struct bench_db *db, void *conn)
{
    int64_t taken;

    say(db, conn, db->client->lean_take, 1);
    taken = sqlock_now_us();
    say(db, conn, db->client->lean_give, 1);
    return taken;
}
