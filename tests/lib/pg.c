#include "tests/lib/pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

const struct test_server pg_server = {"postgres", "PostgreSQL", "SQLOCK_TEST_POSTGRES_URL"};

const char *pg_url(void)
{
    return test_server_url(&pg_server);
}

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>

#include "tests/lib/pq.h"

/* What it must wait for comes soon or never. */
static PGconn *connect_to(const char *url)
{
    PGconn *c = pq_open(url);

    PQclear(PQexec(c, "SET statement_timeout = '20s'"));
    return c;
}

int64_t pg_number(const char *format, ...)
{
    PGconn *c = connect_to(pg_url());
    char *sql = NULL;
    int64_t number;
    va_list args;

    va_start(args, format);
    assert_true(vasprintf(&sql, format, args) >= 0);
    va_end(args);
    number = pq_number(c, "%s", sql);
    free(sql);
    PQfinish(c);
    return number;
}

static void drop_schema(const char *schema)
{
    int64_t number;

    (void)pq_fetch(getenv("SQLOCK_TEST_POSTGRES_URL"),
                   textf("SET lock_timeout = '30s'; DROP SCHEMA IF EXISTS %s CASCADE", schema),
                   &number);
}

char *pg_schema_new(void)
{
    const char *name = random_name();

    pg_url();
    pg_exec("CREATE SCHEMA %s", name);
    return undo_later(drop_schema, name);
}

/* What a URL says last counts. */
char *pg_url_through(const char *url, const char *host, const char *port)
{
    char *out = NULL;

    assert_true(
        asprintf(&out, "%s%chost=%s&port=%s", url, strchr(url, '?') ? '&' : '?', host, port) > 0);
    return out;
}

/* Nothing is set: behind a pooler the session is somebody else's next. */
void pg_url_target(const char *url, char out_host[256], char out_port[16])
{
    PGconn *c = PQconnectdb(url);
    const char *host = PQhost(c), *port = PQport(c);
    int n;

    /* libpq has found out what URL, environment and defaults come to. */
    if (PQstatus(c) != CONNECTION_OK)
        fail_msg("%s does not answer", url);
    if (*host == '/') {
        n = snprintf(out_host, 256, "%s/.s.PGSQL.%s", host, port);
        *out_port = '\0';
    } else {
        n = snprintf(out_host, 256, "%s", host);
        snprintf(out_port, 16, "%s", port);
    }
    PQfinish(c);
    if (n >= 256)
        fail_msg("the host's name is too long");
}

#else
#pragma GCC diagnostic ignored "-Wunused-parameter"

char *pg_schema_new(void)
{
    skip();
    return NULL;
}

int64_t pg_number(const char *format, ...)
{
    skip();
    return -1;
}

char *pg_url_through(const char *url, const char *host, const char *port)
{
    skip();
    return NULL;
}

void pg_url_target(const char *url, char out_host[256], char out_port[16])
{
    *out_host = *out_port = '\0';
    skip();
}

#endif
