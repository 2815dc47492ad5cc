/* Others who use the same file of SQLite's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#endif

/* Whoever is in the way is waited for, for as long as the session's patience lasts: an event that
 * did not come to be is none. */
bool strike_keep(struct cell *c)
{
    struct engine *e = &c->engine;
    bool begun;

    cell_hurt(c);
    begun = engine_exec(e, c->fault->sql) && (!c->fault->look || engine_exec(e, c->fault->look));
    if (begun)
        cell_nap(c, c->lease_ms / 3, 2 * c->lease_ms);
    engine_exec(e, "ROLLBACK");
    cell_healed(c);
    return begun;
}

static bool once(struct cell *c, const char *sql)
{
    bool done;

    cell_hurt(c);
    done = engine_exec(&c->engine, sql);
    cell_healed(c);
    return done;
}

bool strike_once(struct cell *c)
{
    return once(c, c->fault->sql);
}

/* The copy is whole: whoever restores it has a database. */
bool strike_backup(struct cell *c)
{
    char path[300], sql[400];
    bool done;

    snprintf(path, sizeof path, "%s/copy", c->folder);
    snprintf(sql, sizeof sql, "VACUUM INTO '%s'", path);
    done = once(c, sql);
    if (done) {
        snprintf(sql, sizeof sql, "ATTACH '%s' AS copy", path);
        engine_exec(&c->engine, sql);
        if (engine_number(&c->engine, "SELECT count(*) FROM copy.sqlock_lock") < 0)
            cell_problem(c, "the copy has no table of locks");
        engine_exec(&c->engine, "DETACH copy");
    }
    unlink(path);
    return done;
}

bool strike_schema_change(struct cell *c)
{
    bool done;

    cell_hurt(c);
    done = engine_exec(&c->engine, "CREATE TABLE IF NOT EXISTS passing (x)");
    done = engine_exec(&c->engine, "DROP TABLE IF EXISTS passing") && done;
    cell_healed(c);
    return done;
}

/* ---- a writer that dies -----------------------------------------------------------------------
 */

/* Its journal is hot: the next who opens the file has to roll back what it left. */
bool strike_hot_journal(struct cell *c)
{
    const char *words[] = {"writer", strchr(c->engine.url, ':') + 1, NULL};
    pid_t writer;

    cell_hurt(c);
    writer = cell_again(c, words, "/dev/null");
    cell_nap(c, 10, c->lease_ms / 2);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    cell_healed(c);
    return true;
}

#ifdef TEST_HAVE_SQLITE
/* A small cache, so that pages reach the file before the commit that never comes. */
int fault_writer_main(const char *path)
{
    sqlite3 *db = NULL;
    static const char sql[] =
        "PRAGMA cache_size = 5; BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS torn (filler text);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        " INSERT INTO torn SELECT hex(randomblob(450)) FROM n;";

    if (sqlite3_open(path, &db) != SQLITE_OK)
        return 1;
    sqlite3_busy_timeout(db, 5000);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
    pause();
    return 0;
}
#else
int fault_writer_main(const char *path)
{
    (void)path;
    return 1;
}
#endif
