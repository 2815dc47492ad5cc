/* SQLite: a file of its own for each test. */
#include "tests/lib/sqlite_quirks.h"

#ifdef TEST_HAVE_SQLITE
#include <stdio.h>
#include <stdlib.h>

#include <sqlock/sqlite.h>

#include "tests/lib/lite.h"
#include "tests/lib/sqlite_app.h"

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

/* An application has made it, so it stays in the mode that SQLite begins with. */
static void make_given(struct place *p)
{
    make(p);
    lite_exec_at(p->url + sizeof "sqlite:" - 1, "CREATE TABLE given (a)");
}

static void drop(struct place *p)
{
    struct file *f = p->own;

    temp_dir_remove(f->dir);
    free(f);
}

static void execute(const struct place *p, const char *sql)
{
    lite_exec_at(p->url + sizeof "sqlite:" - 1, sql);
}

static void age(const struct place *p, int64_t ms)
{
    char sql[200];

    snprintf(sql, sizeof sql,
             "UPDATE sqlock_lock SET exp = exp - %lld, idle_since = idle_since - %lld",
             (long long)ms, (long long)ms);
    execute(p, sql);
}

static void leave(const struct place *p, int32_t n)
{
    char sql[600];

    snprintf(sql, sizeof sql,
             "WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d) "
             "INSERT INTO sqlock_lock (ns, name, owner, token, exp, since) "
             "SELECT x'', CAST(printf('dead/%%08d', n) AS BLOB), zeroblob(16), 1, t - 3600000, "
             "t - 3630000 FROM i, (SELECT 1000 * CAST(strftime('%%s', 'now') AS INTEGER) AS t)",
             (int)n);
    execute(p, sql);
}

#define QUIRKS(make_)                                                                              \
    {                                                                                              \
        .name = "sqlite", .driver = driver, .between_processes = true, .tries_core = true,         \
        .tokens_leave_gaps = true, .make = (make_), .drop = drop, .age = age, .leave = leave,      \
        .execute = execute, .app = &sqlite_app                                                     \
    }

const struct quirks sqlite_quirks = QUIRKS(make);
const struct quirks sqlite_given_quirks = QUIRKS(make_given);
#endif
