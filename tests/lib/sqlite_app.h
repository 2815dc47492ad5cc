/* An application that talks to SQLite. */
#ifndef SQLOCK_TESTS_LIB_SQLITE_APP_H
#define SQLOCK_TESTS_LIB_SQLITE_APP_H

#ifdef TEST_HAVE_SQLITE

#include <sqlite3.h>

#include "tests/lib/adopt_app.h"

/* What connect() of sqlite_app returns. */
struct sqlite_app_conn {
    sqlite3 *db;
    sqlite3_stmt *reading;
    sqlite3_stmt *prepared;
};

extern const struct adopt_app sqlite_app;

static inline sqlite3 *native(void *app)
{
    return ((struct sqlite_app_conn *)app)->db;
}

/* The path of the database. */
static inline const char *database_file(void *app)
{
    return sqlite3_db_filename(native(app), "main");
}

#endif
#endif
