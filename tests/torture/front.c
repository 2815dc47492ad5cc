#include "tests/torture/front.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

enum { IDLE_MS = 1000, UP_MS = 10000 };

static const char *program(void)
{
    static const char *const paths[] = {"/usr/sbin/haproxy", "/usr/local/sbin/haproxy",
                                        "/usr/bin/haproxy"};
    const char *named = getenv("SQLOCK_TEST_HAPROXY");

    if (named && access(named, X_OK) == 0)
        return named;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

static const char *socket_name(const struct cell *c)
{
    return c->kind->family == FAMILY_MYSQL ? "s" : ".s.PGSQL.5432";
}

static bool write_config(const struct cell *c, const char *dir, const char *path)
{
    FILE *f = fopen(path, "w");

    if (!f)
        return false;
    fprintf(f,
            "global\n  maxconn 500\n"
            "defaults\n  mode tcp\n  timeout connect 2s\n  timeout client %dms\n"
            "  timeout server %dms\n"
            "listen primary\n  bind unix@%s/%s mode 666\n  server primary unix@%s/%s\n",
            IDLE_MS, IDLE_MS, dir, socket_name(c), c->engine.front, socket_name(c));
    return fclose(f) == 0;
}

static pid_t run(const char *config, const char *log)
{
    pid_t parent = getpid(), child = fork();

    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && freopen(log, "w", stderr) && freopen("/dev/null", "w", stdout))
        execl(program(), "haproxy", "-db", "-f", config, (char *)NULL);
    _exit(127);
}

bool front_start(struct cell *c)
{
    char *dir, config[300], log[300], path[300];
    int64_t end_us = now_us() + UP_MS * INT64_C(1000);

    if (!(c->fault->servers & SERVERS_HAPROXY))
        return true;
    if (!program()) {
        snprintf(c->engine.why, sizeof c->engine.why, "no haproxy is installed");
        return false;
    }
    dir = temp_dir();
    chmod(dir, 0755);
    snprintf(config, sizeof config, "%s/config", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(path, sizeof path, "%s/%s", dir, socket_name(c));
    if (!engine_front(&c->engine) || !write_config(c, dir, config)) {
        cell_problem(c, "haproxy's configuration could not be written");
        return false;
    }
    c->haproxy = run(config, log);
    while (access(path, F_OK) != 0 && now_us() < end_us)
        sleep_ms(10);
    if (access(path, F_OK) != 0)
        cell_problem(c, "haproxy did not start");
    snprintf(c->engine.client_url, sizeof c->engine.client_url,
             c->kind->family == FAMILY_MYSQL ? "mysql://root@localhost/test?socket=%s/s"
                                             : "postgresql:///postgres?host=%s&user=postgres",
             dir);
    return !c->problem[0];
}

void front_stop(struct cell *c)
{
    if (c->haproxy <= 0)
        return;
    kill(c->haproxy, SIGKILL);
    waitpid(c->haproxy, NULL, 0);
    c->haproxy = 0;
}
