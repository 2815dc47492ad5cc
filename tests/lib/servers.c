#include "tests/lib/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

#define POSTGRES "tests/tools/pg.sh"
#define MYSQL    "tests/tools/my.sh"

static void stop(const char *command)
{
    if (system(command) != 0)
        print_error("a private server was not stopped: %s\n", command);
}

/* Whatever the script prints is the URL of a server that has to go. */
static int make(struct server *s, const char *before, const char *words, const char *of)
{
    char command[600];
    FILE *f;

    snprintf(command, sizeof command, "%s %s %s '%s'", before, s->tool, words, of);
    f = popen(command, "r");
    if (f == NULL || fgets(s->url, sizeof s->url, f) == NULL)
        s->url[0] = '\0';
    s->url[strcspn(s->url, "\n")] = '\0';
    if (f == NULL || pclose(f) != 0 || s->url[0] == '\0')
        return -1;
    snprintf(command, sizeof command, "%s stop '%s'", s->tool, s->url);
    s->end = undo_later(stop, command);
    return 0;
}

static struct server first(const char *kind, const char *tool, const char *before)
{
    struct server s = {.tool = tool};

    if (!test_wants(kind))
        skip();
    if (make(&s, before, "start", "") == 0)
        return s;
    print_error("SKIP: no private server: %s could not start one\n", tool);
    if (test_strict())
        fail_msg("STRICT=1 asks for every test");
    skip();
    return s;
}

struct server server_postgres(void)
{
    return first("postgres", POSTGRES, "");
}

/* In /dev/shm MariaDB maps its log into memory, and forgets nothing when it is killed. */
struct server server_mysql(void)
{
    return first("mysql", MYSQL, "TMPDIR=/tmp");
}

struct server server_mysql_with(const char *args)
{
    char before[300];

    snprintf(before, sizeof before, "SQLOCK_TEST_MYSQL_ARGS='%s'", args);
    return first("mysql", MYSQL, before);
}

void server_stop(struct server *s)
{
    undo_now(s->end);
}

static bool is_mysql(const struct server *s)
{
    return strcmp(s->tool, MYSQL) == 0;
}

void server_folder(const struct server *s, char out[256])
{
    const char *key = is_mysql(s) ? "socket=" : "host=";
    const char *at = strstr(s->url, key) + strlen(key);

    snprintf(out, 256, "%.*s", (int)strcspn(at, "&"), at);
    if (is_mysql(s))
        *strrchr(out, '/') = '\0';
}

struct server server_copy(const struct server *of)
{
    struct server s = {.tool = of->tool};

    if (make(&s, is_mysql(of) ? "TMPDIR=/tmp" : "", is_mysql(of) ? "copy" : "follow", of->url) != 0)
        fail_msg("%s could not make a copy", of->tool);
    return s;
}

static void tell(const struct server *s, const char *word)
{
    char command[400];

    snprintf(command, sizeof command, "%s %s '%s'", s->tool, word, s->url);
    if (system(command) != 0)
        fail_msg("%s", command);
}

void server_promote(const struct server *standby)
{
    tell(standby, "promote");
}

void server_kill(const struct server *s)
{
    tell(s, "kill");
}

void server_again(const struct server *s)
{
    tell(s, "again");
}

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>

static int64_t ask_postgres(const char *url, const char *sql)
{
    PGconn *c = PQconnectdb(url);
    PGresult *res;
    int64_t number = -1;

    PQclear(PQexec(c, "SET client_min_messages = error"));
    res = PQexec(c, sql);
    if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
        fail_msg("%s\n%s", sql, PQerrorMessage(c));
    if (PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        number = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    PQfinish(c);
    return number;
}

void server_cut(const struct server *standby)
{
    server_exec(standby, "ALTER SYSTEM SET primary_conninfo = ''");
    server_exec(standby, "SELECT pg_reload_conf()");
    for (int i = 0; server_number(standby, "SELECT count(*) FROM pg_stat_wal_receiver") > 0; i++) {
        assert_true(i < 1000);
        sleep_ms(10);
    }
}
#endif

#ifdef TEST_HAVE_MYSQL
#include "tests/lib/my.h"
#endif

static int64_t number_of(const struct server *s, const char *sql)
{
#ifdef TEST_HAVE_MYSQL
    if (is_mysql(s))
        return my_number_at(strstr(s->url, "socket=") + strlen("socket="), sql);
#endif
#ifdef TEST_HAVE_POSTGRES
    return ask_postgres(s->url, sql);
#else
    (void)s, (void)sql;
    return -1;
#endif
}

__attribute__((format(printf, 2, 0))) static int64_t ask(const struct server *s, const char *format,
                                                         va_list args)
{
    char *sql = NULL;
    int64_t number;

    assert_true(vasprintf(&sql, format, args) >= 0);
    number = number_of(s, sql);
    free(sql);
    return number;
}

int64_t server_number(const struct server *s, const char *format, ...)
{
    va_list args;
    int64_t number;

    va_start(args, format);
    number = ask(s, format, args);
    va_end(args);
    return number;
}

void server_exec(const struct server *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)ask(s, format, args);
    va_end(args);
}
