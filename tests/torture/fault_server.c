/* Servers that die, sleep, live in another time, or have no room; and others at work in the same
 * database: transactions that lock, and housekeeping. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

void strike_kill_server(struct cell *c)
{
    cell_hurt(c);
    engine_kill(&c->engine);
    cell_nap(c, 0, 100);
    if (!engine_launch(&c->engine))
        cell_problem(c, "the server did not start again");
    cell_healed(c);
}

void strike_stop_server(struct cell *c)
{
    cell_hurt(c);
    engine_pause(&c->engine, true);
    cell_nap(c, c->lease_ms, 2 * c->lease_ms);
    engine_pause(&c->engine, false);
    cell_healed(c);
}

/* Back by 300 s, and forth again: what was held at the first is held 300 s too long if nobody gives
 * it back, so the second comes soon, and the last step of a cell is one forward. */
void strike_clock(struct cell *c)
{
    bool back = c->events % 2 == 0;

    cell_hurt(c);
    engine_clock(&c->engine, back ? -300 : 0);
    cell_nap(c, 20, 60);
    cell_healed(c);
    if (back) {
        cell_nap(c, 50, 2 * c->lease_ms);
        strike_clock(c);
    }
}

void strike_end_sessions(struct cell *c)
{
    cell_hurt(c);
    if (c->kind->ops->sessions(&c->engine, true) < 0)
        cell_problem(c, "no session could be ended");
    cell_healed(c);
}

/* Small writes go on in room that servers keep; a large one finds the wall. A server that cannot
 * write at all may end itself. */
void strike_disk_full(struct cell *c)
{
    struct engine *e = &c->engine;
    const char *const *bulk = e->kind->ops->bulk;

    cell_hurt(c);
    engine_exec(e, "%s", bulk[0]);
    engine_fill(e);
    engine_exec(e, "%s", bulk[1]);
    cell_nap(c, 50, c->lease_ms);
    engine_free(e);
    if (e->kind->ops->script && !engine_runs(e) && !engine_launch(e))
        cell_problem(c, "the server did not start again when there was room");
    cell_healed(c);
    engine_exec(e, "%s", bulk[2]);
}

/* ---- others at work -------------------------------------------------------------------------- */

/* A guarded write locks the lock's row, and then the application's. So others that hold the second
 * and want the first wait for it, while it waits for them. The server ends one of them: where it
 * lets us choose, the client's. */
void strike_deadlock(struct cell *c)
{
    uint32_t name = (uint32_t)dice_below(&c->dice, CELL_NAMES);
    const bool postgres = c->kind->family == FAMILY_POSTGRES;
    struct engine *e = &c->engine;

    cell_hurt(c);
    engine_exec(e, "BEGIN");
    if (postgres)
        engine_exec(e, "SET LOCAL deadlock_timeout = '3s'");
    engine_exec(e, "SELECT n FROM torture_guarded WHERE name = %" PRIu32 " FOR UPDATE", name);
    cell_nap(c, 1, 40);
    engine_exec(e, "SELECT token FROM sqlock_lock WHERE name = %s'n%" PRIu32 "'%s FOR UPDATE",
                postgres ? "convert_to(" : "", name, postgres ? ", 'UTF8')" : "");
    engine_exec(e, "ROLLBACK");
    cell_healed(c);
}

/* What new sessions begin with; the old ones are ended. Older MySQLs have another name for it. */
static bool isolation(struct cell *c, const char *postgres, const char *mysql)
{
    struct engine *e = &c->engine;
    bool fine = c->kind->family == FAMILY_POSTGRES
                    ? engine_exec(e, "ALTER ROLE postgres %s", postgres)
                    : engine_exec(e, "SET GLOBAL transaction_isolation = '%s'", mysql) ||
                          engine_exec(e, "SET GLOBAL tx_isolation = '%s'", mysql);

    return c->kind->ops->sessions(e, true) >= 0 && fine;
}

void strike_serializable(struct cell *c)
{
    cell_hurt(c);
    if (!isolation(c, "SET default_transaction_isolation = 'serializable'", "SERIALIZABLE"))
        cell_problem(c, "transactions could not be made serializable");
    cell_nap(c, c->lease_ms, 3 * c->lease_ms);
    if (!isolation(c, "RESET default_transaction_isolation", "REPEATABLE-READ"))
        cell_problem(c, "transactions stayed serializable");
    cell_healed(c);
}

void strike_lock_timeout(struct cell *c)
{
    const bool postgres = c->kind->family == FAMILY_POSTGRES;
    struct engine *e = &c->engine;

    /* In the order of the rows: by another index it would meet a grant in a deadlock. */
    cell_hurt(c);
    if (!engine_exec(e, "BEGIN") ||
        !engine_exec(e, "SELECT count(token) FROM (SELECT token FROM sqlock_lock%s FOR UPDATE) s",
                     postgres ? "" : " FORCE INDEX (PRIMARY)"))
        cell_problem(c, "the rows could not be locked");
    cell_nap(c, c->lease_ms / 3, 3 * c->lease_ms);
    engine_exec(e, "ROLLBACK");
    cell_healed(c);
}

/* While clients reap, too. */
void strike_housekeeping(struct cell *c)
{
    enum { TRY_AGAIN = 75 }; /* an exit code of the command */
    static const char *const words[] = {"reap -q", "migrate up", "migrate verify",
                                        "migrate status"};

    cell_hurt(c);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int status = system(text("timeout -s KILL 20 '%s' -U '%s' %s %s >>'%s/command.log' 2>&1",
                                 TEST_COMMAND, c->engine.client_url,
                                 c->kind->unprepared ? "--unprepared" : "", words[i], c->folder));
        int rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

        /* Somebody has the whole file of SQLite's: the reaper may say so. */
        if (rc != 0 && !(rc == TRY_AGAIN && i == 0 && c->kind->family == FAMILY_SQLITE))
            cell_problem(c, "sqlock %s ended with %d", words[i], rc);
    }
    cell_healed(c);
}
