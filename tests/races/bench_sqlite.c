/* SQLite: a file for each test, and requests that wait for another one's transaction. */
#include "bench.h"

extern const sqlock_dialect sqlock_sqlite_dialect;

/* ---- asking ---------------------------------------------------------------------------------- */

static int lite_bind(sqlite3_stmt *st, const sqlock_value *v, int n)
{
    int wanted = sqlite3_bind_parameter_count(st), rc = SQLITE_OK;
    for (int i = 0; i < n && i < wanted && rc == SQLITE_OK; i++)
        rc = v[i].type == SQLOCK_INT
                 ? sqlite3_bind_int64(st, i + 1, v[i].i)
                 : sqlite3_bind_blob(st, i + 1, v[i].data, (int)v[i].len, SQLITE_TRANSIENT);
    return rc;
}

static void lite_read(sqlite3_stmt *st, answer *a)
{
    for (int i = 0; i < CELLS && i < sqlite3_column_count(st); i++)
        a->cell[i] = sqlite3_column_int64(st, i);
    a->rows++;
}

static int lite_step(sqlite3 *db, const char *sql, const sqlock_value *v, int n, answer *a)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = lite_bind(st, v, n);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(st)) == SQLITE_ROW)
            lite_read(st, a);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? SQLITE_OK : sqlite3_extended_errcode(db);
}

static const char *lite_error(int rc)
{
    return rc == SQLITE_BUSY_SNAPSHOT         ? "BUSY_SNAPSHOT"
           : (rc & 0xff) == SQLITE_BUSY       ? "BUSY"
           : (rc & 0xff) == SQLITE_CONSTRAINT ? "CONSTRAINT"
                                              : sqlite3_errstr(rc);
}

/* *out_busy: the step before which another one's transaction kept the file, from 1; 0: none. */
static answer run_steps(sqlite3 *db, const script *s, const request *r, int *out_busy)
{
    answer a = {0};
    sqlock_value v[MAX_PARAMS];
    int n = bind_request(s->stmt, r, v), own = 0, rc = SQLITE_OK;
    *out_busy = 0;
    for (int i = 0; i < s->n && rc == SQLITE_OK && !a.rows; i++) {
        if ((s->flags[i] & SQLOCK_STEP_WRITE) && sqlite3_get_autocommit(db)) {
            rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
            own = rc == SQLITE_OK;
            *out_busy = rc == SQLITE_BUSY ? i + 1 : 0;
        }
        if (rc == SQLITE_OK)
            rc = lite_step(db, s->step[i], v, n, &a);
    }
    if (own && rc == SQLITE_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (own && rc != SQLITE_OK)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    if (rc != SQLITE_OK) { /* rows came before the commit: they count for nothing */
        memset(&a, 0, sizeof a);
        snprintf(a.error, sizeof a.error, "%s", lite_error(rc));
    }
    return a;
}

static answer lite_fetch(conn c, const script *s, const request *r)
{
    int busy;
    return run_steps(c.lite, s, r, &busy);
}

static int lite_try(conn c, const char *sql)
{
    return sqlite3_exec(c.lite, sql, NULL, NULL, NULL);
}

static char *lite_value(conn c, const char *sql, int column)
{
    sqlite3_stmt *st = NULL;
    const char *text = NULL;
    char *out = NULL;
    if (sqlite3_prepare_v2(c.lite, sql, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        broken("%s: %s", sql, sqlite3_errmsg(c.lite));
    text = (const char *)sqlite3_column_text(st, column);
    out = text ? strdup(text) : NULL;
    sqlite3_finalize(st);
    return out;
}

/* Where ours read no more than a page of a table, it has a short name there. */
static const char *lite_plan(conn c, const script *s)
{
    const char *words = "by key";
    for (int i = 0; i < s->n && strcmp(words, "by key") == 0; i++) {
        sqlite3_stmt *st = NULL;
        if (sqlite3_prepare_v2(c.lite, textf("EXPLAIN QUERY PLAN %s", s->step[i]), -1, &st, NULL))
            broken("%s: %s", s->step[i], sqlite3_errmsg(c.lite));
        while (sqlite3_step(st) == SQLITE_ROW) {
            const char *node = (const char *)sqlite3_column_text(st, 3);
            if (strncmp(node, "CORRELATED", 10) == 0)
                words = "row by row";
            else if (strncmp(node, "SCAN ", 5) == 0 && strstr(node, "sqlock_") != NULL)
                words = "whole table";
        }
        sqlite3_finalize(st);
    }
    return words;
}

static const char *lite_error_text(conn c)
{
    return sqlite3_errmsg(c.lite);
}

/* ---- a test's file --------------------------------------------------------------------------- */

static conn lite_open(void)
{
    conn c = {.lite = NULL};
    assert_int_equal(sqlite3_open(bench.file, &c.lite), SQLITE_OK);
    sqlite3_extended_result_codes(c.lite, 1);
    return c;
}

static void lite_create(void)
{
    conn c;
    bench.dir = temp_dir();
    snprintf(bench.file, sizeof bench.file, "%s/locks.db", bench.dir);
    c = open_conn();
    run(c, bench.db == &sqlite_wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE");
    migrate(c);
}

/* ---- waiting for the write lock -------------------------------------------------------------- */

/* A request that found the file locked has done what comes before that step, and holds nothing: the
 * rest is done when its answer is asked for. */
static struct pending {
    conn c;
    script rest;
    request r;
    int busy;
    answer got;
} pending[8];

static struct pending *pending_of(conn c)
{
    for (size_t i = 0; i < COUNT(pending); i++)
        if (pending[i].c.lite == c.lite)
            return &pending[i];
    broken("there is no room for another request");
}

static void lite_start(conn c, const script *s, const request *r, int n)
{
    struct pending *p = pending_of((conn){.lite = NULL});
    assert_int_equal(n, 1);
    *p = (struct pending){.c = c, .r = *r};
    p->got = run_steps(c.lite, s, r, &p->busy);
    if (p->busy)
        p->rest = from_step(*s, p->busy);
}

static int lite_waits(conn c)
{
    return pending_of(c)->busy;
}

static int lite_finish(conn c, answer *out, int max)
{
    struct pending *p = pending_of(c);
    assert_int_equal(max, 1);
    *out = p->busy ? lite_fetch(c, &p->rest, &p->r) : p->got;
    p->c.lite = NULL;
    return out->rows;
}

static void lite_close(conn c)
{
    for (size_t i = 0; i < COUNT(pending); i++)
        if (pending[i].c.lite == c.lite)
            pending[i].c.lite = NULL;
    sqlite3_close_v2(c.lite);
}

#define SQLITE(mode_word)                                                                          \
    {                                                                                              \
        .name = "sqlite", .mode = mode_word, .driver = "sqlite",                                   \
        .dialect = &sqlock_sqlite_dialect,                                                         \
        .now = "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)", .ms = "1",      \
        .owner = "SELECT unicode(CAST(substr(owner, 1, 1) AS TEXT)) FROM {lock}",                  \
        .held = "{hold}", .quote = '"', .create = lite_create, .open = lite_open,                  \
        .close = lite_close, .ask = lite_fetch, .start = lite_start, .waits = lite_waits,          \
        .finish = lite_finish, .try_run = lite_try, .value = lite_value, .error = lite_error_text, \
        .plan = lite_plan,                                                                         \
    }

const struct database sqlite_wal = SQLITE("wal");
const struct database sqlite_rollback = SQLITE("rollback");
