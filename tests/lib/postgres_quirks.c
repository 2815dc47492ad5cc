/* PostgreSQL: a schema of its own for each test. */
#include "tests/lib/postgres_quirks.h"

#ifdef TEST_HAVE_POSTGRES
#include <stdio.h>

#include <sqlock/postgres.h>

#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/undo.h"

static void make(struct place *p)
{
    p->url = pg_url();
    p->schema = p->own = pg_schema_new();
}

static void drop(struct place *p)
{
    undo_now(p->own);
}

static void execute(const struct place *p, const char *sql)
{
    (void)p;
    pg_exec("%s", sql);
}

static void age(const struct place *p, int64_t ms)
{
    pg_exec("UPDATE %s.sqlock_lock SET exp = exp - %lld, idle_since = idle_since - %lld", p->schema,
            (long long)ms * 1000, (long long)ms * 1000);
}

static void leave(const struct place *p, int32_t n)
{
    pg_exec("INSERT INTO %s.sqlock_lock (ns, name, owner, token, exp, since) "
            "SELECT '', convert_to('dead/' || lpad(i::text, 8, '0'), 'UTF8'), "
            "decode(repeat('00', 16), 'hex'), 1, t - 3600000000, t - 3630000000 "
            "FROM generate_series(1, %d) i, "
            "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now (t)",
            p->schema, (int)n);
}

static int is_missing(int *out_code)
{
    return test_server_is_missing(&pg_server, out_code);
}

const struct quirks postgres_quirks = {.name = "postgres",
                                       .driver = sqlock_driver_postgres,
                                       .between_processes = true,
                                       .opens_after_fork = true,
                                       .has_schemas = true,
                                       .missing = is_missing,
                                       .make = make,
                                       .drop = drop,
                                       .age = age,
                                       .leave = leave,
                                       .execute = execute,
                                       .app = &postgres_app};
#endif
