/* libpq's prepared statements and nothing else: sqlock's own, and the leanest that make a lock. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include <sqlock/postgres.h>

#include "bench.h"

#define RELOAD_US 200000 /* until all sessions have seen new settings */

enum { BOOL = 16, BYTES = 17, INT = 20 }; /* OIDs of boolean, bytea and int8 */

struct own {
    PGconn *pg;
    char name[32];
    uint64_t key; /* of the advisory lock */
};

static void check(struct own *own, PGresult *res, ExecStatusType wanted)
{
    if (PQresultStatus(res) != wanted)
        bench_die("bare loop: %s", PQerrorMessage(own->pg));
}

static void prepare(struct own *own, const char *as, const char *sql, int n, const Oid *types)
{
    PGresult *res = PQprepare(own->pg, as, sql, n, types);

    check(own, res, PGRES_COMMAND_OK);
    PQclear(res);
}

static void ignore(void *arg, const char *notice)
{
    (void)arg, (void)notice;
}

static struct own *connect_to(const char *url, int client)
{
    struct own *own = malloc(sizeof *own);

    if (own == NULL)
        bench_die("out of memory");
    own->pg = PQconnectdb(url);
    if (PQstatus(own->pg) != CONNECTION_OK)
        bench_die("bare loop: %s", PQerrorMessage(own->pg));
    PQsetNoticeProcessor(own->pg, ignore, NULL);
    snprintf(own->name, sizeof own->name, "bench %d", client);
    return own;
}

static void *start(const struct bench_db *db, void *shared, int client)
{
    static const Oid acquire[] = {BYTES, BYTES, BYTES, INT, INT, INT, BYTES};
    static const Oid release[] = {BYTES, BYTES, BYTES, INT, INT, BOOL};
    struct own *own = connect_to(db->url, client);

    (void)shared;
    prepare(own, "a", db->scripts[SQLOCK_STMT_ACQUIRE].steps[0].sql, 7, acquire);
    prepare(own, "r", db->scripts[SQLOCK_STMT_RELEASE].steps[0].sql, 6, release);
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;

    PQfinish(own->pg);
    free(own);
}

static void pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    uint64_t ttl = htobe64(BENCH_LEASE_MS * UINT64_C(1000)), not_after = htobe64(INT64_MAX), token;
    uint64_t grace = 0, seat = 0;
    const char *values[] = {
        "", own->name, (char *)owner, (char *)&ttl, (char *)&not_after, (char *)&grace, "bare"};
    int lens[] = {
        0, (int)strlen(own->name), sizeof owner, sizeof ttl, sizeof not_after, sizeof grace, 4};
    static const int formats[] = {1, 1, 1, 1, 1, 1, 1};
    PGresult *res;

    bench_owner(owner);
    res = PQexecPrepared(own->pg, "a", 7, values, lens, formats, 1);
    check(own, res, PGRES_TUPLES_OK);
    if (PQntuples(res) == 0) { /* the first time: sqlock's run has made the row */
        PQclear(res);
        bench_die("bare loop: there is no row for %s", own->name);
    }
    memcpy(&token, PQgetvalue(res, 0, SQLOCK_COL_TOKEN), sizeof token);
    if (PQgetvalue(res, 0, SQLOCK_COL_OUTCOME)[3] != SQLOCK_OUT_DONE)
        bench_die("bare loop: %s was not granted", own->name);
    PQclear(res);
    values[3] = (char *)&token;
    lens[3] = sizeof token;
    values[4] = (char *)&seat;
    lens[4] = sizeof seat;
    values[5] = "\0"; /* it waits for the disk */
    lens[5] = 1;
    res = PQexecPrepared(own->pg, "r", 6, values, lens, formats, 1);
    check(own, res, PGRES_TUPLES_OK);
    PQclear(res);
}

/* ---- the lean loop --------------------------------------------------------------------------- */

static void run(const char *url, const char *sql)
{
    struct own *own = connect_to(url, 0);
    PGresult *res = PQexec(own->pg, sql);

    check(own, res, PGRES_COMMAND_OK);
    PQclear(res);
    end(own);
}

static double ask(const char *url, const char *sql)
{
    struct own *own = connect_to(url, 0);
    PGresult *res = PQexec(own->pg, sql);
    double value;

    check(own, res, PGRES_TUPLES_OK);
    value = atof(PQgetvalue(res, 0, 0));
    PQclear(res);
    end(own);
    return value;
}

static int counts_statements;

/* run.sh loads pg_stat_statements into its own server, and leaves it off: statements that are
 * counted take longer. */
static void counting(const struct bench_db *db, int on)
{
    if (on)
        counts_statements =
            ask(db->url, "SELECT count(*) FROM pg_settings "
                         "WHERE name = 'pg_stat_statements.track' AND setting = 'none'") == 1;
    if (!counts_statements)
        return;
    if (on)
        run(db->url, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
    run(db->url, on ? "ALTER SYSTEM SET pg_stat_statements.track = 'top'"
                    : "ALTER SYSTEM RESET pg_stat_statements.track");
    ask(db->url, "SELECT pg_reload_conf()::int");
    sqlock_sleep_us(RELOAD_US);
}

/* A commit that writes has taken a number. */
static struct bench_counts count(const struct bench_db *db)
{
    struct bench_counts counts = {-1, -1};

    counts.commits = ask(db->url, "SELECT txid_snapshot_xmax(txid_current_snapshot())");
    if (counts_statements)
        counts.statements = ask(db->url, "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements "
                                         "WHERE query !~ 'pg_stat_statements|txid_'");
    return counts;
}

static struct own *lean_start_with(const struct bench_db *db, int client, const char *give_back)
{
    static const Oid take[] = {BYTES, BYTES}, give[] = {BYTES, BYTES, INT};
    struct own *own = connect_to(db->url, client);

    prepare(own, "t",
            "UPDATE bench_lean SET owner = $2, token = token + 1, "
            "expires = clock_timestamp() + interval '30 s' "
            "WHERE name = $1 AND expires <= clock_timestamp() RETURNING token",
            2, take);
    prepare(own, "g", give_back, 3, give);
    return own;
}

#define GIVE_BACK                                                                                  \
    "UPDATE bench_lean SET owner = NULL, expires = DEFAULT "                                       \
    "WHERE name = $1 AND owner = $2 AND token = $3"

static void *lean_start(const struct bench_db *db, void *shared, int client)
{
    (void)shared;
    return lean_start_with(db, client, GIVE_BACK);
}

static void *lean_lazy_start(const struct bench_db *db, void *shared, int client)
{
    (void)shared;
    return lean_start_with(db, client,
                           GIVE_BACK " AND set_config('synchronous_commit', 'off', true) = 'off'");
}

static void lean_pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    uint64_t token;
    const char *values[] = {own->name, (char *)owner, (char *)&token};
    const int lens[] = {(int)strlen(own->name), sizeof owner, sizeof token};
    static const int formats[] = {1, 1, 1};
    PGresult *res;

    bench_owner(owner);
    res = PQexecPrepared(own->pg, "t", 2, values, lens, formats, 1);
    check(own, res, PGRES_TUPLES_OK);
    if (PQntuples(res) != 1)
        bench_die("lean loop: %s was not granted", own->name);
    memcpy(&token, PQgetvalue(res, 0, 0), sizeof token);
    PQclear(res);
    res = PQexecPrepared(own->pg, "g", 3, values, lens, formats, 1);
    check(own, res, PGRES_COMMAND_OK);
    if (PQcmdTuples(res)[0] != '1')
        bench_die("lean loop: %s was not released", own->name);
    PQclear(res);
}

/* ---- the same for several names -------------------------------------------------------------- */

#ifdef LIBPQ_HAS_PIPELINING

/* Which of its two names it has, and for whom. */
struct swapping {
    struct own *own;
    char names[2][32];
    int at; /* -1: none yet */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    uint64_t token;
};

static void *swap_start(const struct bench_db *db, void *shared, int client)
{
    struct swapping *s = calloc(1, sizeof *s);

    if (s == NULL)
        bench_die("out of memory");
    s->own = lean_start(db, shared, client);
    s->at = -1;
    for (int i = 0; i < 2; i++)
        snprintf(s->names[i], sizeof s->names[i], "swap %d", 2 * client + i);
    return s;
}

static void swap_end(void *arg)
{
    struct swapping *s = arg;

    end(s->own);
    free(s);
}

/* In a pipeline: the statement that was sent under this name for one of the two names. */
static void swap_send(struct swapping *s, const char *as, int at)
{
    const char *values[] = {s->names[at], (char *)s->owner, (char *)&s->token};
    const int lens[] = {(int)strlen(s->names[at]), sizeof s->owner, sizeof s->token};
    static const int formats[] = {1, 1, 1};

    if (!PQsendQueryPrepared(s->own->pg, as, as[0] == 't' ? 2 : 3, values, lens, formats, 1))
        bench_die("lean loop: %s", PQerrorMessage(s->own->pg));
}

/* Each answer ends with a NULL, and the pipeline with an answer of its own. */
static PGresult *swap_read(struct swapping *s, ExecStatusType wanted)
{
    PGresult *res = PQgetResult(s->own->pg);

    check(s->own, res, wanted);
    if (wanted != PGRES_PIPELINE_SYNC)
        PQgetResult(s->own->pg);
    return res;
}

static void swap_pair(void *arg)
{
    struct swapping *s = arg;
    const int was = s->at, is = was == 0;
    PGresult *res;

    PQenterPipelineMode(s->own->pg);
    if (was >= 0)
        swap_send(s, "g", was);
    bench_owner(s->owner);
    swap_send(s, "t", is);
    PQpipelineSync(s->own->pg);
    if (was >= 0) {
        res = swap_read(s, PGRES_COMMAND_OK);
        if (PQcmdTuples(res)[0] != '1')
            bench_die("lean loop: %s was not released", s->names[was]);
        PQclear(res);
    }
    res = swap_read(s, PGRES_TUPLES_OK);
    if (PQntuples(res) != 1)
        bench_die("lean loop: %s was not granted", s->names[is]);
    memcpy(&s->token, PQgetvalue(res, 0, 0), sizeof s->token);
    PQclear(res);
    PQclear(swap_read(s, PGRES_PIPELINE_SYNC));
    PQexitPipelineMode(s->own->pg);
    s->at = is;
}

#endif

static int say(void *arg, const char *sql)
{
    struct own *own = arg;
    PGresult *res = PQexec(own->pg, sql);
    int changed;

    check(own, res, PGRES_TUPLES_OK);
    changed = atoi(PQcmdTuples(res));
    PQclear(res);
    return changed;
}

/* ---- advisory locks -------------------------------------------------------------------------- */

static void *advisory_start(const struct bench_db *db, void *shared, int client)
{
    static const Oid key[] = {INT};
    struct own *own = connect_to(db->url, client);

    (void)shared;
    own->key = htobe64((uint64_t)client);
    prepare(own, "a", "SELECT pg_advisory_lock($1)", 1, key);
    prepare(own, "r", "SELECT pg_advisory_unlock($1)", 1, key);
    return own;
}

static void advisory_pair(void *arg)
{
    struct own *own = arg;
    const char *values[] = {(char *)&own->key};
    static const int lens[] = {sizeof own->key}, formats[] = {1};
    PGresult *res = PQexecPrepared(own->pg, "a", 1, values, lens, formats, 1);

    check(own, res, PGRES_TUPLES_OK);
    PQclear(res);
    res = PQexecPrepared(own->pg, "r", 1, values, lens, formats, 1);
    check(own, res, PGRES_TUPLES_OK);
    if (PQgetvalue(res, 0, 0)[0] != 1)
        bench_die("advisory lock: not released");
    PQclear(res);
}

static void *login(const char *url)
{
    return connect_to(url, 0);
}

static const struct bench_way our_sql = {
    .name = "our SQL in libpq", .start = start, .end = end, .pair = pair};

const struct bench_client bench_postgres = {
    .database = "postgres",
    .driver = sqlock_driver_postgres,
    .run = run,
    .login = login,
    .logout = end,
    .counting = counting,
    .count = count,
    .lean_table = "CREATE TABLE bench_lean (name bytea PRIMARY KEY, owner bytea, "
                  "token bigint NOT NULL DEFAULT 0, "
                  "expires timestamptz NOT NULL DEFAULT '-infinity') WITH (fillfactor = 50)",
    .bare = &our_sql,
    .advisory = {.name = "advisory, not durable",
                 .start = advisory_start,
                 .end = end,
                 .pair = advisory_pair},
    .lean = {.name = "lean loop",
             .prepare = bench_lean_prepare,
             .clean = bench_lean_clean,
             .start = lean_start,
             .end = end,
             .pair = lean_pair},
#ifdef LIBPQ_HAS_PIPELINING
    .lean_swap = {.name = "lean swap", .start = swap_start, .end = swap_end, .pair = swap_pair},
#endif
    .lean_take = "UPDATE bench_lean SET owner = 'x', token = token + 1, "
                 "expires = clock_timestamp() + interval '30 s' "
                 "WHERE name IN (@) AND expires <= clock_timestamp() RETURNING name, token",
    .lean_give = "UPDATE bench_lean SET owner = NULL, expires = DEFAULT "
                 "WHERE name IN (@) AND owner = 'x' RETURNING name",
    .lean_renew = "UPDATE bench_lean SET expires = clock_timestamp() + interval '30 s' "
                  "WHERE name IN (@) AND owner = 'x' RETURNING name",
    .say = say,
    .line = &bench_postgres_line,
    .lean_lazy = {.name = "lean loop, lazy",
                  .start = lean_lazy_start,
                  .end = end,
                  .pair = lean_pair},
};
