/* The least that hands a lock over with libpq alone: a kept row, a table of those who wait, and a
 * notification. Each statement is a transaction: to come, to pass the lock on, to notify, to take
 * it up. No check of the server, no dead waiters, no guard. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "bench.h"
#include "line.h"

#define LOOK_MS 50 /* a waiter that came while the last one went is called by no one */

struct own {
    PGconn *pg;
    int client;
    char me[16];
    double handed_us;
};

static const struct statement {
    const char *name, *sql;
    int n_params;
} statements[] = {
    {"come",
     "WITH t AS (UPDATE bench_lean SET owner = $1, token = token + 1, "
     "expires = clock_timestamp() + interval '30 s' WHERE name = 'line' "
     "AND expires <= clock_timestamp() AND NOT EXISTS (SELECT 1 FROM bench_wait) RETURNING token), "
     "w AS (INSERT INTO bench_wait (client) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM t) "
     "AND set_config('synchronous_commit', 'off', true) = 'off') SELECT token FROM t",
     1},
    {"look",
     "WITH w AS (DELETE FROM bench_wait WHERE client = $1 AND ticket = "
     "(SELECT min(ticket) FROM bench_wait) AND EXISTS (SELECT 1 FROM bench_lean "
     "WHERE name = 'line' AND expires <= clock_timestamp()) RETURNING client) "
     "UPDATE bench_lean SET owner = $1, token = token + 1, "
     "expires = clock_timestamp() + interval '30 s' FROM w "
     "WHERE name = 'line' AND expires <= clock_timestamp() RETURNING token",
     1},
    {"pass",
     "WITH n AS (DELETE FROM bench_wait WHERE ticket = (SELECT min(ticket) FROM bench_wait) "
     "RETURNING client) UPDATE bench_lean SET owner = (SELECT client FROM n), token = token + 1, "
     "expires = CASE WHEN EXISTS (SELECT 1 FROM n) THEN clock_timestamp() + interval '1 s' "
     "ELSE '-infinity' END WHERE name = 'line' AND owner = $1 RETURNING convert_from(owner, "
     "'UTF8')",
     1},
    {"notify", "SELECT pg_notify('bench_line_' || $1, '')", 1},
    {"take up",
     "UPDATE bench_lean SET expires = clock_timestamp() + interval '30 s' "
     "WHERE name = 'line' AND owner = $1 RETURNING token",
     1},
};

static PGresult *checked(struct own *own, PGresult *res)
{
    if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
        bench_die("bare line: %s", PQerrorMessage(own->pg));
    return res;
}

/* Returns 1 if a row came. out: its text; NULL: it is not wanted. */
static int run(struct own *own, const char *name, const char *param, char *out, size_t size)
{
    PGresult *res =
        checked(own, PQexecPrepared(own->pg, name, 1, (const char *[]){param}, NULL, NULL, 0));
    int found = PQntuples(res) > 0 && !PQgetisnull(res, 0, 0);

    if (found && out != NULL)
        snprintf(out, size, "%s", PQgetvalue(res, 0, 0));
    PQclear(res);
    return found;
}

static void *start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = calloc(1, sizeof *own);
    char sql[48];

    (void)shared;
    if (own == NULL || PQstatus(own->pg = PQconnectdb(db->url)) != CONNECTION_OK)
        bench_die("bare line: no connection");
    own->client = client;
    snprintf(own->me, sizeof own->me, "%d", client);
    snprintf(sql, sizeof sql, "LISTEN bench_line_%d", client);
    PQclear(checked(own, PQexec(own->pg, sql)));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        PQclear(checked(own, PQprepare(own->pg, statements[i].name, statements[i].sql, 0, NULL)));
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;

    PQfinish(own->pg);
    free(own);
}

static int is_called(struct own *own)
{
    struct pollfd socket = {.fd = PQsocket(own->pg), .events = POLLIN};
    PGnotify *n = PQnotifies(own->pg);

    if (n == NULL && poll(&socket, 1, LOOK_MS) > 0 && PQconsumeInput(own->pg))
        n = PQnotifies(own->pg);
    PQfreemem(n);
    return n != NULL;
}

static void stand_in_line(void *arg)
{
    struct own *own = arg;
    char next[16];

    line_wait();
    if (!run(own, "come", own->me, NULL, 0))
        while (!run(own, is_called(own) ? "take up" : "look", own->me, NULL, 0))
            ;
    own->handed_us = line_hold(own->client);
    line_leave();
    if (run(own, "pass", own->me, next, sizeof next))
        run(own, "notify", next, NULL, 0);
}

static double handed(void *arg)
{
    const struct own *own = arg;

    return own->handed_us;
}

static void prepare(const struct bench_db *db, int clients)
{
    (void)clients;
    db->client->run(db->url, "DROP TABLE IF EXISTS bench_lean, bench_wait");
    db->client->run(db->url, db->client->lean_table);
    db->client->run(db->url, "INSERT INTO bench_lean (name) VALUES ('line')");
    db->client->run(db->url,
                    "CREATE TABLE bench_wait (ticket bigserial PRIMARY KEY, client bytea)");
    line_begin();
}

static void clean(const struct bench_db *db)
{
    line_end();
    db->client->run(db->url, "DROP TABLE bench_lean, bench_wait");
}

const struct bench_way bench_postgres_line = {.name = "lean hand-over",
                                              .prepare = prepare,
                                              .clean = clean,
                                              .start = start,
                                              .end = end,
                                              .pair = stand_in_line,
                                              .took = handed};
