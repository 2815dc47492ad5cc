#include "tests/torture/followers.h"

#ifdef TEST_HAVE_MYSQL
#include <inttypes.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"

/* A genuine MySQL is fetched once and unpacked for each cell. */
static bool choose_server(struct engine *e)
{
    char words[400], program[400];

    if (!e->kind->variant)
        return true;
    snprintf(words, sizeof words, "fetch %s && tests/tools/mysqld.sh unpack %s %s",
             e->kind->variant, e->kind->variant, temp_dir());
    return engine_script(e, "tests/tools/mysqld.sh", words, program, sizeof program) &&
           setenv("SQLOCK_TEST_MYSQLD", program, 1) == 0;
}

static bool create(struct engine *e)
{
    setenv("SQLOCK_TEST_MYSQL_ARGS", "--innodb-lock-wait-timeout=1 --skip-name-resolve", 1);
    if ((e->wants & ENGINE_FOLLOWED) && !follow_mysql_args(e, e->number > 1))
        return false;
    return e->number > 1 || choose_server(e);
}

/* Those that come meanwhile are not ended: they have larger ids. MySQL 5.6 may list sessions as
 * killed for long when their clients have gone. */
static int sessions(struct engine *e, bool end)
{
    static const char others[] = "FROM information_schema.processlist WHERE user = 'root' "
                                 "AND command <> 'Killed' AND id <> connection_id()";
    char sql[256];
    int64_t n, last, id = 0;

    snprintf(sql, sizeof sql, "SELECT count(*) %s", others);
    n = engine_number(e, sql);
    snprintf(sql, sizeof sql, "SELECT max(id) %s", others);
    last = end && n > 0 ? engine_number(e, sql) : 0;
    while (id < last) {
        snprintf(sql, sizeof sql, "SELECT min(id) %s AND id > %" PRId64, others, id);
        if ((id = engine_number(e, sql)) <= 0 || id > last)
            break;
        snprintf(sql, sizeof sql, "KILL %" PRId64, id);
        engine_exec(e, sql);
    }
    return (int)n;
}

static bool prepare(struct engine *e)
{
    const char *version;

    if (!engine_exec(e, "CREATE DATABASE IF NOT EXISTS test") || !engine_exec(e, "USE test"))
        return false;
    version = mysql_get_server_info(e->session);
    snprintf(e->version, sizeof e->version, "%s%s", strstr(version, "MariaDB") ? "" : "MySQL ",
             version);
    return true;
}

const struct engine_ops engine_mysql = {
    .create = create,
    .script = "tests/tools/my.sh",
    .prepare = prepare,
    .sessions = sessions,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler varchar(1000))",
             "INSERT INTO bulk SELECT repeat('x', 900) FROM information_schema.columns LIMIT 3000",
             "TRUNCATE bulk"},
    .follow = &follow_mysql};
#endif
