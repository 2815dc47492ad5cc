/* SQLite: the application's connection, and a cell's file. */
#include "tests/torture/engine.h"

#ifdef TEST_HAVE_SQLITE
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sqlock/sqlite.h>

#include "tests/lib/check.h"
#include "tests/torture/client_app.h"

/* SQLite's own waits up to 100 ms at a time, and whoever does keeps a lock from others. */
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

const struct app client_app_sqlite = {.scheme = "sqlite:",
                                      .driver = sqlock_driver_sqlite,
                                      .connect = app_connect,
                                      .close = app_close,
                                      .adopt = app_adopt,
                                      .exec = app_exec,
                                      .commit = app_commit,
                                      .said = app_said,
                                      .schema = "main",
                                      .begin = "BEGIN IMMEDIATE",
                                      .begin_strict = "BEGIN",
                                      .strict_read = "",
                                      .one_writer = true,
                                      .big = "INTEGER",
                                      .engine = ""};

/* ---- a cell's file --------------------------------------------------------------------------- */

/* A database without pages. */
static bool create(struct engine *e)
{
    int fd;

    snprintf(e->dir, sizeof e->dir, "%s", e->top[0] ? e->top : temp_dir());
    snprintf(e->url, sizeof e->url, "sqlite:%s/db", e->dir);
    fd = open(e->url + strlen("sqlite:"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return fd >= 0 && close(fd) == 0;
}

/* A file has none: those who used it are processes, which the cell waits for. */
static int sessions(struct engine *e, bool end)
{
    (void)e, (void)end;
    return 0;
}

/* The mode stays in the file (WAL). A file with a table in it is not one that the library makes, so
 * it goes on with a rollback journal. */
static bool prepare(struct engine *e)
{
    snprintf(e->version, sizeof e->version, "SQLite %s, %s", sqlite3_libversion(),
             strcmp(e->kind->variant, "WAL") == 0 ? "WAL" : "rollback journal");
    if (!engine_exec(e, "PRAGMA journal_mode = %s", e->kind->variant) ||
        !engine_exec(e, "CREATE TABLE IF NOT EXISTS given (a)"))
        return false;
    engine_forget(e); /* no process of ours has it open while clients are started */
    return true;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static sqlite3_vfs stepped; /* the default one, with another clock */
static int (*true_time)(sqlite3_vfs *, sqlite3_int64 *);
static const volatile int64_t *step_ms;

static int stepped_time(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    int rc = true_time(vfs, out);

    *out += *step_ms;
    return rc;
}

/* That of the database alone: deadlines of the library are on another clock, which nobody steps. */
void engine_sqlite_clock(void)
{
    const char *path = getenv("TORTURE_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof *step_ms, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return;
    step_ms = map;
    sqlite3_initialize();
    stepped = *sqlite3_vfs_find(NULL);
    true_time = stepped.xCurrentTimeInt64;
    stepped.xCurrentTimeInt64 = stepped_time;
    stepped.zName = "stepped";
    sqlite3_vfs_register(&stepped, 1);
}

const struct engine_ops engine_sqlite = {
    .create = create,
    .prepare = prepare,
    .sessions = sessions,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler text)",
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
             " INSERT INTO bulk SELECT hex(randomblob(450)) FROM n",
             "DELETE FROM bulk"}};
#else

void engine_sqlite_clock(void)
{
}
#endif
