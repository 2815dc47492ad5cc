/* Others at work in the same database: transactions that lock, and housekeeping. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

enum { TRY_AGAIN = 75 }; /* an exit code of the command */

/* The name n7 of the table that locks live in. */
static const char *name_is(const struct cell *c, uint32_t name, char out[64])
{
    if (c->kind->family == FAMILY_POSTGRES)
        snprintf(out, 64, "name = convert_to('n%" PRIu32 "', 'UTF8')", name);
    else
        snprintf(out, 64, "name = 'n%" PRIu32 "'", name);
    return out;
}

/* A guarded write locks the lock's row, and then the application's. So others that hold the second
 * and want the first wait for it, while it waits for them. The server ends one of them: where it
 * lets us choose, the client's. */
bool strike_deadlock(struct cell *c)
{
    uint32_t name = (uint32_t)dice_below(&c->dice, CELL_NAMES);
    struct engine *e = &c->engine;
    char sql[256], where[64];

    cell_hurt(c);
    engine_exec(e, "BEGIN");
    if (c->kind->family == FAMILY_POSTGRES)
        engine_exec(e, "SET LOCAL deadlock_timeout = '3s'");
    snprintf(sql, sizeof sql, "SELECT n FROM torture_guarded WHERE name = %" PRIu32 " FOR UPDATE",
             name);
    engine_exec(e, sql);
    cell_nap(c, 1, 40);
    snprintf(sql, sizeof sql, "SELECT token FROM sqlock_lock WHERE %s FOR UPDATE",
             name_is(c, name, where));
    engine_exec(e, sql);
    engine_exec(e, "ROLLBACK");
    cell_healed(c);
    return true;
}

/* What new sessions begin with; so the old ones are ended. */
static bool isolation(struct cell *c, const char *postgres, const char *mysql, const char *old)
{
    struct engine *e = &c->engine;
    bool fine = engine_exec(e, c->kind->family == FAMILY_POSTGRES ? postgres : mysql) ||
                (c->kind->family == FAMILY_MYSQL && engine_exec(e, old));

    return engine_end_sessions(e) >= 0 && fine;
}

bool strike_serializable(struct cell *c)
{
    cell_hurt(c);
    if (!isolation(c, "ALTER ROLE postgres SET default_transaction_isolation = 'serializable'",
                   "SET GLOBAL transaction_isolation = 'SERIALIZABLE'",
                   "SET GLOBAL tx_isolation = 'SERIALIZABLE'"))
        cell_problem(c, "transactions could not be made serializable");
    cell_nap(c, c->lease_ms, 3 * c->lease_ms);
    if (!isolation(c, "ALTER ROLE postgres RESET default_transaction_isolation",
                   "SET GLOBAL transaction_isolation = 'REPEATABLE-READ'",
                   "SET GLOBAL tx_isolation = 'REPEATABLE-READ'"))
        cell_problem(c, "transactions stayed serializable");
    cell_healed(c);
    return true;
}

bool strike_lock_timeout(struct cell *c)
{
    struct engine *e = &c->engine;

    cell_hurt(c);
    if (!engine_exec(e, "BEGIN") ||
        !engine_exec(e, "SELECT count(token) FROM (SELECT token FROM sqlock_lock FOR UPDATE) s"))
        cell_problem(c, "the rows could not be locked");
    cell_nap(c, c->lease_ms / 3, 3 * c->lease_ms);
    engine_exec(e, "ROLLBACK");
    cell_healed(c);
    return true;
}

/* While clients reap, too. */
bool strike_housekeeping(struct cell *c)
{
    static const char *const words[][4] = {{"reap", "-q", NULL},
                                           {"migrate", "up", NULL},
                                           {"migrate", "verify", NULL},
                                           {"migrate", "status", NULL}};

    cell_hurt(c);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int rc = cell_command(c, words[i]);

        /* Somebody has the whole file of SQLite's: the reaper may say so. */
        if (rc == TRY_AGAIN && i == 0 && c->kind->family == FAMILY_SQLITE)
            rc = 0;
        if (rc != 0)
            cell_problem(c, "sqlock %s %s ended with %d", words[i][0], words[i][1], rc);
    }
    cell_healed(c);
    return true;
}
