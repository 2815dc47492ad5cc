/* An application that talks to PostgreSQL through libpq. */
#ifdef TEST_HAVE_POSTGRES
#include "tests/lib/postgres_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pg.h"

static void app_close(void *conn)
{
    struct postgres_app_conn *app = conn;

    PQclear(app->last);
    PQfinish(app->pg);
    free(app);
}

static bool app_exec(void *conn, const char *sql)
{
    struct postgres_app_conn *app = conn;
    ExecStatusType status;

    PQclear(app->last);
    app->last = PQexec(app->pg, sql);
    status = PQresultStatus(app->last);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static char *app_fetch(void *conn, const char *sql)
{
    struct postgres_app_conn *app = conn;
    PGresult *res = PQexec(app->pg, sql);
    char *text = NULL;

    if (PQresultStatus(res) != PGRES_TUPLES_OK) {
        PQclear(res);
        fail_msg("%s: %s", sql, PQerrorMessage(app->pg));
    }
    if (PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        text = strdup(PQgetvalue(res, 0, 0));
    PQclear(res);
    return text;
}

static void *app_connect(const struct place *p)
{
    struct postgres_app_conn *app = calloc(1, sizeof *app);
    char sql[128];

    assert_non_null(app);
    app->pg = PQconnectdb(p->url);
    if (PQstatus(app->pg) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(app->pg));
    snprintf(sql, sizeof sql, "SET search_path = %s", p->schema);
    assert_true(app_exec(app, sql));
    return app;
}

static void app_offer(void *conn, sqlock_adopt_opts *opts)
{
    struct postgres_app_conn *app = conn;

    opts->native = app->pg;
    opts->native_size = 0;
    opts->library = (void (*)(void))PQlibVersion;
}

static void put_address(FILE *f, const char *name, void (*address)(void))
{
    unsigned char bytes[sizeof address];

    memcpy(bytes, &address, sizeof address);
    fprintf(f, "%s", name);
    for (size_t i = 0; i < sizeof bytes; i++)
        fprintf(f, "%02x", bytes[i]);
    fputc('\n', f);
}

static char *app_settings(void *conn)
{
    struct postgres_app_conn *app = conn;
    char *out = NULL, *rows;
    size_t size = 0;
    FILE *f;

    rows =
        app_fetch(conn, "SELECT (SELECT string_agg(name || '=' || coalesce(setting, '') || ' ' || "
                        "source || ' ' || coalesce(reset_val, ''), E'\\n' ORDER BY name) "
                        "FROM pg_catalog.pg_settings) || "
                        "(SELECT coalesce(string_agg(name, ' '), '') "
                        "FROM pg_catalog.pg_prepared_statements) || "
                        "(SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') "
                        "FROM pg_catalog.pg_cursors WHERE name <> '')");
    assert_non_null(rows);
    f = open_memstream(&out, &size);
    assert_non_null(f);
    fprintf(f, "%s\nnonblocking=%d encoding=%d\n", rows, PQisnonblocking(app->pg),
            PQclientEncoding(app->pg));
    put_address(f, "receiver=", (void (*)(void))PQsetNoticeReceiver(app->pg, NULL, NULL));
    put_address(f, "processor=", (void (*)(void))PQsetNoticeProcessor(app->pg, NULL, NULL));
    fclose(f);
    free(rows);
    return out;
}

static char *app_last(void *conn)
{
    struct postgres_app_conn *app = conn;
    char *out = NULL;

    if (asprintf(&out, "%s rows=%s oid=%u error=%s", PQcmdStatus(app->last), PQcmdTuples(app->last),
                 PQoidValue(app->last), PQerrorMessage(app->pg)) < 0)
        fail_msg("out of memory");
    return out;
}

static void app_start_reading(void *conn)
{
    struct postgres_app_conn *app = conn;
    PGresult *res;

    assert_true(PQsendQuery(app->pg, "SELECT pg_catalog.generate_series(1, 3)"));
    assert_true(PQsetSingleRowMode(app->pg));
    res = PQgetResult(app->pg);
    assert_int_equal(PQresultStatus(res), PGRES_SINGLE_TUPLE);
    PQclear(res);
}

static int app_read_rest(void *conn)
{
    struct postgres_app_conn *app = conn;
    PGresult *res;
    int n = 0;
    bool ok = false;

    while ((res = PQgetResult(app->pg)) != NULL) {
        n += PQresultStatus(res) == PGRES_SINGLE_TUPLE;
        ok = PQresultStatus(res) == PGRES_TUPLES_OK;
        PQclear(res);
    }
    return ok ? n : -1;
}

static void app_prepare(void *conn)
{
    struct postgres_app_conn *app = conn;
    PGresult *res = PQprepare(app->pg, "app_statement", "SELECT 42", 0, NULL);

    assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
    PQclear(res);
}

static int64_t app_run_prepared(void *conn)
{
    struct postgres_app_conn *app = conn;
    PGresult *res = PQexecPrepared(app->pg, "app_statement", 0, NULL, NULL, NULL, 0);
    int64_t n = PQntuples(res) == 1 ? strtoll(PQgetvalue(res, 0, 0), NULL, 10) : -1;

    PQclear(res);
    return n;
}

static void app_kill(void *conn)
{
    struct postgres_app_conn *app = conn;
    int pid = PQbackendPID(app->pg);

    pg_exec("SELECT pg_terminate_backend(%d)", pid);
    assert_soon(pg_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid) == 0,
                patience_ms(10000));
}

static const char *const begins[] = {"BEGIN", "BEGIN ISOLATION LEVEL READ UNCOMMITTED",
                                     "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                     "BEGIN ISOLATION LEVEL SERIALIZABLE", NULL};

static const struct way ways[] = {
    {"read committed", NULL, "BEGIN", NULL},
    {"repeatable read", NULL, "BEGIN ISOLATION LEVEL REPEATABLE READ", NULL},
    {"serializable", NULL, "BEGIN ISOLATION LEVEL SERIALIZABLE", NULL},
    {"an old one", NULL, "BEGIN; SELECT n FROM app_row", NULL},
    {0}};

const struct adopt_app postgres_app = {
    APP_FUNCTIONS,
    .kill = app_kill,
    .begins = begins,
    .ways = ways,
    .timestamp = "timestamptz",
    .timestamp_read = "(extract(epoch FROM version) * 1000000)::bigint",
    .table_of_types = "CREATE TABLE app_types (t varchar(40) PRIMARY KEY, "
                      "s smallint, b bigint, n numeric, o bytea)",
    .session = "SELECT pg_backend_pid()",
    .says_refusal = true,
    .slow = "SELECT 0, 1 FROM pg_catalog.pg_sleep(10)",
    .one_answer = true,
    .fails_whole = true};
#endif
