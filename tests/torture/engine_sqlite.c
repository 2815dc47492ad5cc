#include "tests/torture/engine.h"

#ifdef TEST_HAVE_SQLITE
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sqlock/sqlite.h>

#include "tests/lib/check.h"

static bool create(struct engine *e)
{
    snprintf(e->dir, sizeof e->dir, "%s", e->top[0] ? e->top : temp_dir());
    snprintf(e->url, sizeof e->url, "sqlite:%s/db", e->dir);
    return true;
}

static void remove_it(struct engine *e)
{
    (void)e; /* temp_dir() and the small disk are undone with the process */
}

static sqlite3 *session(struct engine *e, int i)
{
    sqlite3 *db = NULL;

    if (!e->session[i] && sqlite3_open(e->url + strlen("sqlite:"), &db) == SQLITE_OK) {
        sqlite3_busy_timeout(db, 5000);
        e->session[i] = db;
    }
    return e->session[i];
}

static bool exec(struct engine *e, int i, const char *sql)
{
    return sqlite3_exec(session(e, i), sql, NULL, NULL, NULL) == SQLITE_OK;
}

static int take(void *out, int n, char **texts, char **names)
{
    (void)names;
    if (n > 0 && texts[0])
        sscanf(texts[0], "%" SCNd64, (int64_t *)out);
    return 0;
}

static int64_t number(struct engine *e, const char *sql)
{
    int64_t n = -1;

    sqlite3_exec(session(e, 0), sql, take, &n, NULL);
    return n;
}

static void forget(struct engine *e, int i)
{
    sqlite3_close(e->session[i]);
}

/* A file has none: those who used it are processes, which the cell waits for. */
static int sessions(struct engine *e, bool end)
{
    (void)e;
    (void)end;
    return 0;
}

/* The mode stays in the file (WAL), or is the library's choice. */
static bool prepare(struct engine *e)
{
    char sql[64];

    snprintf(sql, sizeof sql, "PRAGMA journal_mode = %s", e->kind->variant);
    snprintf(e->version, sizeof e->version, "SQLite %s, %s", sqlite3_libversion(),
             strcmp(e->kind->variant, "WAL") == 0 ? "WAL" : "rollback journal");
    if (!exec(e, 0, sql))
        return false;
    engine_forget(e, 0); /* no process of ours has it open while clients are started */
    return true;
}

/* ---- the clock --------------------------------------------------------------------------------
 */

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

static const sqlock_driver *driver(void)
{
    return sqlock_driver_sqlite();
}

const struct engine_ops engine_sqlite = {
    .driver = driver,
    .create = create,
    .remove = remove_it,
    .prepare = prepare,
    .exec = exec,
    .number = number,
    .forget = forget,
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
