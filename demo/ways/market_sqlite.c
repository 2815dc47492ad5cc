/* The market in a SQLite file. */
#include <sqlite3.h> /* before sqlock/sqlite.h, so that it knows which SQLite the program uses */
#include <sqlock/sqlite.h>

#include "../crew.h"
#include "market.h"

static const sqlock_driver *driver(void)
{
    return sqlock_driver_sqlite();
}

static int run(void *db, const char *sql)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        return 1;
    if (rc != SQLITE_BUSY)
        die("%s: %s", sql, sqlite3_errmsg(db));
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return 0;
}

/* url: as sqlock takes it. */
static void *open_file(const char *url)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(url + sizeof "sqlite:" - 1, &db) != SQLITE_OK)
        die("%s: %s", url, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 20000);
    run(db, "PRAGMA journal_mode = WAL");
    return db;
}

static void close_file(void *db)
{
    sqlite3_close(db);
}

static long number(void *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    long n = 0;
    int rc;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        die("%s: %s", sql, sqlite3_errmsg(db));
    if ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        n = (long)sqlite3_column_int64(stmt, 0);
    else if (rc != SQLITE_DONE)
        die("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
    return n;
}

static long changed(void *db)
{
    return sqlite3_changes(db);
}

static int adopt(sqlock *m, void *db, sqlock_conn **out_conn, sqlock_error *err)
{
    return sqlock_adopt_sqlite(m, (sqlite3 *)db, out_conn, err);
}

const struct market market = {
    .name = "SQLite",
    .driver = driver,
    .schema = "main",
    .begin = "BEGIN IMMEDIATE",
    .open = open_file,
    .close = close_file,
    .run = run,
    .number = number,
    .changed = changed,
    .adopt = adopt,
};
