#include "tests/lib/pair.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/proxy.h"

/* Of the first one's processes: all. */
static void signal_all(const struct pair *p, int number)
{
    char path[300];
    long pid = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", p->dirs[0],
             p->kind == PAIR_POSTGRES ? "data/postmaster.pid" : "pid");
    f = fopen(path, "r");
    if (f && fscanf(f, "%ld", &pid) == 1 && pid > 1) {
        kill((pid_t)pid, number);
        child_signal_all_of((pid_t)pid, number);
    }
    if (f)
        fclose(f);
}

/* ---- their start ----------------------------------------------------------------------------- */

static void start_postgres(struct pair *p)
{
    p->servers[0] = server_postgres();
    p->servers[1] = server_copy(&p->servers[0]);
    for (int i = 0; i < 2; i++)
        server_folder(&p->servers[i], p->dirs[i]);
    snprintf(p->url, sizeof p->url, "postgresql:///postgres?host=%s,%s&user=postgres", p->dirs[0],
             p->dirs[1]);
    server_set(&p->servers[0], "synchronous_standby_names", "*");
    pair_await(p);
}

/* Hosts of MariaDB's URLs are reached by TCP. */
static void start_mariadb(struct pair *p)
{
    char text[300];

    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "--log-bin=b --server-id=%d --sync-binlog=1 --binlog-format=ROW --report-host=h",
                 i + 1);
        p->servers[i] = server_mysql_with(text);
        server_folder(&p->servers[i], p->dirs[i]);
        snprintf(text, sizeof text, "%s/s", p->dirs[i]);
        p->proxies[i] = proxy_start_unix(text);
    }
    snprintf(p->url, sizeof p->url, "mysql://root@127.0.0.1:%d,127.0.0.1:%d/test",
             proxy_port(p->proxies[0]), proxy_port(p->proxies[1]));
    server_exec(&p->servers[1],
                "SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', "
                "MASTER_PORT = %d, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; START SLAVE",
                proxy_port(p->proxies[0]));
    pair_await(p);
}

struct pair *pair_start(enum pair_kind kind)
{
    struct pair *p = calloc(1, sizeof *p);

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
    signal_all(p, SIGCONT);
    for (int i = 0; i < 2; i++)
        proxy_stop(p->proxies[i]);
    for (int i = 0; i < 2; i++)
        server_stop(&p->servers[i]);
    free(p);
}

const char *pair_url(const struct pair *p)
{
    return p->url;
}

void pair_kill(struct pair *p)
{
    server_kill(&p->servers[0]);
}

void pair_freeze(struct pair *p)
{
    signal_all(p, SIGSTOP);
}

void pair_await(struct pair *p)
{
    static const char last_commit[] = "SELECT SUBSTRING_INDEX(@@gtid_binlog_pos, '-', -1)";
    int64_t last = -1, now;

    if (p->kind == PAIR_POSTGRES) {
        assert_soon(server_number(&p->servers[0], "SELECT count(*) FROM pg_stat_replication "
                                                  "WHERE sync_state = 'sync'") == 1,
                    patience_ms(20000));
        return;
    }
    while ((now = server_number(&p->servers[0], last_commit)) != last)
        last = now;
    assert_int_equal(
        server_number(&p->servers[1], "SELECT MASTER_GTID_WAIT('0-1-%lld', 20)", (long long)last),
        0);
}

void pair_promote(struct pair *p)
{
    server_exec(&p->servers[1], p->kind == PAIR_POSTGRES ? "SELECT pg_promote(true, 30)"
                                                         : "STOP SLAVE; SET GLOBAL read_only = 0");
}
