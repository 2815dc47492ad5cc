#include "tests/lib/pq.h"

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/check.h"

static PGconn *reach(const char *url)
{
    PGconn *c = PQconnectdb(url);

    if (PQstatus(c) == CONNECTION_OK) {
        PQclear(PQexec(c, "SET client_min_messages = error"));
        return c;
    }
    print_error("%s", PQerrorMessage(c));
    PQfinish(c);
    return NULL;
}

PGconn *pq_open(const char *url)
{
    PGconn *c = reach(url);

    if (c == NULL)
        fail_msg("%s does not answer", url);
    return c;
}

static bool run(PGconn *c, const char *sql, int64_t *out_number)
{
    PGresult *res = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(res);
    bool ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;

    *out_number = -1;
    if (!ok)
        print_error("%s\n%s", sql, PQerrorMessage(c));
    if (ok && PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        *out_number = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    return ok;
}

int64_t pq_number(PGconn *c, const char *format, ...)
{
    int64_t number;
    char *sql = NULL;
    va_list args;
    bool ok;

    va_start(args, format);
    assert_true(vasprintf(&sql, format, args) >= 0);
    va_end(args);
    ok = run(c, sql, &number);
    free(sql);
    if (!ok)
        fail_msg("a statement of the test failed");
    return number;
}

bool pq_fetch(const char *url, const char *sql, int64_t *out_number)
{
    PGconn *c = reach(url);
    bool ok = c != NULL && run(c, sql, out_number);

    PQfinish(c);
    return ok;
}

int pq_connect_as(void *user, void **out_native, sqlock_error *err)
{
    const struct pq_login *login = user;
    PGconn *c = reach(login->url);

    if (c == NULL) {
        snprintf(err->text, sizeof err->text, "the test has no connection");
        return err->code = SQLOCK_EUNREACH;
    }
    pq_exec(c, "SET SESSION AUTHORIZATION %s; RESET client_min_messages", login->role);
    *out_native = c;
    return 0;
}
#endif
