/* libpq's prepared statements and nothing else. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include <sqlock/postgres.h>

#include "bench.h"

enum { BYTES = 17, INT = 20 }; /* OIDs of bytea and int8 */

struct own {
    PGconn *pg;
    char name[32];
};

static void check(struct own *own, PGresult *res, ExecStatusType wanted)
{
    if (PQresultStatus(res) != wanted)
        bench_die("bare loop: %s", PQerrorMessage(own->pg));
}

static void prepare(struct own *own, const char *as, const sqlock_script *script, const Oid *types)
{
    PGresult *res = PQprepare(own->pg, as, script->steps[0].sql, script->n_params, types);

    check(own, res, PGRES_COMMAND_OK);
    PQclear(res);
}

static void *start(const struct bench_db *db, void *shared, int thread)
{
    static const Oid acquire[] = {BYTES, BYTES, BYTES, INT, INT, INT, BYTES};
    static const Oid release[] = {BYTES, BYTES, BYTES, INT};
    struct own *own = malloc(sizeof *own);

    (void)shared;
    if (own == NULL)
        bench_die("out of memory");
    own->pg = PQconnectdb(db->url);
    if (PQstatus(own->pg) != CONNECTION_OK)
        bench_die("bare loop: %s", PQerrorMessage(own->pg));
    snprintf(own->name, sizeof own->name, "bench %d", thread);
    prepare(own, "a", &db->scripts[SQLOCK_STMT_ACQUIRE], acquire);
    prepare(own, "r", &db->scripts[SQLOCK_STMT_RELEASE], release);
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
    uint64_t grace = 0;
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
    res = PQexecPrepared(own->pg, "r", 4, values, lens, formats, 1);
    check(own, res, PGRES_TUPLES_OK);
    PQclear(res);
}

static const sqlock_driver *driver(void)
{
    return sqlock_driver_postgres();
}

const struct bench_way bench_bare_postgres = {
    .database = "postgres",
    .driver = driver,
    .name = "libpq",
    .start = start,
    .end = end,
    .pair = pair,
};
