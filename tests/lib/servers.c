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

/* Whatever the script prints is the URL of a server that has to go. MariaDB forgets nothing when it
 * is killed in /dev/shm. */
static int make(struct server *s, const char *words, const char *of)
{
    char command[400];
    FILE *f;

    snprintf(command, sizeof command, "%s %s %s '%s'",
             strcmp(s->tool, MYSQL) == 0 ? "TMPDIR=/tmp" : "", s->tool, words, of);
    f = popen(command, "r");
    if (f == NULL || fgets(s->url, sizeof s->url, f) == NULL)
        s->url[0] = '\0';
    s->url[strcspn(s->url, "\n")] = '\0';
    if (f == NULL || pclose(f) != 0 || s->url[0] == '\0')
        return -1;
    snprintf(command, sizeof command, "%s stop '%s'", s->tool, s->url);
    undo_later(stop, command);
    return 0;
}

static struct server first(const char *kind, const char *tool)
{
    struct server s = {.tool = tool};

    if (!test_wants(kind))
        skip();
    if (make(&s, "start", "") == 0)
        return s;
    print_error("SKIP: no private server: %s could not start one\n", tool);
    if (test_strict())
        fail_msg("STRICT=1 asks for every test");
    skip();
    return s;
}

struct server server_postgres(void)
{
    return first("postgres", POSTGRES);
}

struct server server_mysql(void)
{
    return first("mysql", MYSQL);
}

struct server server_copy(const struct server *of)
{
    struct server s = {.tool = of->tool};

    if (make(&s, strcmp(of->tool, POSTGRES) == 0 ? "follow" : "copy", of->url) != 0)
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
    PGresult *res = PQexec(c, sql);
    int64_t number = -1;

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

int64_t server_number(const struct server *s, const char *sql)
{
#ifdef TEST_HAVE_MYSQL
    if (strcmp(s->tool, MYSQL) == 0)
        return my_number_at(strstr(s->url, "socket=") + strlen("socket="), sql);
#endif
#ifdef TEST_HAVE_POSTGRES
    return ask_postgres(s->url, sql);
#else
    (void)s, (void)sql;
    return -1;
#endif
}

void server_exec(const struct server *s, const char *sql)
{
#ifdef TEST_HAVE_MYSQL
    if (strcmp(s->tool, MYSQL) == 0) {
        my_exec_at(strstr(s->url, "socket=") + strlen("socket="), sql);
        return;
    }
#endif
    (void)server_number(s, sql);
}
