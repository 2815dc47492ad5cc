/* The suite on a driver for leases only, which was made outside of the tree: tests/outside. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/drivers/suite.h"
#include "tests/lib/lite.h"
#include "tests/outside/small.h"

struct file {
    char *dir;
    char url[4200];
};

static void file_make(struct place *p)
{
    struct file *f = calloc(1, sizeof *f);

    assert_non_null(f);
    p->own = f;
    f->dir = temp_dir();
    snprintf(f->url, sizeof f->url, "small:%s/locks.db", f->dir);
    p->url = f->url;
}

static void file_drop(struct place *p)
{
    struct file *f = p->own;

    temp_dir_remove(f->dir);
    free(f);
}

static void file_age(const struct place *p, int64_t ms)
{
    char sql[200];

    snprintf(sql, sizeof sql, "UPDATE sqlock_lock SET exp = exp - %lld, idle = idle - %lld",
             (long long)ms * 1000, (long long)ms * 1000);
    lite_exec_at(p->url + sizeof "small:" - 1, sql);
}

static void file_leave(const struct place *p, int32_t n)
{
    char sql[600];

    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d) "
        "INSERT INTO sqlock_lock (ns, name, owner, token, exp, since) "
        "SELECT x'', CAST(printf('dead/%%08d', n) AS BLOB), zeroblob(16), 1, t - 3600000000, "
        "t - 3630000000 FROM i, (SELECT 1000000 * CAST(strftime('%%s', 'now') AS INTEGER) AS t)",
        (int)n);
    lite_exec_at(p->url + sizeof "small:" - 1, sql);
}

/* No `execute`: the suite's own SQL is about the columns of sqlock's tables. */
static const struct quirks small_quirks = {.name = "small",
                                           .driver = sqlock_driver_small,
                                           .between_processes = true,
                                           .tries_core = true,
                                           .tokens_leave_gaps = true,
                                           .leases_only = true,
                                           .make = file_make,
                                           .drop = file_drop,
                                           .age = file_age,
                                           .leave = file_leave};

TEST_MAIN_OF_SUITE(small)
