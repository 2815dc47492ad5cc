#include "tests/input/mysql_open.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/my_private.h"

#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>

struct db mysql_db(const char *url)
{
    return (struct db){
        .driver = sqlock_driver_mysql(), .url = url, .request_ms = patience_ms(8000)};
}

int mysql_try(const char *url, unsigned flags, sqlock_error *err)
{
    return db_try(db_with(mysql_db(url), flags), err);
}

void assert_given_up_in_time(const char *url)
{
    struct db db = mysql_db(url);
    int64_t begun = now_us();
    sqlock_error err;

    db.request_ms = patience_ms(1000);
    assert_code(SQLOCK_EUNREACH, db_try(db, &err), &err);
    assert_between(0, now_us() - begun, INT64_C(3000) * patience_ms(1000));
}

struct db mysql_migrated(void)
{
    struct db db = mysql_db(my_private_url());

    db_migrate(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK)); /* as some tests have made it */
    return db;
}

char *mysql_login(const char *user)
{
    return textf("mysql://%s@localhost/test?socket=%s", user, my_private_socket());
}

void mysql_new_user(const char *name, const char *host, const char *password)
{
    if (my_private_number("SELECT COUNT(*) FROM mysql.user WHERE user = '%s' AND host = '%s'", name,
                          host) > 0)
        my_private_exec("DROP USER '%s'@'%s'", name, host);
    my_private_exec("CREATE USER '%s'@'%s'%s", name, host,
                    password != NULL ? textf(" IDENTIFIED BY '%s'", password) : "");
}

const char *mysql_kind(void)
{
    if (my_private_number("SELECT VERSION() LIKE '%%MariaDB%%'") == 1)
        return "MariaDB";
    return textf("%d.%d", (int)my_private_number("SELECT SUBSTRING_INDEX(VERSION(), '.', 1) + 0"),
                 (int)my_private_number(
                     "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '.', 2), '.', -1) + 0"));
}

void mysql_skip_on(const char *kind)
{
    if (strcmp(mysql_kind(), kind) == 0)
        skip();
}

char *put_file(const char *dir, const char *name, const char *text)
{
    char *path = textf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}
#endif
