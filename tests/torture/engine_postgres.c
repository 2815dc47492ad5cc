/* PostgreSQL: the application's connection, a cell's server, and servers that follow it. */
#ifdef TEST_HAVE_POSTGRES
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/postgres.h>

#include "tests/lib/check.h"
#include "tests/lib/pooler.h"
#include "tests/torture/client_app.h"
#include "tests/torture/engine.h"

static void say_nothing(void *user, const char *text)
{
    (void)user, (void)text;
}

/* Of several servers the one that can be written to; a frozen one is passed after the timeout. */
static void *app_connect(const char *url)
{
    const bool several = strchr(url, ',') != NULL;
    const char *const words[] = {"dbname", "connect_timeout",
                                 several ? "target_session_attrs" : NULL, NULL};
    char seconds[16];
    const char *const values[] = {url, seconds, "read-write", NULL};
    PGconn *pg;

    snprintf(seconds, sizeof seconds, "%d", (int)app_patience.connect_s);
    pg = PQconnectdbParams(words, values, 1);
    PQsetNoticeProcessor(pg, say_nothing, NULL);
    if (PQstatus(pg) == CONNECTION_OK)
        return pg;
    PQfinish(pg);
    return NULL;
}

static void app_close(void *native)
{
    PQfinish(native);
}

static int app_adopt(sqlock *m, void *native, sqlock_conn **out_conn, sqlock_error *err)
{
    return sqlock_adopt_postgres(m, native, out_conn, err);
}

/* False: nothing came in time, or the connection is gone. */
static bool wait_answer(PGconn *pg)
{
    int64_t end_us = sqlock_now_us() + app_patience.answer_s * INT64_C(1000000);

    while (PQisBusy(pg)) {
        struct pollfd fd = {.fd = PQsocket(pg), .events = POLLIN};
        int64_t left_us = end_us - sqlock_now_us();

        if (left_us <= 0)
            return false;
        poll(&fd, 1, (int)(left_us / 1000) + 1);
        if (!PQconsumeInput(pg))
            return false;
    }
    return true;
}

/* The last result, NULL: the connection is gone or hangs. */
static PGresult *ask(PGconn *pg, const char *sql)
{
    PGresult *last = NULL, *res;

    if (!PQsendQuery(pg, sql))
        return NULL;
    while (wait_answer(pg)) {
        if ((res = PQgetResult(pg)) == NULL)
            return last;
        PQclear(last);
        last = res;
    }
    PQclear(last);
    return NULL;
}

static int code_of(PGconn *pg, PGresult *res)
{
    const char *state;

    if (res == NULL || PQstatus(pg) != CONNECTION_OK)
        return SQLOCK_EUNREACH;
    if (PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK)
        return 0;
    state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    if (state == NULL || strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0)
        return SQLOCK_EUNREACH;
    if (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0)
        return SQLOCK_ETXGONE; /* of the stricter levels; a deadlock */
    return strncmp(state, "53", 2) == 0 ? SQLOCK_EFULL : SQLOCK_EDB;
}

static int app_exec(void *native, const char *sql, int64_t *out)
{
    PGresult *res = ask(native, sql);
    int rc = code_of(native, res);

    if (rc == 0 && out != NULL && PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        *out = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    return rc;
}

/* COMMIT of a transaction that has failed is answered by ROLLBACK, without an error. */
static int app_commit(void *native)
{
    PGresult *res = ask(native, "COMMIT");
    int rc = code_of(native, res);

    if (rc == 0 && strcmp(PQcmdStatus(res), "COMMIT") != 0)
        rc = SQLOCK_ETXGONE;
    PQclear(res);
    return rc == SQLOCK_EUNREACH ? SQLOCK_EUNSURE : rc;
}

static void app_said(void *native, char out[APP_TEXT])
{
    snprintf(out, APP_TEXT, "%s", PQerrorMessage(native));
    out[strcspn(out, "\n")] = '\0';
}

const struct app client_app_postgres = {.scheme = "postgres",
                                        .driver = sqlock_driver_postgres,
                                        .connect = app_connect,
                                        .close = app_close,
                                        .adopt = app_adopt,
                                        .exec = app_exec,
                                        .commit = app_commit,
                                        .said = app_said,
                                        .schema = "public",
                                        .begin = "BEGIN",
                                        .begin_strict = "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                        .strict_read = "",
                                        .big = "bigint",
                                        .engine = ""};

/* ---- servers that follow --------------------------------------------------------------------- */

#define SENDERS "FROM pg_stat_replication"

/* The last word about a setting counts. Of the same owner as the others: the server removes it. */
static bool adapt(struct engine *e, const struct engine *primary)
{
    const char *to = engine_folder(e);

    return shell("cd '%s/data' && rm -f postmaster.pid && cp -a PG_VERSION standby.signal && "
                 "{ echo \"unix_socket_directories = '%s'\"; "
                 "echo \"primary_conninfo = 'host=%s port=5432 user=postgres'\"; "
                 "} >>postgresql.conf",
                 to, to, engine_folder(primary));
}

/* Those who send it sleep until they die with the server. */
static void stall(struct engine *primary, struct engine *e)
{
    int64_t pid;

    (void)e;
    for (int i = 0; (pid = engine_number(
                         primary, "SELECT pid " SENDERS " ORDER BY pid LIMIT 1 OFFSET %d", i)) > 0;
         i++)
        kill((pid_t)pid, SIGSTOP);
}

/* The session that is to promote it may end before it has the answer, or before it was asked: what
 * the server replays can be in its way. */
static bool promote(struct engine *e)
{
    bool done = false;

    for (int tries = 0; tries < 3 && !done; tries++)
        done = engine_number(e, "SELECT pg_promote(true, 30)::int") == 1 ||
               engine_number(e, "SELECT (NOT pg_is_in_recovery())::int") == 1;
    return done;
}

/* Of a copy its setting is the primary's when it was copied, and nobody followed it then: so what
 * is synchronous is set again, and read anew. */
static const struct follow_ops follow_postgres = {
    .adapt = adapt,
    .followers = "SELECT count(*) " SENDERS " WHERE state = 'streaming'",
    .send_synchronous = "ALTER SYSTEM SET synchronous_standby_names = '*'",
    .reload = "SELECT pg_reload_conf()",
    .is_synchronous = "SELECT count(*) " SENDERS " WHERE sync_state = 'sync'",
    .stall = stall,
    .promote = promote,
    .url = {"postgresql:///postgres?user=postgres&host=", ""}};

/* ---- a cell's server ------------------------------------------------------------------------- */

#define OTHERS                                                                                     \
    " FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"

enum { POOLED = 12 }; /* the pooler's sessions, for all clients */

/* Deadlocks are found soon by the clients' sessions and late by ours: they are the ones to end. */
#define CONF                                                                                       \
    "deadlock_timeout = 30ms\nautovacuum_naptime = 5s\n"                                           \
    "max_wal_size = 64MB\nmin_wal_size = 32MB\n"
static const char conf[] = CONF;
static const char followed_conf[] = CONF "wal_retrieve_retry_interval = 100ms\n"
                                         "wal_keep_size = 64MB\nwal_sender_timeout = 0\n";

static bool is_pooled(const struct engine *e)
{
    return e->kind->variant && strcmp(e->kind->variant, "pgbouncer") == 0;
}

/* Another major comes out of a package that is fetched once. */
static bool choose_server(struct engine *e)
{
    char bin[400];

    if (!e->kind->variant || is_pooled(e))
        return true;
    return engine_script(e, text("tests/tools/pgs.sh unpack %s %s", e->kind->variant, temp_dir()),
                         bin, sizeof bin) &&
           setenv("SQLOCK_TEST_PG_BIN", bin, 1) == 0;
}

static bool create(struct engine *e)
{
    setenv("SQLOCK_TEST_PG_CONF", e->wants & ENGINE_FOLLOWED ? followed_conf : conf, 1);
    return e->number > 1 || choose_server(e);
}

static void end(void)
{
    pooler_stop(NULL);
}

/* A pooler keeps sessions that nobody uses: of them only those count that are in a transaction. */
static int sessions(struct engine *e, bool end)
{
    return (int)engine_number(e, "SELECT count(%s)" OTHERS "%s",
                              end ? "pg_terminate_backend(pid)" : "*",
                              !end && is_pooled(e) ? " AND state <> 'idle'" : "");
}

static bool put_pooler_before(struct engine *e)
{
    const char *url;

    if ((e->wants & ENGINE_FRONTED) && !engine_front(e))
        return false;
    url = pooler_start(e->front[0] ? e->front : engine_folder(e), POOLED);
    if (url)
        snprintf(e->client_url, sizeof e->client_url, "%s", url);
    else
        snprintf(e->why, sizeof e->why, "no pgbouncer is installed");
    return url != NULL;
}

static bool prepare(struct engine *e)
{
    snprintf(e->version, sizeof e->version, "PostgreSQL %s",
             PQparameterStatus(e->session, "server_version"));
    return !is_pooled(e) || put_pooler_before(e);
}

const struct engine_ops engine_postgres = {
    .create = create,
    .script = "tests/tools/pg.sh",
    .prepare = prepare,
    .sessions = sessions,
    .end = end,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler text)",
             "INSERT INTO bulk SELECT repeat(md5(i::text), 30) FROM generate_series(1, 3000) i",
             "TRUNCATE bulk"},
    .follow = &follow_postgres};
#endif
