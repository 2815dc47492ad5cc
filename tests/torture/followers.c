#include "tests/torture/cell.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

enum { FOLLOW_MS = 20000, GRANT_MS = 20000, STOPPED_MS = 5, ASKED_MS = 100 };
enum { IDLE_MS = 1000, UP_MS = 10000 }; /* of haproxy */

#define TOKENS "SELECT coalesce(max(token), 0) FROM sqlock_lock"

static const struct follow_ops *ops(const struct cell *c)
{
    return c->kind->ops->follow;
}

static int others_wanted(const struct cell *c)
{
    return c->fault->servers & SERVERS_THREE ? 2 : 1;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* All that the primary has written at one moment, as a snapshot of its disk has it: a copy begins
 * with what a crash would leave. */
static bool copy_data(struct engine *e, struct engine *primary)
{
    const char *from = engine_folder(primary), *to = engine_folder(e);
    bool fine;

    if (!shell("rm -rf '%s/data'", to))
        return false;
    engine_pause(primary, true);
    sleep_ms(STOPPED_MS); /* a processor may be in the middle of a call */
    fine = shell("cp -a '%s/data' '%s/data'", from, to);
    engine_pause(primary, false);
    return fine;
}

/* Until the primary answers with so much. */
static bool await(struct cell *c, const char *sql, int64_t least)
{
    int64_t end_us = now_us() + FOLLOW_MS * INT64_C(1000);

    while (engine_number(&c->engine, "%s", sql) < least) {
        if (now_us() > end_us)
            return false;
        sleep_ms(10);
    }
    return true;
}

static bool make_synchronous(struct cell *c)
{
    struct engine *e = &c->engine;

    if (!(c->fault->servers & SERVERS_SYNC))
        return true;
    if (!engine_exec(e, "%s", ops(c)->send_synchronous) ||
        (ops(c)->reload && !engine_exec(e, "%s", ops(c)->reload)) ||
        !await(c, ops(c)->is_synchronous, 1))
        return false;
    sleep_ms(ASKED_MS); /* what was asked to commit before that does not wait */
    return true;
}

/* Beside those who follow by now. */
static bool follow(struct cell *c, int i)
{
    struct engine *e = &c->others[i];
    int64_t n = engine_number(&c->engine, "%s", ops(c)->followers) + 1;

    return copy_data(e, &c->engine) && ops(c)->adapt(e, &c->engine) && engine_launch(e) &&
           (!ops(c)->follow || ops(c)->follow(e, &c->engine)) && await(c, ops(c)->followers, n) &&
           make_synchronous(c);
}

void followers_rebuild(struct cell *c, int i)
{
    if (!c->problem[0] && !follow(c, i))
        cell_problem(c, "server %d does not follow server %d", c->others[i].number,
                     c->engine.number);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static const char *host_of(const struct engine *e)
{
    return e->port ? text("127.0.0.1:%d", e->port) : engine_folder(e);
}

static void all_urls(struct cell *c)
{
    const char *hosts = host_of(&c->engine);

    for (int i = 0; i < others_wanted(c); i++)
        hosts = text("%s,%s", hosts, host_of(&c->others[i]));
    snprintf(c->engine.client_url, sizeof c->engine.client_url, "%s%s%s", ops(c)->url[0], hosts,
             ops(c)->url[1]);
}

bool followers_start(struct cell *c)
{
    if (ops(c)->prepare && !ops(c)->prepare(&c->engine)) {
        cell_problem(c, "nobody can follow the primary");
        return false;
    }
    for (int i = 0; i < others_wanted(c); i++) {
        if (!engine_create(&c->others[i], c->kind, c->engine.wants, i + 2)) {
            cell_problem(c, "%s", c->others[i].why);
            return false;
        }
        followers_rebuild(c, i);
    }
    if (!(c->fault->servers & SERVERS_SIDES) && !c->engine.front[0])
        all_urls(c);
    return !c->problem[0];
}

void followers_stop(struct cell *c)
{
    for (int i = 0; i < CELL_OTHERS; i++)
        if (c->others[i].kind) {
            engine_kill(&c->others[i]);
            engine_stop(&c->others[i]);
        }
}

/* ---- another takes over ---------------------------------------------------------------------- */

void followers_stall(struct cell *c)
{
    for (int i = 0; i < others_wanted(c); i++)
        if (c->others[i].server)
            ops(c)->stall(&c->engine, &c->others[i]);
}

static void swap(struct cell *c, int i)
{
    struct engine old = c->engine;

    c->engine = c->others[i];
    c->others[i] = old;
    memcpy(c->engine.version, old.version, sizeof old.version);
    memcpy(c->engine.front, old.front, sizeof old.front);
    if (!(c->fault->servers & SERVERS_SIDES))
        memcpy(c->engine.client_url, old.client_url, sizeof old.client_url);
    else
        memcpy(c->engine.client_url, c->engine.url, sizeof old.url);
    if (c->engine.front[0] && !engine_front(&c->engine))
        cell_problem(c, "%s", c->engine.why);
    c->token = engine_number(&c->engine, TOKENS);
    c->promoted_us = now_us();
}

void followers_promote(struct cell *c, int i)
{
    if (!ops(c)->promote(&c->others[i]))
        cell_problem(c, "server %d was not promoted", c->others[i].number);
    swap(c, i);
}

void followers_fail_back(struct cell *c, int i)
{
    if (!engine_launch(&c->others[i]))
        cell_problem(c, "server %d did not start again", c->others[i].number);
    swap(c, i);
}

void followers_await_grant(struct cell *c)
{
    int64_t waited_us;

    while ((waited_us = now_us() - c->promoted_us) < GRANT_MS * INT64_C(1000) &&
           engine_number(&c->engine, TOKENS) <= c->token)
        sleep_ms(5);
    if (waited_us > c->longest_us)
        c->longest_us = waited_us;
    if (waited_us >= GRANT_MS * INT64_C(1000))
        cell_problem(c, "server %d has granted nothing for %d ms", c->engine.number, GRANT_MS);
}

/* ---- haproxy before them --------------------------------------------------------------------- */

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
