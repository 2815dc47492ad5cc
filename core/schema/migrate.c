/* Brings the schema to a version. */
#include <assert.h>
#include <string.h>

#include <sqlock/migrate.h>

#include "core/base/text.h"
#include "core/engine/call.h"
#include "core/engine/locks.h"
#include "core/schema/migrator.h"

struct goal {
    int version;
    unsigned flags;
    int applied;
};

static int migrate_exec_all(struct migrator *g, const sqlock_migration *migration, int down)
{
    const char *const *sql = down ? migration->down : migration->up;
    size_t n = down ? migration->n_down : migration->n_up;

    for (size_t i = 0; i < n; i++) {
        int rc = migrator_exec(g, sql[i]);

        if (rc != 0) {
            error_prefix(&g->err, "migration %03d_%s%s, statement %zu", migration->version,
                         migration->name, down ? " down" : "", i + 1);
            return rc;
        }
    }
    return 0;
}

/* If the statements are not one transaction, a record is made before them: it says that they were
 * begun. So a way down finds what it has to undo. Before the first migration there is no table for
 * the record. There the lock table, which is made last and dropped last, shows the same. */
static int migrate_apply(struct migrator *g, const sqlock_migration *migration)
{
    int rc = 0;

    if (!(g->m->driver->caps & SQLOCK_CAP_TX_DDL) && migration->version > 1)
        rc = migrator_put_record(g, migration, 0);
    if (rc == 0)
        rc = migrate_exec_all(g, migration, 0);
    return rc == 0 ? migrator_put_record(g, migration, 1) : rc;
}

static int migrate_up(struct migrator *g, struct goal *goal)
{
    int rc = 0;

    for (int v = g->version + 1; rc == 0 && v <= goal->version; v++) {
        if (!(goal->flags & SQLOCK_MIGRATE_DRY_RUN))
            rc = migrate_apply(g, migrator_known(g, v));
        goal->applied++;
    }
    return rc;
}

/* A lease that is held belongs to a program that relies on it. */
static int migrate_check_held(struct migrator *g)
{
    sqlock_value own = value_bytes(LOCK_OWN_NS, sizeof LOCK_OWN_NS - 1);
    char shown[64];
    const char *name;
    size_t len;
    int rc = migrator_run(g, SQLOCK_STMT_MIGRATE_HELD, &own);

    if (rc != 0 || sqlock_rows_count(g->rows) == 0)
        return rc;
    name = rows_bytes(g->rows, 0, SQLOCK_COL_HELD_NAME, &len);
    return sqlock_error_set(
        &g->err, SQLOCK_EBUSY, SQLOCK_RETRY,
        "locks are held: %lld, for example \"%s\" (SQLOCK_MIGRATE_HELD migrates down all the same)",
        (long long)rows_int(g->rows, 0, SQLOCK_COL_HELD, 0),
        text_show(shown, sizeof shown, name != NULL ? name : "", len));
}

static int migrate_down(struct migrator *g, struct goal *goal)
{
    int dry = (goal->flags & SQLOCK_MIGRATE_DRY_RUN) != 0, from = migrator_begun(g), rc = 0;

    if (from == 0 && g->token != 0)
        from = 1; /* our lease is in a lock table that an earlier way down did not reach */
    if (from <= goal->version)
        return 0;
    if (!dry)
        rc = migrator_run(g, SQLOCK_STMT_MIGRATE_CLOSE, NULL);
    if (rc == 0 && !(goal->flags & SQLOCK_MIGRATE_HELD))
        rc = migrate_check_held(g);
    for (int v = from; rc == 0 && v > goal->version; v--) {
        rc = dry ? 0 : migrate_exec_all(g, migrator_known(g, v), 1);
        goal->applied++;
    }
    return rc;
}

static int migrate_check_direction(struct migrator *g, const struct goal *goal)
{
    int down = (goal->flags & SQLOCK_MIGRATE_DOWN) != 0;

    if (g->version == goal->version || (g->version > goal->version) == down)
        return 0;
    return sqlock_error_set(&g->err, SQLOCK_EINVAL, 0,
                            down ? "cannot migrate down to version %d: the schema is version %d"
                                 : "cannot migrate up to version %d: the schema is version %d "
                                   "(SQLOCK_MIGRATE_DOWN migrates down)",
                            goal->version, g->version);
}

static int migrate_between(struct migrator *g, void *arg)
{
    struct goal *goal = arg;
    int rc;

    if ((rc = migrator_check_newer(g)) != 0 || (rc = migrator_check_drift(g)) != 0 ||
        (rc = migrate_check_direction(g, goal)) != 0)
        return rc;
    if (goal->flags & SQLOCK_MIGRATE_DOWN)
        return migrate_down(g, goal);
    return (rc = migrator_check_opening(g)) != 0 ? rc : migrate_up(g, goal);
}

static int migrate_check_goal(struct migrator *g, struct goal *goal)
{
    unsigned known = SQLOCK_MIGRATE_DOWN | SQLOCK_MIGRATE_DRY_RUN | SQLOCK_MIGRATE_HELD;

    if (goal->flags & ~known)
        return sqlock_error_set(&g->err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", goal->flags);
    return check_version(g->m->driver->dialect, &goal->version, 0, &g->err);
}

static int migrate_reach(struct migrator *g, struct goal *goal)
{
    int rc;

    assert(g->conn.native != NULL && goal->version >= 0);
    g->changes = 1; /* a dry run reports what a real one would do */
    if (!(goal->flags & SQLOCK_MIGRATE_DRY_RUN)) {
        rc = migrator_alone(g, !(goal->flags & SQLOCK_MIGRATE_DOWN), migrate_between, goal);
        if (rc == 0 && goal->version > 0 && !(goal->flags & SQLOCK_MIGRATE_DOWN))
            migrator_meet_server(g);
        return rc;
    }
    rc = migrator_look(g);
    return rc == 0 ? migrate_between(g, goal) : rc;
}

int sqlock_migrate_to(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                      int version, unsigned flags, int *out_applied, sqlock_error *err)
{
    UNCANCELLED;
    struct goal goal = {version, flags, 0};
    struct migrator g;
    int rc;

    if ((rc = migrator_init(&g, driver, url, opts)) == 0 &&
        (rc = migrate_check_goal(&g, &goal)) == 0 &&
        (rc = migrator_connect(&g,
                               goal.flags & SQLOCK_MIGRATE_DOWN ? JUDGE_WRITABLE : JUDGE_ALL)) == 0)
        rc = migrate_reach(&g, &goal);
    if (rc == 0 && out_applied != NULL)
        *out_applied = goal.applied;
    return migrator_close(&g, "migrate", rc, err);
}

int sqlock_migrate(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                   int *out_applied, sqlock_error *err)
{
    UNCANCELLED;
    return sqlock_migrate_to(driver, url, opts, SQLOCK_SCHEMA_LATEST, 0, out_applied, err);
}
