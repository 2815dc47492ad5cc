/* The suite on PostgreSQL: a schema of its own for each test. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlock/postgres.h>

#include "tests/drivers/suite.h"
#include "tests/lib/pg.h"

static void make(struct place *p)
{
    p->url = pg_url();
    p->schema = p->own = pg_schema_new();
}

static void drop(struct place *p)
{
    pg_schema_drop(p->own);
}

static void execute(const struct place *p, const char *sql)
{
    (void)p;
    pg_exec("%s", sql);
}

int main(void)
{
    const struct quirks postgres = {.name = "postgres",
                                    .driver = sqlock_driver_postgres,
                                    .between_processes = true,
                                    .opens_after_fork = true,
                                    .has_schemas = true,
                                    .grain_ms = 1,
                                    .make = make,
                                    .drop = drop,
                                    .execute = execute};
    const char *url = getenv("SQLOCK_TEST_POSTGRES_URL");

    if (test_wants("postgres") && (!url || !*url)) {
        puts("SKIP: no PostgreSQL: SQLOCK_TEST_POSTGRES_URL is not set");
        return test_strict() ? 1 : 0;
    }
    return suite_run(&postgres);
}
