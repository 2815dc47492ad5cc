/* What was applied, what was not, what is unknown; and whether the schema is what it should be. */
#include <string.h>

#include <sqlock/migrate.h>

#include "core/engine/call.h"
#include "core/schema/migrator.h"

const char *sqlock_migration_state_name(sqlock_migration_state state)
{
    static const char *const names[] = {"?",       "pending",    "applied",
                                        "drifted", "unrecorded", "unknown"};
    int known = state >= SQLOCK_MIGRATION_PENDING && state <= SQLOCK_MIGRATION_UNKNOWN;

    return names[known ? state : 0];
}

/* ---- status --------------------------------------------------------------------------------- */

static sqlock_migration_state state_of(const struct migrator *g, const sqlock_migration *known,
                                       const struct record *r)
{
    if (known->version > g->version)
        return SQLOCK_MIGRATION_PENDING;
    if (r == NULL)
        return SQLOCK_MIGRATION_UNRECORDED;
    return strcmp(r->checksum, known->checksum) == 0 ? SQLOCK_MIGRATION_APPLIED
                                                     : SQLOCK_MIGRATION_DRIFTED;
}

static sqlock_migration_info info_of(const struct migrator *g, const sqlock_migration *known,
                                     const struct record *r)
{
    sqlock_migration_info info = {.size = sizeof info};

    info.version = known != NULL ? known->version : r->version;
    info.name = known != NULL ? known->name : r->name;
    info.state = known != NULL ? state_of(g, known, r) : SQLOCK_MIGRATION_UNKNOWN;
    info.checksum = known != NULL ? known->checksum : NULL;
    info.recorded = r != NULL ? r->checksum : NULL;
    info.applied_us = r != NULL ? r->applied : 0;
    return info;
}

/* What the library knows begins at 1 and leaves no number out, so what it does not know is newer,
 * or is none of ours. */
static int tell_all(const struct migrator *g, sqlock_migration_fn fn, void *user)
{
    const sqlock_dialect *d = g->m->driver->dialect;
    sqlock_migration_info info;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->n_migrations; i++) {
        info = info_of(g, &d->migrations[i], migrator_record(g, d->migrations[i].version));
        rc = fn(&info, user);
    }
    for (size_t i = 0; rc == 0 && i < g->n_ledger; i++) {
        if (migrator_known(g, g->ledger[i].version) != NULL)
            continue;
        info = info_of(g, NULL, &g->ledger[i]);
        rc = fn(&info, user);
    }
    return rc;
}

int sqlock_migration_status(const sqlock_driver *driver, const char *url,
                            const sqlock_open_opts *opts, sqlock_migration_fn fn, void *user,
                            sqlock_error *err)
{
    UNCANCELLED;
    struct migrator g;
    int rc, told = 0;

    if ((rc = migrator_init(&g, driver, url, opts)) == 0 &&
        (rc = migrator_connect(&g, JUDGE_NOTHING)) == 0 && (rc = migrator_look(&g)) == 0)
        told = tell_all(&g, fn, user);
    rc = migrator_close(&g, "migration status", rc, err);
    return rc != 0 ? rc : told;
}

/* ---- verify --------------------------------------------------------------------------------- */

static int check_at_latest(struct migrator *g)
{
    int latest = migrator_latest(g);

    if (g->version >= latest)
        return migrator_check_newer(g);
    return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                            g->version > 0 ? "the schema is version %d, older than this library's "
                                             "%d: run the migrations"
                                           : "there is no schema: found version %d, this library's "
                                             "is %d: run the migrations",
                            g->version, latest);
}

static int check_recorded(struct migrator *g)
{
    const sqlock_dialect *d = g->m->driver->dialect;

    for (size_t i = 0; i < d->n_migrations; i++)
        if (migrator_record(g, d->migrations[i].version) == NULL)
            return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                                    "there is no record of migration %03d_%s: a baseline makes one",
                                    d->migrations[i].version, d->migrations[i].name);
    return migrator_check_drift(g);
}

int sqlock_migration_verify(const sqlock_driver *driver, const char *url,
                            const sqlock_open_opts *opts, sqlock_error *err)
{
    UNCANCELLED;
    struct migrator g;
    int rc;

    if ((rc = migrator_init(&g, driver, url, opts)) == 0 &&
        (rc = migrator_connect(&g, JUDGE_NOTHING)) == 0 && (rc = migrator_look(&g)) == 0 &&
        (rc = check_at_latest(&g)) == 0 &&
        (rc = migrator_check_tables(&g, migrator_latest(&g))) == 0)
        rc = check_recorded(&g);
    return migrator_close(&g, "migration verify", rc, err);
}

/* ---- baseline ------------------------------------------------------------------------------- */

/* Of older versions no list of columns is left: there the tables must do. */
static int record_all(struct migrator *g, void *arg)
{
    int version = *(int *)arg, rc;

    if ((rc = migrator_check_newer(g)) != 0 || (rc = migrator_check_drift(g)) != 0 ||
        (rc = migrator_check_opening(g)) != 0 || (rc = migrator_check_tables(g, version)) != 0)
        return rc;
    if (g->version > version)
        return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                                "the schema is version %d already, above %d", g->version, version);
    for (int v = 1; rc == 0 && v <= version; v++)
        if (migrator_record(g, v) == NULL)
            rc = migrator_put_record(g, migrator_known(g, v), 1);
    return rc;
}

int sqlock_migration_baseline(const sqlock_driver *driver, const char *url,
                              const sqlock_open_opts *opts, int version, sqlock_error *err)
{
    UNCANCELLED;
    struct migrator g;
    int rc;

    if ((rc = migrator_init(&g, driver, url, opts)) == 0 &&
        (rc = check_version(g.m->driver->dialect, &version, 1, &g.err)) == 0 &&
        (rc = migrator_connect(&g, JUDGE_ALL)) == 0 &&
        /* before, too: tables that are not whole may have no room for a lease */
        (rc = migrator_check_tables(&g, version)) == 0)
        rc = migrator_alone(&g, 0, record_all, &version);
    return migrator_close(&g, "migration baseline", rc, err);
}
