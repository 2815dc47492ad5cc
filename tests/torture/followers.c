#include "tests/torture/cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

enum { FOLLOW_MS = 20000, GRANT_MS = 20000, STOPPED_MS = 5, ASKED_MS = 100 };

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
    if (!engine_exec(e, "%s", ops(c)->ask_synchronous) ||
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

static void all_urls(struct cell *c)
{
    const struct engine *all[CELL_OTHERS + 1] = {&c->engine};
    int n = 1;

    for (; n <= others_wanted(c); n++)
        all[n] = &c->others[n - 1];
    ops(c)->url(all, n, c->engine.client_url, sizeof c->engine.client_url);
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
