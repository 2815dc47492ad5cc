#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>

#include "tests/torture/client_app.h"

#include <sqlock/sqlite.h>
#include <stdio.h>

static const sqlock_driver *app_driver(void)
{
    return sqlock_driver_sqlite();
}

/* SQLite's own waits up to 100 ms at a time, and whoever does keeps a lock from
 * others. */
static int wait_a_moment(void *user, int times)
{
    (void)user;
    return times < app_patience.busy_ms && sqlite3_sleep(1) >= 0;
}

static void *app_connect(const char *url)
{
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(url + sizeof "sqlite:" - 1, &db, SQLITE_OPEN_READWRITE, NULL) ==
        SQLITE_OK) {
        sqlite3_busy_handler(db, wait_a_moment, NULL);
        return db;
    }
    sqlite3_close(db);
    return NULL;
}

static void app_close(void *native)
{
    sqlite3_close(native);
}

static int app_adopt(sqlock *m, void *native, sqlock_conn **out_conn, sqlock_error *err)
{
    return sqlock_adopt_sqlite(m, native, out_conn, err);
}

static int code_of(sqlite3 *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return SQLOCK_EBUSY;
    case SQLITE_FULL:
        return SQLOCK_EFULL;
    default:
        return sqlite3_get_autocommit(db) ? SQLOCK_ETXGONE : SQLOCK_EDB;
    }
}

static int app_exec(void *native, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(native, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW && out != NULL)
        *out = sqlite3_column_int64(stmt, 0);
    while (rc == SQLITE_ROW)
        rc = sqlite3_step(stmt);
    rc = code_of(native, rc);
    sqlite3_finalize(stmt);
    return rc;
}

/* What was BUSY is still open, and one that could not be written, but was not rolled back, too. A
 * failure of the disk on the way may have come behind the moment that decides. */
static int app_commit(void *native)
{
    int rc = app_exec(native, "COMMIT", NULL);

    return rc == SQLOCK_ETXGONE || rc == SQLOCK_EDB ? SQLOCK_EUNSURE : rc;
}

static void app_said(void *native, char out[APP_TEXT])
{
    snprintf(out, APP_TEXT, "%d %s", sqlite3_extended_errcode(native), sqlite3_errmsg(native));
}

static void app_schema(const char *url, char out[APP_TEXT])
{
    (void)url;
    snprintf(out, APP_TEXT, "main");
}

const struct app client_app_sqlite = {.scheme = "sqlite:",
                                      .driver = app_driver,
                                      .connect = app_connect,
                                      .close = app_close,
                                      .adopt = app_adopt,
                                      .exec = app_exec,
                                      .commit = app_commit,
                                      .said = app_said,
                                      .schema = app_schema,
                                      .begin = "BEGIN IMMEDIATE",
                                      .begin_strict = "BEGIN",
                                      .strict_read = "",
                                      .one_writer = true,
                                      .big = "INTEGER",
                                      .engine = ""};
#endif
