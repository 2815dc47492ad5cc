/* haproxy before the servers of a cell: it leads to whichever is the primary, and cuts links that
 * are idle for a second. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/cell.h"
#include "tests/torture/fault.h"

enum { IDLE_MS = 1000, UP_MS = 10000 };

static bool write_config(const struct cell *c, const char *dir, const char *socket)
{
    FILE *f = fopen(text("%s/config", dir), "w");

    if (!f)
        return false;
    fprintf(f,
            "global\n  maxconn 500\n"
            "defaults\n  mode tcp\n  timeout connect 2s\n  timeout client %dms\n"
            "  timeout server %dms\n"
            "listen primary\n  bind unix@%s/%s mode 666\n  server primary unix@%s/%s\n",
            IDLE_MS, IDLE_MS, dir, socket, c->engine.front, socket);
    return fclose(f) == 0;
}

bool front_start(struct cell *c)
{
    const bool mysql = c->kind->family == FAMILY_MYSQL;
    const char *socket = mysql ? "s" : ".s.PGSQL.5432", *path, *dir;
    int64_t end_us = now_us() + UP_MS * INT64_C(1000);
    char program[256];

    if (!(c->fault->servers & SERVERS_HAPROXY))
        return true;
    if (!engine_script(&c->engine,
                       "PATH=$PATH:/usr/sbin:/usr/local/sbin; "
                       "command -v ${SQLOCK_TEST_HAPROXY:-haproxy} || echo no haproxy is installed",
                       program, sizeof program) ||
        *program != '/') {
        snprintf(c->engine.why, sizeof c->engine.why, "%s", program);
        return false;
    }
    dir = temp_dir();
    chmod(dir, 0755);
    path = text("%s/%s", dir, socket);
    if (!engine_front(&c->engine) || !write_config(c, dir, socket)) {
        cell_problem(c, "haproxy's configuration could not be written");
        return false;
    }
    c->haproxy = cell_shell(
        c, text("exec '%s' -db -f '%s/config' >/dev/null 2>'%s/log'", program, dir, dir));
    while (access(path, F_OK) != 0 && now_us() < end_us)
        sleep_ms(10);
    if (access(path, F_OK) != 0)
        cell_problem(c, "haproxy did not start");
    snprintf(c->engine.client_url, sizeof c->engine.client_url,
             mysql ? "mysql://root@localhost/test?socket=%s/s"
                   : "postgresql:///postgres?host=%s&user=postgres",
             dir);
    return !c->problem[0];
}

void front_stop(struct cell *c)
{
    if (c->haproxy > 0) {
        kill(c->haproxy, SIGKILL);
        waitpid(c->haproxy, NULL, 0);
    }
    c->haproxy = 0;
}
