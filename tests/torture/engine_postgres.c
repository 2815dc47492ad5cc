#include "tests/torture/followers.h"

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/postgres.h>

#include "tests/lib/check.h"
#include "tests/lib/pooler.h"
#include "tests/lib/undo.h"

#define SCRIPT "tests/tools/pg.sh"
#define OTHERS                                                                                     \
    " FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"     \
    " AND application_name <> 'torture cell'"

enum { POOLED = 12 }; /* the pooler's sessions, for all clients */

/* Deadlocks are found soon by the clients' sessions and late by ours: they are the ones to end. */
#define CONF                                                                                       \
    "deadlock_timeout = 30ms\nautovacuum_naptime = 5s\n"                                           \
    "max_wal_size = 64MB\nmin_wal_size = 32MB\n"
static const char conf[] = CONF;
static const char followed_conf[] = CONF "wal_retrieve_retry_interval = 100ms\n"
                                         "wal_keep_size = 64MB\nwal_sender_timeout = 0\n";

static void stop_server(const char *url)
{
    char command[600];

    snprintf(command, sizeof command, SCRIPT " stop '%s'", url);
    if (system(command) != 0)
        fprintf(stderr, "the server was not stopped: %s\n", url);
}

static bool is_pooled(const struct engine *e)
{
    return e->kind->variant && strcmp(e->kind->variant, "pgbouncer") == 0;
}

/* Another major comes out of a package that is fetched once. */
static bool choose_server(struct engine *e)
{
    char words[400], bin[400];

    if (!e->kind->variant || is_pooled(e))
        return true;
    snprintf(words, sizeof words, "unpack %s %s", e->kind->variant, temp_dir());
    if (!engine_script(e, "tests/tools/pgs.sh", words, bin, sizeof bin))
        return false;
    return setenv("SQLOCK_TEST_PG_BIN", bin, 1) == 0;
}

static bool create(struct engine *e)
{
    const char *verb = e->number > 1 ? "folder" : "create";

    setenv("SQLOCK_TEST_PG_CONF", e->wants & ENGINE_FOLLOWED ? followed_conf : conf, 1);
    if ((e->number == 1 && !choose_server(e)) ||
        !engine_script(e, SCRIPT, verb, e->url, sizeof e->url))
        return false;
    snprintf(e->dir, sizeof e->dir, "%s", undo_later(stop_server, e->url));
    return true;
}

static void remove_it(struct engine *e)
{
    pooler_stop(NULL);
    stop_server(e->url);
}

static bool answers(struct engine *e)
{
    return PQping(e->url) == PQPING_OK;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

static PGconn *session(struct engine *e, int i)
{
    const char *words[] = {"dbname", "application_name", "connect_timeout", "options", NULL};
    const char *values[] = {e->url, "torture cell", "10", "-c client_min_messages=error", NULL};

    if (e->session[i] && PQstatus(e->session[i]) != CONNECTION_OK)
        engine_forget(e, i);
    if (!e->session[i])
        e->session[i] = PQconnectdbParams(words, values, 1);
    return e->session[i];
}

static bool exec(struct engine *e, int i, const char *sql)
{
    PGresult *res = PQexec(session(e, i), sql);
    bool fine = PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK;

    PQclear(res);
    return fine;
}

static int64_t number(struct engine *e, const char *sql)
{
    PGresult *res = PQexec(session(e, 0), sql);
    int64_t n = -1;

    if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        n = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    return n;
}

static void forget(struct engine *e, int i)
{
    PQfinish(e->session[i]);
}

/* A pooler keeps sessions that nobody uses: of them only those count that are in a transaction. */
static int sessions(struct engine *e, bool end)
{
    const char *count =
        is_pooled(e) ? "SELECT count(*)" OTHERS " AND state <> 'idle'" : "SELECT count(*)" OTHERS;

    return (int)number(
        e, end ? "SELECT count(*) FROM (SELECT pg_terminate_backend(pid)" OTHERS ") s" : count);
}

static bool put_pooler_before(struct engine *e)
{
    char dir[256];
    const char *url;

    engine_folder(e, dir);
    if ((e->wants & ENGINE_FRONTED) && !engine_front(e))
        return false;
    url = pooler_start(e->front[0] ? e->front : dir, POOLED);
    if (url)
        snprintf(e->client_url, sizeof e->client_url, "%s", url);
    else
        snprintf(e->why, sizeof e->why, "no pgbouncer is installed");
    return url != NULL;
}

static bool prepare(struct engine *e)
{
    PGconn *c = session(e, 0);

    if (PQstatus(c) != CONNECTION_OK) {
        fprintf(stderr, "%s", PQerrorMessage(c));
        return false;
    }
    snprintf(e->version, sizeof e->version, "PostgreSQL %s",
             PQparameterStatus(c, "server_version"));
    return !is_pooled(e) || put_pooler_before(e);
}

static const sqlock_driver *driver(void)
{
    return sqlock_driver_postgres();
}

const struct engine_ops engine_postgres = {
    .driver = driver,
    .create = create,
    .remove = remove_it,
    .script = SCRIPT,
    .answers = answers,
    .prepare = prepare,
    .exec = exec,
    .number = number,
    .forget = forget,
    .sessions = sessions,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler text)",
             "INSERT INTO bulk SELECT repeat(md5(i::text), 30) FROM generate_series(1, 3000) i",
             "TRUNCATE bulk"},
    .follow = &follow_postgres};
#endif
