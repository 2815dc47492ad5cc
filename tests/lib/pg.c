#include "tests/lib/pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

const struct test_server pg_server = {"postgres", "PostgreSQL", "SQLOCK_TEST_POSTGRES_URL"};

const char *pg_url(void)
{
    return test_server_url(&pg_server);
}

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>

static PGconn *reach(const char *url)
{
    PGconn *c = PQconnectdb(url);

    if (PQstatus(c) == CONNECTION_OK)
        return c;
    print_error("%s", PQerrorMessage(c));
    PQfinish(c);
    return NULL;
}

static PGconn *connect_to(const char *url)
{
    PGconn *c = reach(url);

    /* What it must wait for comes soon or never. */
    if (c)
        PQclear(PQexec(c, "SET statement_timeout = '20s'; SET client_min_messages = error"));
    return c;
}

/* -1, or the number in the first field; *ok tells whether the statement ran. */
static int64_t ask(const char *url, const char *sql, bool *ok)
{
    PGconn *c = connect_to(url);
    PGresult *res = c ? PQexec(c, sql) : NULL;
    ExecStatusType status = PQresultStatus(res);
    int64_t number = -1;

    *ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (c && !*ok)
        print_error("%s\n%s", sql, PQerrorMessage(c));
    if (status == PGRES_TUPLES_OK && PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        number = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    PQfinish(c);
    return number;
}

__attribute__((format(printf, 1, 0))) static int64_t ask_format(const char *format, va_list args)
{
    const char *url = pg_url();
    char *sql = NULL;
    bool ok = false;
    int64_t number;

    if (vasprintf(&sql, format, args) < 0)
        fail_msg("out of memory");
    number = ask(url, sql, &ok);
    free(sql);
    if (!ok)
        fail_msg("a statement of the test failed");
    return number;
}

void pg_exec(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    ask_format(format, args);
    va_end(args);
}

int64_t pg_number(const char *format, ...)
{
    va_list args;
    int64_t number;

    va_start(args, format);
    number = ask_format(format, args);
    va_end(args);
    return number;
}

static void drop_schema(const char *schema)
{
    char sql[128];
    bool ok = false;

    snprintf(sql, sizeof sql, "SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS %s CASCADE", schema);
    ask(getenv("SQLOCK_TEST_POSTGRES_URL"), sql, &ok);
}

char *pg_schema_new(void)
{
    unsigned char random[8];
    char name[32] = "test_";

    pg_url();
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        fail_msg("getrandom failed");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(name + strlen(name), 3, "%02x", random[i]);
    pg_exec("CREATE SCHEMA %s", name);
    return undo_later(drop_schema, name);
}

void pg_schema_drop(char *schema)
{
    if (schema && !undo_now(schema))
        fail_msg("%s is not of pg_schema_new()", schema);
}

static PQconninfoOption *parse(const char *url)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);

    if (!options)
        fail_msg("%s: %s", url, why ? why : "?");
    return options;
}

char *pg_url_through(const char *url, const char *host, const char *port)
{
    PQconninfoOption *options = parse(url);
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);

    if (!f)
        fail_msg("open_memstream failed");
    fprintf(f, "postgresql://?host=%s&port=%s", host, port);
    for (PQconninfoOption *o = options; o->keyword; o++) {
        if (!o->val || strcmp(o->keyword, "host") == 0 || strcmp(o->keyword, "port") == 0 ||
            strcmp(o->keyword, "hostaddr") == 0)
            continue;
        fprintf(f, "&%s=", o->keyword);
        for (const char *p = o->val; *p; p++)
            fprintf(f, "%%%02X", (unsigned char)*p);
    }
    fclose(f);
    PQconninfoFree(options);
    return out;
}

/* Nothing is set: behind a pooler the session is somebody else's next. */
void pg_url_target(const char *url, char out_host[256], char out_port[16])
{
    PGconn *c = reach(url);
    const char *host = c ? PQhost(c) : "";
    const char *port = c ? PQport(c) : "";
    int n;

    /* libpq has found out what URL, environment and defaults come to. */
    if (!c)
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

char *pg_schema_new(void)
{
    skip();
    return NULL;
}

void pg_schema_drop(char *schema)
{
    (void)schema;
}

void pg_exec(const char *format, ...)
{
    (void)format;
    skip();
}

int64_t pg_number(const char *format, ...)
{
    (void)format;
    skip();
    return -1;
}

char *pg_url_through(const char *url, const char *host, const char *port)
{
    (void)url;
    (void)host;
    (void)port;
    skip();
    return NULL;
}

void pg_url_target(const char *url, char out_host[256], char out_port[16])
{
    (void)url;
    *out_host = *out_port = '\0';
    skip();
}

#endif
