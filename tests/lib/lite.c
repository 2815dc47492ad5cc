#include "tests/lib/lite.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>

#include "tests/lib/check.h"

sqlite3 *lite_open(const char *path)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 10000);
    return db;
}

void lite_exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

int64_t lite_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return number;
}

void lite_exec_at(const char *path, const char *sql)
{
    sqlite3 *db = lite_open(path);

    lite_exec(db, sql);
    sqlite3_close(db);
}

int64_t lite_number_at(const char *path, const char *sql)
{
    sqlite3 *db = lite_open(path);
    int64_t number = lite_number(db, sql);

    sqlite3_close(db);
    return number;
}
#endif
