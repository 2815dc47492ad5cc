#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>

#include "tests/torture/client_app.h"

#include <poll.h>
#include <sqlock/postgres.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_nothing(void *user, const char *text)
{
    (void)user;
    (void)text;
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

static void app_schema(const char *url, char out[APP_TEXT])
{
    (void)url;
    snprintf(out, APP_TEXT, "public");
}

const struct app client_app_postgres = {.scheme = "postgres",
                                        .driver = sqlock_driver_postgres,
                                        .connect = app_connect,
                                        .close = app_close,
                                        .adopt = app_adopt,
                                        .exec = app_exec,
                                        .commit = app_commit,
                                        .said = app_said,
                                        .schema = app_schema,
                                        .begin = "BEGIN",
                                        .begin_strict = "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                        .strict_read = "",
                                        .big = "bigint",
                                        .engine = ""};
#endif
