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

/* Whoever is in the way is waited for, for as long as the session's patience lasts. */
void strike_keep(struct cell *c)
{
    struct engine *e = &c->engine;
    bool begun;

    cell_hurt(c);
    begun = engine_exec(e, "%s", c->fault->sql) &&
            (!c->fault->look || engine_exec(e, "%s", c->fault->look));
    if (begun)
        cell_nap(c, c->lease_ms / 3, 2 * c->lease_ms);
    engine_exec(e, "ROLLBACK");
    cell_healed(c);
}

void strike_once(struct cell *c)
{
    cell_hurt(c);
    engine_exec(&c->engine, "%s", c->fault->sql);
    cell_healed(c);
}

/* The copy is whole: whoever restores it has a database. */
void strike_backup(struct cell *c)
{
    const char *path = text("%s/copy", c->folder);
    struct engine *e = &c->engine;
    bool done;

    cell_hurt(c);
    done = engine_exec(e, "VACUUM INTO '%s'", path);
    cell_healed(c);
    if (done) {
        engine_exec(e, "ATTACH '%s' AS copy", path);
        if (engine_number(e, "SELECT count(*) FROM copy.sqlock_lock") < 0)
            cell_problem(c, "the copy has no table of locks");
        engine_exec(e, "DETACH copy");
    }
    unlink(path);
}

void strike_schema_change(struct cell *c)
{
    cell_hurt(c);
    engine_exec(&c->engine, "CREATE TABLE IF NOT EXISTS passing (x)");
    engine_exec(&c->engine, "DROP TABLE IF EXISTS passing");
    cell_healed(c);
}

/* ---- a writer that dies ---------------------------------------------------------------------- */

/* Its journal is hot: the next who opens the file has to roll back what it left. Those who waited
 * find it all at once, and then comes the next writer. */
void strike_hot_journal(struct cell *c)
{
    pid_t writer;

    cell_hurt(c);
    for (int i = 0; i < 5; i++) {
        writer = cell_again(c, text("writer '%s'", strchr(c->engine.url, ':') + 1), "/dev/null");
        cell_nap(c, 10, c->lease_ms / 10);
        kill(writer, SIGKILL);
        waitpid(writer, NULL, 0);
    }
    cell_healed(c);
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
