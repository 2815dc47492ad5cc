/* The suite on MariaDB or MySQL: a database of its own for each test. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/undo.h"

static void make(struct place *p)
{
    p->url = my_url();
    p->schema = p->own = my_database_new();
}

static void drop(struct place *p)
{
    undo_now(p->own);
}

static void execute(const struct place *p, const char *sql)
{
    (void)p;
    my_exec(sql);
}

int main(void)
{
    const struct quirks mysql = {.name = "mysql",
                                 .driver = sqlock_driver_mysql,
                                 .between_processes = true,
                                 .opens_after_fork = true,
                                 .has_schemas = true,
                                 .grain_ms = 1,
                                 .make = make,
                                 .drop = drop,
                                 .execute = execute};
    const char *url = getenv("SQLOCK_TEST_MYSQL_URL");

    if (test_wants("mysql") && (!url || !*url)) {
        puts("SKIP: no MariaDB or MySQL: SQLOCK_TEST_MYSQL_URL is not set");
        return test_strict() ? 1 : 0;
    }
    return suite_run(&mysql);
}
