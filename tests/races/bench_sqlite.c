/* SQLite: a file for each test, requests that are run in parts, and writers that end their
 * transaction while somebody waits for them. */
#include "bench.h"

#include <stdlib.h>

#include "tests/lib/check.h"

/* ---- asking -----------------------------------------------------------------------------------
 */

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
    int n = sqlite3_column_count(st);
    a->rows++;
    a->index = sqlite3_column_int(st, SQLOCK_COL_INDEX);
    a->outcome = sqlite3_column_int(st, SQLOCK_COL_OUTCOME);
    a->token = n > SQLOCK_COL_TOKEN ? sqlite3_column_int64(st, SQLOCK_COL_TOKEN) : 0;
    a->left = n > SQLOCK_COL_LEFT ? sqlite3_column_int64(st, SQLOCK_COL_LEFT) : 0;
    a->now = n > SQLOCK_COL_NOW ? sqlite3_column_int64(st, SQLOCK_COL_NOW) : 0;
    a->since = n > SQLOCK_COL_SINCE ? sqlite3_column_int64(st, SQLOCK_COL_SINCE) : 0;
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

answer lite_ask(sqlite3 *db, const script *s, const request *r)
{
    answer a = {0};
    sqlock_value v[8];
    int n = bind_request(s->stmt, r, v), own = 0, rc = SQLITE_OK;
    for (int i = 0; i < s->n && rc == SQLITE_OK && !a.rows; i++) {
        if ((s->flags[i] & SQLOCK_STEP_WRITE) && sqlite3_get_autocommit(db)) {
            rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
            own = rc == SQLITE_OK;
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

int64_t lite_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    if (sqlite3_column_type(st, 0) != SQLITE_NULL)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

/* ---- a test's file -----------------------------------------------------------------------------
 */

conn lite_open(void)
{
    conn c = {.lite = NULL};
    assert_int_equal(sqlite3_open(bench.file, &c.lite), SQLITE_OK);
    sqlite3_extended_result_codes(c.lite, 1);
    return track(c);
}

void lite_close_all(void)
{
    while (bench.n_conns > 0)
        sqlite3_close_v2(bench.conns[--bench.n_conns].lite);
}

static int lite_setup(const char *mode)
{
    conn c;
    bench.dialect = &sqlock_sqlite_dialect;
    bench.dir = temp_dir();
    snprintf(bench.file, sizeof bench.file, "%s/locks.db", bench.dir);
    c = lite_open();
    run(c, mode);
    migrate(c);
    return 0;
}

int lite_setup_wal(void **state)
{
    (void)state;
    return lite_setup("PRAGMA journal_mode = WAL");
}

int lite_setup_rollback(void **state)
{
    (void)state;
    return lite_setup("PRAGMA journal_mode = DELETE");
}

void lite_remove(void)
{
    temp_dir_remove(bench.dir);
    bench.dir = NULL;
}

/* ---- a request in parts ------------------------------------------------------------------------
 */

script after_the_read(script s)
{
    s.n--;
    for (int i = 0; i < s.n; i++) {
        s.step[i] = s.step[i + 1];
        s.flags[i] = s.flags[i + 1];
    }
    return s;
}

script only_the_read(script s)
{
    s.n = 1;
    return s;
}

/* Our acquire with another text in the place of its decision. */
script read_then(const char *text)
{
    script s = ours(SQLOCK_STMT_ACQUIRE);
    s.step[1] = fill(text);
    s.n = 2;
    return s;
}

/* A text for which the client computed a number beforehand. */
script with_number(script s, int64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)n);
    return changed(s, "@number", digits);
}

/* ---- waiting for the write lock ----------------------------------------------------------------
 */

struct writer {
    conn c;
    int ms;
};

static int end_of_writer(void *arg, int tries)
{
    struct writer *w = arg;
    (void)tries;
    if (sqlite3_get_autocommit(w->c.lite))
        return 0;
    pause_ms(w->ms);
    return sqlite3_exec(w->c.lite, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
}

/* c asks while the writer has an open write transaction, which commits ms after c began to wait. */
answer ask_behind(conn c, const script *s, request r, conn writer, int ms)
{
    struct writer w = {writer, ms};
    answer a;
    sqlite3_busy_handler(c.lite, end_of_writer, &w);
    a = ask(c, s, &r);
    sqlite3_busy_handler(c.lite, NULL, NULL);
    assert_int_equal(sqlite3_get_autocommit(writer.lite), 1); /* c did wait */
    return a;
}
