#include "tests/torture/engine.h"

#ifdef TEST_HAVE_SQLITE
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/check.h"

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
    if (!engine_exec(e, sql))
        return false;
    engine_forget(e); /* no process of ours has it open while clients are started */
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
