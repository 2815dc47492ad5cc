/* MariaDB and MySQL: a database of its own for each test. */
#include "tests/lib/mysql_quirks.h"

#ifdef TEST_HAVE_MYSQL
#include <stdio.h>
#include <string.h>

#include <sqlock/mysql.h>

#include "tests/lib/my.h"
#include "tests/lib/mysql_app.h"
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

static void age(const struct place *p, int64_t ms)
{
    char sql[256];

    snprintf(sql, sizeof sql,
             "UPDATE %s.sqlock_lock SET exp = exp - %lld, idle_since = idle_since - %lld",
             p->schema, (long long)ms * 1000, (long long)ms * 1000);
    execute(p, sql);
}

static void leave(const struct place *p, int32_t n)
{
    static const char digits[] =
        "(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION "
        "SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION "
        "SELECT 8 UNION SELECT 9)";
    char sql[4096], from[2048] = "", sum[256] = "1";

    for (int i = 0, power = 1; power <= n; i++, power *= 10) {
        snprintf(sum + strlen(sum), sizeof sum - strlen(sum), " + %d * d%d.d", power, i);
        snprintf(from + strlen(from), sizeof from - strlen(from), "%s%s d%d", i ? ", " : "", digits,
                 i);
    }
    snprintf(sql, sizeof sql,
             "INSERT INTO %s.sqlock_lock (ns, name, owner, token, exp, since) "
             "SELECT '', CONCAT('dead/', LPAD(n, 8, '0')), REPEAT(x'00', 16), 1, t - 3600000000, "
             "t - 3630000000 FROM (SELECT %s AS n, 1000000 * UNIX_TIMESTAMP() AS t FROM %s) i "
             "WHERE n <= %d ORDER BY n",
             p->schema, sum, from, (int)n);
    execute(p, sql);
}

static int is_missing(int *out_code)
{
    return test_server_is_missing(&my_server, out_code);
}

const struct quirks mysql_quirks = {.name = "mysql",
                                    .driver = sqlock_driver_mysql,
                                    .between_processes = true,
                                    .meets_deadlocks = true,
                                    .opens_after_fork = true,
                                    .has_schemas = true,
                                    .missing = is_missing,
                                    .make = make,
                                    .drop = drop,
                                    .age = age,
                                    .leave = leave,
                                    .execute = execute,
                                    .app = &mysql_app,
                                    .guards = my_skips_locked};
#endif
