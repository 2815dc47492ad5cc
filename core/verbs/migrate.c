/* Bringing the schema to this library's version. */
#include <string.h>

#include "core/engine/call.h"
#include "core/engine/hello.h"
#include "core/engine/pool.h"
#include "core/engine/rows.h"
#include "core/verbs/check.h"

struct migrator {
    sqlock *m;
    void *conn;
    int64_t deadline;
    sqlock_rows *rows;
    sqlock_error *err;
};

static int run(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values)
{
    int rc = rendered_has(g->m->texts, stmt, g->err);

    if (rc != 0)
        return rc;
    rows_clear(g->rows);
    return g->m->driver->run(g->conn, stmt, values, 1, g->deadline, g->rows, g->err);
}

static int read_version(struct migrator *g, int *out)
{
    int known = hello_schema_version(g->m->driver), rc, needs;

    if ((rc = run(g, SQLOCK_STMT_MIGRATE_VERSION, NULL)) != 0)
        return rc;
    if (sqlock_rows_count(g->rows) == 0)
        return sqlock_error_set(g->err, SQLOCK_ECORRUPT, 0, "the meta table has no row");
    *out = (int)rows_int(g->rows, 0, SQLOCK_COL_VERSION, 0);
    needs = (int)rows_int(g->rows, 0, SQLOCK_COL_MIN_READER, 0);
    if (*out > known)
        return sqlock_error_set(g->err, SQLOCK_ESCHEMA, 0,
                                "the schema is version %d (for libraries that know %d), newer than "
                                "this library's %d",
                                *out, needs, known);
    return 0;
}

static int apply(struct migrator *g, const sqlock_migration *migration)
{
    sqlock_value record[] = {
        value_int(migration->version),
        value_bytes(migration->name, strlen(migration->name)),
        value_bytes(migration->checksum, strlen(migration->checksum)),
    };

    for (size_t i = 0; i < migration->n_up; i++) {
        char *sql = rendered_text(g->m->texts, migration->up[i]);
        int rc = sql == NULL ? error_nomem(g->err)
                             : g->m->driver->exec(g->conn, sql, g->deadline, g->err);

        sqlock_mem_free(sql);
        if (rc != 0) {
            error_prefix(g->err, "migration %03d_%s, statement %zu", migration->version,
                         migration->name, i + 1);
            return rc;
        }
    }
    return run(g, SQLOCK_STMT_MIGRATE_RECORD, record);
}

/* Everything in one transaction, which also keeps a second migrator out: it finds the work done. */
static int migrate(struct migrator *g, int *out_applied)
{
    const sqlock_driver *driver = g->m->driver;
    const sqlock_dialect *d = driver->dialect;
    int rc, version = 0, applied = 0;

    if ((rc = driver->begin(g->conn, g->deadline, g->err)) != 0)
        return rc;
    if ((rc = run(g, SQLOCK_STMT_MIGRATE_LOCK, NULL)) == 0 && sqlock_rows_count(g->rows) == 0)
        rc = sqlock_error_set(g->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                              "the server gave up waiting for another migrator");
    if (rc == 0)
        rc = read_version(g, &version);
    for (size_t i = 0; rc == 0 && i < d->n_migrations; i++)
        if (d->migrations[i].version > version && (rc = apply(g, &d->migrations[i])) == 0)
            applied++;
    if (rc == 0)
        rc = driver->commit(g->conn, g->deadline, g->err);
    else {
        sqlock_error ignored;

        driver->rollback(g->conn, g->deadline, &ignored);
    }
    if (rc == 0 && out_applied != NULL)
        *out_applied = applied;
    return rc;
}

int sqlock_migrate(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                   int *out_applied, sqlock_error *err)
{
    sqlock_open_opts o;
    sqlock_driver table;
    sqlock_error failure = {0};
    struct migrator g = {.err = &failure};
    int rc;

    if ((rc = check_open_opts(opts, &o, &failure)) == 0 &&
        (rc = check_driver(driver, url, &o, &table, &failure)) == 0)
        rc = manager_new(&table, url, &o, &g.m, &failure);
    if (rc == 0) {
        g.deadline = sqlock_now_us() + g.m->request_us;
        if ((g.rows = rows_new()) == NULL)
            rc = error_nomem(&failure);
        else if ((rc = pool_connect(g.m, -1, g.deadline, &g.conn, &failure)) == 0)
            rc = migrate(&g, out_applied);
    }
    if (g.conn != NULL)
        table.close(g.conn);
    rows_free(g.rows);
    sqlock_close(g.m);
    if (rc == 0)
        return 0;
    error_prefix(&failure, "migrate");
    error_give(err, &failure);
    return rc;
}
