/* The suite on MariaDB or MySQL: a database of its own for each test. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/undo.h"

/* Run a statement as root over the socket that the URL names; 0, or it says why not. */
static int ask(const char *sql)
{
    const char *url = getenv("SQLOCK_TEST_MYSQL_URL");
    const char *socket = url ? strstr(url, "socket=") : NULL;
    MYSQL *my = mysql_init(NULL);
    int rc = 1;

    if (my && socket && mysql_real_connect(my, NULL, "root", "", NULL, 0, socket + 7, 0))
        rc = mysql_query(my, sql);
    if (rc != 0)
        print_error("%s\n%s\n", sql, my ? mysql_error(my) : "");
    mysql_close(my);
    return rc;
}

static void drop_database(const char *name)
{
    char sql[128];

    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s", name);
    ask(sql);
}

static void make(struct place *p)
{
    unsigned char random[8];
    char name[32] = "test_", sql[128];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        fail_msg("getrandom failed");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(name + strlen(name), 3, "%02x", random[i]);
    snprintf(sql, sizeof sql, "CREATE DATABASE %s", name);
    if (ask(sql) != 0)
        fail_msg("no database could be made");
    p->url = getenv("SQLOCK_TEST_MYSQL_URL");
    p->schema = p->own = undo_later(drop_database, name);
}

static void drop(struct place *p)
{
    undo_now(p->own);
}

static void execute(const struct place *p, const char *sql)
{
    (void)p;
    if (ask(sql) != 0)
        fail_msg("a statement of the test failed");
}

int main(void)
{
    const struct quirks mysql = {.name = "mysql",
                                 .driver = sqlock_driver_mysql,
                                 .between_processes = true,
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
