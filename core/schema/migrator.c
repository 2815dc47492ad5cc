/* One connection for migrations: its requests, and what the database says about its schema. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <sqlock/migrate.h>

#include "core/base/random.h"
#include "core/engine/arguments.h"
#include "core/engine/call.h"
#include "core/engine/handshake.h"
#include "core/engine/hosts.h"
#include "core/engine/opening.h"
#include "core/schema/migrator.h"

int migrator_init(struct migrator *g, const sqlock_driver *driver, const char *url,
                  const sqlock_open_opts *opts)
{
    sqlock_driver table;
    sqlock_open_opts o;
    int rc;

    memset(g, 0, sizeof *g);
    if ((rc = check_open_opts(opts, &o, &g->err)) != 0 ||
        (rc = check_driver(driver, url, &o, &table, &g->err)) != 0 ||
        (rc = manager_new(&table, url, &o, &g->m, &g->err)) != 0)
        return rc;
    return (g->rows = rows_new()) == NULL ? error_nomem(&g->err) : 0;
}

static int migrator_open(struct migrator *g, uint32_t host, int64_t until, struct conn *out,
                         sqlock_error *err)
{
    *out =
        (struct conn){.busy = 1, .wake = -1, .until = TIME_NEVER, .host = host > 0 ? host - 1 : 0};
    return opening_connect(g->m, -1, host, until, &out->native, err);
}

static int migrator_visit(void *arg, uint32_t host, int last_resort, int64_t until,
                          sqlock_error *err)
{
    (void)last_resort;
    struct migrator *g = arg;

    return migrator_open(g, host, until, &g->conn, err);
}

/* Learn what the server says about itself before any of our tables is read. It is not known yet who
 * made those tables, and a stranger's trigger or view would run with our privileges. So this makes
 * the handshake with table names that no one can know, on a separate connection. */
static int migrator_judge(struct migrator *g, uint32_t host, int64_t until, sqlock_error *err)
{
    struct texts *ours = g->m->texts;
    struct conn c;
    int rc;

    g->m->texts = g->nowhere;
    rc = migrator_open(g, host, until, &c, err);
    g->m->texts = ours;
    if (rc != 0)
        return rc;
    rc = handshake_server(g->m, &c, until, err);
    g->m->driver->close(c.native);
    return rc == SQLOCK_EREFUSED && g->judging == JUDGE_WRITABLE ? 0 : rc;
}

static int migrator_visit_judged(void *arg, uint32_t host, int last_resort, int64_t until,
                                 sqlock_error *err)
{
    int rc = migrator_judge(arg, host, until, err);

    return rc != 0 ? rc : migrator_visit(arg, host, last_resort, until, err);
}

static int migrator_render_nowhere(struct migrator *g)
{
    const sqlock_dialect *d = g->m->driver->dialect;
    unsigned char random[8];
    char prefix[2 + 2 * sizeof random] = "x";

    if (random_bytes(random, sizeof random) != 0)
        return sqlock_error_set(&g->err, SQLOCK_ESYS, 0, "no random bytes available");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(prefix + 1 + 2 * i, 3, "%02x", random[i]);
    return texts_render(d, d->fixed_schema ? NULL : texts_schema(g->m->texts), prefix, &g->nowhere,
                        &g->err);
}

static int migrator_walk(struct migrator *g, enum judging judging, int64_t deadline)
{
    int rc = judging != JUDGE_NOTHING ? migrator_render_nowhere(g) : 0;

    g->judging = judging;
    g->m->flags |= SQLOCK_CONN_MAKE;
    if (rc == 0)
        rc = hosts_walk(g->m, judging != JUDGE_NOTHING ? migrator_visit_judged : migrator_visit, g,
                        deadline, &g->err);
    texts_free(g->nowhere);
    g->nowhere = NULL;
    return rc;
}

/* A replica may lag behind. With several hosts it is looked at only if no host can be written
 * to. */
int migrator_connect(struct migrator *g, enum judging judging)
{
    int64_t now = sqlock_now_us(), deadline = now + g->m->request_us;
    int rc;

    if (judging != JUDGE_NOTHING || g->m->n_hosts <= 1)
        return migrator_walk(g, judging, deadline);
    rc = migrator_walk(g, JUDGE_WRITABLE, now + g->m->request_us / 2);
    return rc == 0 ? 0 : migrator_walk(g, JUDGE_NOTHING, deadline);
}

void migrator_meet_server(struct migrator *g)
{
    sqlock_value accept_weak = value_int((g->m->flags & SQLOCK_OPEN_ACCEPT_WEAK) != 0), values[3];
    int64_t deadline = sqlock_now_us() + g->m->request_us;
    sqlock_error before = g->err;
    char server[sizeof g->m->server_id];
    const void *said;
    size_t len;

    if (migrator_send(g, SQLOCK_STMT_HANDSHAKE, &accept_weak, deadline) == 0 &&
        sqlock_rows_count(g->rows) > 0 &&
        rows_int(g->rows, 0, SQLOCK_COL_OUTCOME, 0) == SQLOCK_OUT_DONE &&
        rows_int(g->rows, 0, SQLOCK_COL_SAME, 1) == 0 &&
        (said = rows_bytes(g->rows, 0, SQLOCK_COL_SERVER, &len)) != NULL && len <= sizeof server) {
        memcpy(server, said, len);
        values[0] = value_bytes(server, len);
        values[1] = value_int((g->m->flags & SQLOCK_OPEN_LIFT_TOKENS) != 0);
        values[2] = value_int(0);
        migrator_send(g, SQLOCK_STMT_REINCARNATE, values, deadline);
    }
    g->err = before;
}

int migrator_close(struct migrator *g, const char *verb, int rc, sqlock_error *err)
{
    if (g->conn.native != NULL)
        g->m->driver->close(g->conn.native);
    sqlock_mem_free(g->ledger);
    rows_free(g->rows);
    sqlock_close(g->m);
    if (rc == 0)
        return 0;
    error_prefix(&g->err, "%s", verb);
    error_give(err, &g->err);
    return rc;
}

int migrator_send(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values,
                  int64_t deadline)
{
    rows_clear(g->rows);
    return call_rows(g->m, &g->conn, NULL, stmt, values, 1, deadline, g->rows, NULL, &g->err);
}

int migrator_run(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values)
{
    int64_t deadline;
    int rc = guard_keep(g, &deadline);

    return rc != 0 ? rc : migrator_send(g, stmt, values, deadline);
}

int migrator_exec(struct migrator *g, const char *sql)
{
    char *text = texts_more(g->m->texts, sql);
    int64_t deadline;
    int rc;

    if (text == NULL)
        return error_nomem(&g->err);
    if ((rc = guard_keep(g, &deadline)) == 0)
        rc = g->m->driver->exec(g->conn.native, text, deadline, &g->err);
    sqlock_mem_free(text);
    return rc;
}

/* ---- what the database has ------------------------------------------------------------------- */

static void migrator_read_text(const sqlock_rows *rows, size_t row, size_t column, char *out,
                               size_t size)
{
    size_t len;
    const char *text = rows_bytes(rows, row, column, &len);

    snprintf(out, size, "%.*s", (int)len, text != NULL ? text : "");
}

/* A stranger may have made a table with our name. */
static int migrator_check_fit(struct migrator *g)
{
    char detail[200];

    if (rows_int(g->rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_UNFIT)
        return 0;
    migrator_read_text(g->rows, 0, SQLOCK_COL_DETAIL, detail, sizeof detail);
    return sqlock_error_set(&g->err, SQLOCK_EREFUSED, 0, "the tables are not safe to use: %s",
                            detail);
}

/* A missing table is an answer, not an error. Some texts look in the catalogue, and answer with a
 * row. If the catalogue hides tables that the user may not read, they try the table itself. */
static int migrator_run_on_table(struct migrator *g, sqlock_stmt stmt, int *out_absent)
{
    sqlock_value changes = value_int(g->changes);
    int rc = migrator_run(g, stmt, &changes);

    *out_absent = rc == SQLOCK_ESCHEMA && strcmp(g->err.sqlstate, "42P01") == 0;
    if (!*out_absent)
        return rc != 0 ? rc : migrator_check_fit(g);
    memset(&g->err, 0, sizeof g->err);
    rows_clear(g->rows);
    return 0;
}

static int migrator_read_ledger(struct migrator *g)
{
    size_t n;
    int rc, absent;

    sqlock_mem_free(g->ledger);
    g->ledger = NULL;
    g->n_ledger = 0;
    if ((rc = migrator_run_on_table(g, SQLOCK_STMT_MIGRATE_LEDGER, &absent)) != 0)
        return rc;
    n = sqlock_rows_count(g->rows);
    if ((g->ledger = sqlock_mem_alloc((n + 1) * sizeof *g->ledger)) == NULL)
        return error_nomem(&g->err);
    for (size_t i = 0; i < n; i++) {
        struct record *r = &g->ledger[g->n_ledger];

        if (rows_int(g->rows, i, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE)
            continue; /* there is no table for records */
        assert(g->n_ledger < n);
        r->version = (int)rows_int(g->rows, i, SQLOCK_COL_VERSION, 0);
        r->applied = rows_int(g->rows, i, SQLOCK_COL_APPLIED, 0);
        migrator_read_text(g->rows, i, SQLOCK_COL_TITLE, r->name, sizeof r->name);
        migrator_read_text(g->rows, i, SQLOCK_COL_CHECKSUM, r->checksum, sizeof r->checksum);
        g->n_ledger++;
    }
    return 0;
}

int migrator_look(struct migrator *g)
{
    int absent, rc = migrator_run_on_table(g, SQLOCK_STMT_MIGRATE_VERSION, &absent);

    if (rc != 0)
        return rc;
    if (!absent && sqlock_rows_count(g->rows) == 0)
        return sqlock_error_set(&g->err, SQLOCK_ECORRUPT, 0, "the meta table has no row");
    g->version = (int)rows_int(g->rows, 0, SQLOCK_COL_VERSION, 0);
    g->min_reader = (int)rows_int(g->rows, 0, SQLOCK_COL_MIN_READER, 0);
    return migrator_read_ledger(g);
}

const struct record *migrator_record(const struct migrator *g, int version)
{
    for (size_t i = 0; i < g->n_ledger && version <= g->version; i++)
        if (g->ledger[i].version == version)
            return &g->ledger[i];
    return NULL;
}

const sqlock_migration *migrator_known(const struct migrator *g, int version)
{
    const sqlock_dialect *d = g->m->driver->dialect;

    for (size_t i = 0; i < d->n_migrations; i++)
        if (d->migrations[i].version == version)
            return &d->migrations[i];
    return NULL;
}

int migrator_latest(const struct migrator *g)
{
    return handshake_schema_version(g->m->driver);
}

int migrator_begun(const struct migrator *g)
{
    int version = g->version;

    for (size_t i = 0; i < g->n_ledger; i++)
        if (g->ledger[i].version > version && migrator_known(g, g->ledger[i].version) != NULL)
            version = g->ledger[i].version;
    return version;
}

int migrator_put_record(struct migrator *g, const sqlock_migration *migration, int done)
{
    sqlock_value record[] = {
        value_int(migration->version),
        value_bytes(migration->name, strlen(migration->name)),
        value_bytes(migration->checksum, strlen(migration->checksum)),
        value_int(done),
    };

    return migrator_run(g, SQLOCK_STMT_MIGRATE_RECORD, record);
}

/* ---- what is wrong with the schema ----------------------------------------------------------- */

int check_version(const sqlock_dialect *d, int *version, int least, sqlock_error *err)
{
    int latest = d->n_migrations > 0 ? d->migrations[d->n_migrations - 1].version : 0;

    if (*version == SQLOCK_SCHEMA_LATEST)
        *version = latest;
    if (*version >= least && *version <= latest)
        return 0;
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "invalid schema version %d (use %d to %d)",
                            *version, least, latest);
}

int migrator_check_newer(struct migrator *g)
{
    if (g->version <= migrator_latest(g))
        return 0;
    return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                            "the schema is version %d (for libraries of generation %d), newer than "
                            "this library's %d",
                            g->version, g->min_reader, migrator_latest(g));
}

int migrator_check_opening(struct migrator *g)
{
    int64_t deadline;
    int rc;

    if (g->version == 0)
        return 0;
    if ((rc = handshake_generation(g->version, g->min_reader, &g->err)) != 0 ||
        (rc = guard_keep(g, &deadline)) != 0)
        return rc;
    return handshake_server(g->m, &g->conn, deadline, &g->err);
}

int migrator_check_drift(struct migrator *g)
{
    const sqlock_dialect *d = g->m->driver->dialect;

    for (size_t i = 0; i < d->n_migrations; i++) {
        const sqlock_migration *known = &d->migrations[i];
        const struct record *r = migrator_record(g, known->version);

        if (r != NULL && strcmp(r->checksum, known->checksum) != 0)
            return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                                    "migration %03d_%s differs from the one that was applied: its "
                                    "checksum is %s in the database and %s here",
                                    known->version, known->name, r->checksum, known->checksum);
    }
    return 0;
}

int migrator_check_tables(struct migrator *g, int version)
{
    int latest = version == migrator_latest(g);
    char first[128] = "";
    size_t n = 0;
    int rc = migrator_run(g, SQLOCK_STMT_MIGRATE_DIFFER, NULL);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < sqlock_rows_count(g->rows); i++) {
        int there = (int)rows_int(g->rows, i, SQLOCK_COL_THERE, 0);

        if (!latest && (there || rows_int(g->rows, i, SQLOCK_COL_MADE_BY, 0) > version))
            continue;
        if (n++ == 0)
            migrator_read_text(g->rows, i, SQLOCK_COL_DIFFERENCE, first, sizeof first);
    }
    if (n == 0)
        return 0;
    return sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                            "the tables are not as the migrations make them (%zu %s): %s", n,
                            n == 1 ? "difference" : "differences", first);
}
