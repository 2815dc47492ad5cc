/* The suite on SQLite: a file of its own for each test. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include <sqlock/sqlite.h>

#include "tests/drivers/suite.h"

struct file {
    char *dir;
    char url[4200];
};

static const sqlock_driver *driver(void)
{
    return sqlock_driver_sqlite();
}

static void make(struct place *p)
{
    struct file *f = calloc(1, sizeof *f);

    assert_non_null(f);
    p->own = f;
    f->dir = temp_dir();
    snprintf(f->url, sizeof f->url, "sqlite:%s/locks.db", f->dir);
    p->url = f->url;
}

static void drop(struct place *p)
{
    struct file *f = p->own;

    temp_dir_remove(f->dir);
    free(f);
}

static void execute(const struct place *p, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    assert_int_equal(sqlite3_open(p->url + sizeof "sqlite:" - 1, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
}

int main(void)
{
    const struct quirks sqlite = {.name = "sqlite",
                                  .driver = driver,
                                  .between_processes = true,
                                  .grain_ms = 1,
                                  .make = make,
                                  .drop = drop,
                                  .execute = execute};

    return suite_run(&sqlite);
}
