#include "tests/input/mysql_open.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/my_private.h"

#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>

int mysql_try_for(const char *url, unsigned flags, int32_t ms, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    int rc;

    memset(err, 0, sizeof *err);
    o.flags = flags;
    o.request_ms = patience_ms(ms);
    rc = sqlock_open(sqlock_driver_mysql(), url, &o, &m, err);
    sqlock_close(m);
    return rc;
}

int mysql_try(const char *url, unsigned flags, sqlock_error *err)
{
    return mysql_try_for(url, flags, 8000, err);
}

void mysql_new_user(const char *name, const char *host, const char *password)
{
    char by[100] = "";

    if (my_private_number("SELECT COUNT(*) FROM mysql.user WHERE user = '%s' AND host = '%s'", name,
                          host) > 0)
        my_private_exec("DROP USER '%s'@'%s'", name, host);
    if (password != NULL)
        snprintf(by, sizeof by, " IDENTIFIED BY '%s'", password);
    my_private_exec("CREATE USER '%s'@'%s'%s", name, host, by);
}

const char *mysql_kind(void)
{
    static char kind[16];

    if (my_private_number("SELECT VERSION() LIKE '%%MariaDB%%'") == 1)
        return "MariaDB";
    snprintf(kind, sizeof kind, "%d.%d",
             (int)my_private_number("SELECT SUBSTRING_INDEX(VERSION(), '.', 1) + 0"),
             (int)my_private_number(
                 "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '.', 2), '.', -1) + 0"));
    return kind;
}

void mysql_migrated(void)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};

    o.flags = SQLOCK_OPEN_ACCEPT_WEAK; /* as some tests have made it */
    assert_ok(sqlock_migrate(sqlock_driver_mysql(), my_private_url(), &o, NULL, &err), &err);
}
#endif
