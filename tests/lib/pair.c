#include "tests/lib/pair.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/my.h"
#include "tests/lib/proxy.h"
#include "tests/lib/undo.h"

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>
#endif

struct pair {
    enum pair_kind kind;
    char *servers[2]; /* their URLs, to be stopped by */
    char dirs[2][200];
    struct proxy *proxies[2];
    char url[600], one[2][300];
};

/* ---- their processes --------------------------------------------------------------------------
 */

static pid_t first_process(const struct pair *p)
{
    char path[300];
    long pid = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", p->dirs[0],
             p->kind == PAIR_POSTGRES ? "data/postmaster.pid" : "pid");
    f = fopen(path, "r");
    if (f && fscanf(f, "%ld", &pid) != 1)
        pid = 0;
    if (f)
        fclose(f);
    return (pid_t)pid;
}

static void signal_all(const struct pair *p, int number)
{
    pid_t first = first_process(p);

    if (first <= 1)
        return;
    kill(first, number);
    child_signal_all_of(first, number);
}

/* ---- their start ------------------------------------------------------------------------------
 */

static void stop_server(const char *url)
{
    char command[400];

    snprintf(command, sizeof command, "tests/tools/%s.sh stop '%s'",
             strncmp(url, "mysql", 5) == 0 ? "my" : "pg", url);
    if (system(command) != 0)
        fprintf(stderr, "a server of a pair was not stopped: %s\n", url);
}

static void give_up(void)
{
    print_error("SKIP: a pair of servers could not be started\n");
    if (test_strict())
        fail_msg("STRICT=1 asks for every test");
    skip();
}

/* The output of a command is a server's URL. */
static void start_server(struct pair *p, int which, const char *command)
{
    const char *key = p->kind == PAIR_POSTGRES ? "host=" : "socket=", *at;
    FILE *f = popen(command, "r");
    char url[256] = "";

    if (!f || !fgets(url, sizeof url, f))
        url[0] = '\0';
    if (f && pclose(f) != 0)
        url[0] = '\0';
    url[strcspn(url, "\n")] = '\0';
    if ((at = strstr(url, key)) == NULL)
        give_up();
    p->servers[which] = undo_later(stop_server, url);
    snprintf(p->dirs[which], sizeof p->dirs[which], "%.*s", (int)strcspn(at + strlen(key), "&"),
             at + strlen(key));
    if (p->kind == PAIR_MARIADB)
        *strrchr(p->dirs[which], '/') = '\0';
}

static void start_postgres(struct pair *p)
{
    char command[400];

    start_server(p, 0, "tests/tools/pg.sh start");
    snprintf(command, sizeof command, "tests/tools/pg.sh follow '%s'", p->servers[0]);
    start_server(p, 1, command);
    for (int i = 0; i < 2; i++)
        snprintf(p->one[i], sizeof p->one[i], "postgresql:///postgres?host=%s&user=postgres",
                 p->dirs[i]);
    snprintf(p->url, sizeof p->url, "postgresql:///postgres?host=%s,%s&user=postgres", p->dirs[0],
             p->dirs[1]);
    pair_exec(p, 0, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    pair_exec(p, 0, "SELECT pg_reload_conf()");
    pair_await(p);
}

/* Hosts of MariaDB's URLs are reached by TCP. */
static void start_mariadb(struct pair *p)
{
    char command[300], sql[300];

    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "SQLOCK_TEST_MYSQL_ARGS='--log-bin=b --server-id=%d --sync-binlog=1 "
                 "--binlog-format=ROW --report-host=h' tests/tools/my.sh start",
                 i + 1);
        start_server(p, i, command);
        snprintf(command, sizeof command, "%s/s", p->dirs[i]);
        p->proxies[i] = proxy_start_unix(command);
        snprintf(p->one[i], sizeof p->one[i], "mysql://root@127.0.0.1:%d/test",
                 proxy_port(p->proxies[i]));
    }
    snprintf(p->url, sizeof p->url, "mysql://root@127.0.0.1:%d,127.0.0.1:%d/test",
             proxy_port(p->proxies[0]), proxy_port(p->proxies[1]));
    snprintf(sql, sizeof sql,
             "SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', "
             "MASTER_PORT = %d, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; START SLAVE",
             proxy_port(p->proxies[0]));
    pair_exec(p, 1, sql);
    pair_await(p);
}

struct pair *pair_start(enum pair_kind kind)
{
    struct pair *p;

    if (!test_wants(kind == PAIR_POSTGRES ? "postgres" : "mysql"))
        skip();
    p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->kind = kind;
    if (kind == PAIR_POSTGRES)
        start_postgres(p);
    else
        start_mariadb(p);
    return p;
}

void pair_stop(struct pair *p)
{
    if (p == NULL)
        return;
    pair_thaw(p);
    for (int i = 0; i < 2; i++)
        proxy_stop(p->proxies[i]);
    for (int i = 0; i < 2; i++)
        undo_now(p->servers[i]);
    free(p);
}

const char *pair_url(const struct pair *p)
{
    return p->url;
}

const char *pair_one(const struct pair *p, int which)
{
    return p->one[which];
}

void pair_kill(struct pair *p)
{
    signal_all(p, SIGKILL);
}

void pair_freeze(struct pair *p)
{
    signal_all(p, SIGSTOP);
}

void pair_thaw(struct pair *p)
{
    signal_all(p, SIGCONT);
}

/* ---- SQL --------------------------------------------------------------------------------------
 */

static int64_t ask(struct pair *p, int which, const char *sql)
{
#ifdef TEST_HAVE_POSTGRES
    if (p->kind == PAIR_POSTGRES) {
        PGconn *c = PQconnectdb(p->one[which]);
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
#endif
    char socket[220];

    snprintf(socket, sizeof socket, "%s/s", p->dirs[which]);
    return my_number_at(socket, sql);
}

void pair_exec(struct pair *p, int which, const char *sql)
{
    (void)ask(p, which, sql);
}

int64_t pair_number(struct pair *p, int which, const char *sql)
{
    return ask(p, which, sql);
}

void pair_await(struct pair *p)
{
    char sql[200];

    if (p->kind == PAIR_POSTGRES) {
        assert_soon(
            ask(p, 0, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1,
            patience_ms(20000));
        return;
    }
    /* no statement takes a text out of here: a number stands for where the binlog ends */
    snprintf(sql, sizeof sql, "SELECT SUBSTRING_INDEX(@@gtid_binlog_pos, '-', -1)");
    for (int64_t last = -1, now; (now = ask(p, 0, sql)) != last; last = now)
        ;
    snprintf(sql, sizeof sql, "SELECT MASTER_GTID_WAIT('0-1-%lld', 20)",
             (long long)ask(p, 0, "SELECT SUBSTRING_INDEX(@@gtid_binlog_pos, '-', -1)"));
    assert_int_equal(ask(p, 1, sql), 0);
}

void pair_promote(struct pair *p)
{
    pair_exec(p, 1,
              p->kind == PAIR_POSTGRES ? "SELECT pg_promote(true, 30)"
                                       : "STOP SLAVE; SET GLOBAL read_only = 0");
}
