/* The market on PostgreSQL. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/postgres.h>

#include "../crew.h"
#include "market.h"

struct link {
    PGconn *pg;
    long changed;
};

static void *open_server(const char *url)
{
    struct link *l = calloc(1, sizeof *l);

    if (l == NULL || PQstatus(l->pg = PQconnectdb(url)) != CONNECTION_OK)
        die("%s", l != NULL ? PQerrorMessage(l->pg) : "out of memory");
    return l;
}

static void close_server(void *db)
{
    struct link *l = db;

    PQfinish(l->pg);
    free(l);
}

static PGresult *ask(struct link *l, const char *sql)
{
    PGresult *res = PQexec(l->pg, sql);
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

    if (PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK)
        return res;
    if (state == NULL || (strcmp(state, "40001") != 0 && strcmp(state, "40P01") != 0))
        die("%s: %s", sql, PQerrorMessage(l->pg));
    PQclear(res);
    PQclear(PQexec(l->pg, "ROLLBACK"));
    return NULL;
}

static int run(void *db, const char *sql)
{
    struct link *l = db;
    PGresult *res = ask(l, sql);

    l->changed = res != NULL ? strtol(PQcmdTuples(res), NULL, 10) : 0;
    PQclear(res);
    return res != NULL;
}

static long number(void *db, const char *sql)
{
    PGresult *res = ask(db, sql);
    long n = res != NULL && PQntuples(res) > 0 ? strtol(PQgetvalue(res, 0, 0), NULL, 10) : 0;

    PQclear(res);
    return n;
}

static long changed(void *db)
{
    return ((struct link *)db)->changed;
}

static int adopt(sqlock *m, void *db, sqlock_conn **out_conn, sqlock_error *err)
{
    return sqlock_adopt_postgres(m, ((struct link *)db)->pg, out_conn, err);
}

const struct market market = {
    .name = "PostgreSQL",
    .driver = sqlock_driver_postgres,
    .schema = "public",
    .begin = "BEGIN",
    .open = open_server,
    .close = close_server,
    .run = run,
    .number = number,
    .changed = changed,
    .adopt = adopt,
};
