/* Which migrations were applied, which were not, and which are unknown. Also whether the schema is
 * what it should be. */
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

/* ---- status ---------------------------------------------------------------------------------- */

static sqlock_migration_state
migration_state_of(const struct migrator *g, const sqlock_migration *known, const struct record *r)
{
    if (known->version > g->version)
        return SQLOCK_MIGRATION_PENDING;
    if (r == NULL)
        return SQLOCK_MIGRATION_UNRECORDED;
    return strcmp(r->checksum, known->checksum) == 0 ? SQLOCK_MIGRATION_APPLIED
                                                     : SQLOCK_MIGRATION_DRIFTED;
}

static sqlock_migration_info
migration_info_of(const struct migrator *g, const sqlock_migration *known, const struct record *r)
{
    sqlock_migration_info info = {.size = sizeof info};

    info.version = known != NULL ? known->version : r->version;
    info.name = known != NULL ? known->name : r->name;
    info.state = known != NULL ? migration_state_of(g, known, r) : SQLOCK_MIGRATION_UNKNOWN;
    info.checksum = known != NULL ? known->checksum : NULL;
    info.recorded = r != NULL ? r->checksum : NULL;
    info.applied_us = r != NULL ? r->applied : 0;
    return info;
}

/* The versions that the library knows count from 1 without a gap. So an unknown one is newer, or is
 * not ours. */
static int status_report_all(const struct migrator *g, sqlock_migration_fn fn, void *user)
{
    const sqlock_dialect *d = g->m->driver->dialect;
    sqlock_migration_info info;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->n_migrations; i++) {
        info =
            migration_info_of(g, &d->migrations[i], migrator_record(g, d->migrations[i].version));
        rc = fn(&info, user);
    }
    for (size_t i = 0; rc == 0 && i < g->n_ledger; i++) {
        if (migrator_known(g, g->ledger[i].version) != NULL)
            continue;
        info = migration_info_of(g, NULL, &g->ledger[i]);
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
    int rc, result = 0;

    if ((rc = migrator_init(&g, driver, url, opts)) == 0 &&
        (rc = migrator_connect(&g, JUDGE_NOTHING)) == 0 && (rc = migrator_look(&g)) == 0)
        result = status_report_all(&g, fn, user);
    rc = migrator_close(&g, "migration status", rc, err);
    return rc != 0 ? rc : result;
}

/* ---- verify ---------------------------------------------------------------------------------- */

static int verify_at_latest(struct migrator *g)
{
    int latest = migrator_latest(g);

    if (g->version >= latest)
        return migrator_check_newer(g);
    if (g->version == 0)
        return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0, "no sqlock tables: run the migrations");
    return sqlock_error_set(
        &g->err, SQLOCK_ESCHEMA, 0,
        "the schema is version %d, older than this library's version %d: run the migrations",
        g->version, latest);
}

static int verify_recorded(struct migrator *g)
{
    const sqlock_dialect *d = g->m->driver->dialect;

    for (size_t i = 0; i < d->n_migrations; i++)
        if (migrator_record(g, d->migrations[i].version) == NULL)
            return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                                    "no record of migration %03d_%s: a baseline makes one",
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
        (rc = verify_at_latest(&g)) == 0 &&
        (rc = migrator_check_tables(&g, migrator_latest(&g))) == 0)
        rc = verify_recorded(&g);
    return migrator_close(&g, "migration verify", rc, err);
}

/* ---- baseline -------------------------------------------------------------------------------- */

/* For older versions there is no list of columns. There it checks only the tables. */
static int baseline_record_all(struct migrator *g, void *arg)
{
    int version = *(int *)arg, rc;

    if ((rc = migrator_check_newer(g)) != 0 || (rc = migrator_check_drift(g)) != 0 ||
        (rc = migrator_check_opening(g)) != 0 || (rc = migrator_check_tables(g, version)) != 0)
        return rc;
    if (g->version > version)
        return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                                "the schema is already version %d, newer than %d", g->version,
                                version);
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
        /* Also before: if the tables are incomplete, they may have no room for a lease. */
        (rc = migrator_check_tables(&g, version)) == 0)
        rc = migrator_alone(&g, 0, baseline_record_all, &version);
    return migrator_close(&g, "migration baseline", rc, err);
}
