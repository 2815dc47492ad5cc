#include "tests/torture/followers.h"

#ifdef TEST_HAVE_MYSQL
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/mysql.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

#define SCRIPT "tests/tools/my.sh"

static void stop_server(const char *url)
{
    char command[600];

    snprintf(command, sizeof command, SCRIPT " stop '%s'", url);
    if (system(command) != 0)
        fprintf(stderr, "the server was not stopped: %s\n", url);
}

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
    const char *verb = e->number > 1 ? "folder" : "create";

    setenv("SQLOCK_TEST_MYSQL_ARGS", "--innodb-lock-wait-timeout=1 --skip-name-resolve", 1);
    if ((e->wants & ENGINE_FOLLOWED) && !follow_mysql_args(e, e->number > 1))
        return false;
    if ((e->number == 1 && !choose_server(e)) ||
        !engine_script(e, SCRIPT, verb, e->url, sizeof e->url))
        return false;
    snprintf(e->dir, sizeof e->dir, "%s", undo_later(stop_server, e->url));
    return true;
}

static void remove_it(struct engine *e)
{
    stop_server(e->url);
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

static MYSQL *connect_to(struct engine *e)
{
    const char *socket = strstr(e->url, "socket=") + strlen("socket=");
    unsigned seconds = 10;
    MYSQL *c = mysql_init(NULL);

    mysql_options(c, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    if (mysql_real_connect(c, NULL, "root", "", NULL, 0, socket, 0))
        return c;
    mysql_close(c);
    return NULL;
}

static MYSQL *session(struct engine *e, int i)
{
    if (e->session[i] && mysql_ping(e->session[i]) != 0)
        engine_forget(e, i);
    if (!e->session[i] && (e->session[i] = connect_to(e)) != NULL)
        mysql_query(e->session[i], "USE test");
    return e->session[i];
}

static bool answers(struct engine *e)
{
    return session(e, 0) != NULL;
}

static int64_t ask(MYSQL *c, const char *sql)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    int64_t n = -1;

    if (!c || mysql_query(c, sql) != 0)
        return -1;
    res = mysql_store_result(c);
    if (!res)
        return 0;
    if ((row = mysql_fetch_row(res)) != NULL && row[0])
        n = strtoll(row[0], NULL, 10);
    else
        n = 0;
    mysql_free_result(res);
    return n;
}

static bool exec(struct engine *e, int i, const char *sql)
{
    return ask(session(e, i), sql) >= 0;
}

static int64_t number(struct engine *e, const char *sql)
{
    return ask(session(e, 0), sql);
}

static void forget(struct engine *e, int i)
{
    mysql_close(e->session[i]);
}

static bool is_ours(struct engine *e, unsigned long id)
{
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        if (e->session[i] && mysql_thread_id(e->session[i]) == id)
            return true;
    return false;
}

/* MySQL 5.6 may list sessions as killed for long when their clients have gone. */
static int sessions(struct engine *e, bool end)
{
    MYSQL *c = session(e, 0);
    MYSQL_RES *res;
    MYSQL_ROW row;
    int n = 0;

    if (!c ||
        mysql_query(c, "SELECT id FROM information_schema.processlist "
                       "WHERE user = 'root' AND command <> 'Killed'") != 0 ||
        !(res = mysql_store_result(c)))
        return -1;
    while ((row = mysql_fetch_row(res)) != NULL) {
        unsigned long id = strtoul(row[0], NULL, 10);
        char sql[64];

        if (is_ours(e, id))
            continue;
        n++;
        snprintf(sql, sizeof sql, "KILL %lu", id);
        if (end)
            mysql_query(c, sql);
    }
    mysql_free_result(res);
    return n;
}

static bool prepare(struct engine *e)
{
    MYSQL *c;

    if (!exec(e, 0, "CREATE DATABASE IF NOT EXISTS test") || !exec(e, 0, "USE test") ||
        !(c = session(e, 0)))
        return false;
    snprintf(e->version, sizeof e->version, "%s%s",
             strstr(mysql_get_server_info(c), "MariaDB") ? "" : "MySQL ", mysql_get_server_info(c));
    return true;
}

static const sqlock_driver *driver(void)
{
    return sqlock_driver_mysql();
}

const struct engine_ops engine_mysql = {
    .driver = driver,
    .create = create,
    .remove = remove_it,
    .script = SCRIPT,
    .answers = answers,
    .prepare = prepare,
    .exec = exec,
    .number = number,
    .forget = forget,
    .sessions = sessions,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler varchar(1000))",
             "INSERT INTO bulk SELECT repeat('x', 900) FROM information_schema.columns LIMIT 3000",
             "TRUNCATE bulk"},
    .follow = &follow_mysql};
#endif
