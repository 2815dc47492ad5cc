/* P11 on MariaDB and MySQL: an adopted connection may be in another database than the manager's,
 * which may have locks of its own. */
#include <mysql.h>

#include <sqlock/mysql.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/my_private.h"
#include "tests/lib/mysql_quirks.h"

/* A manager to which the URL alone tells the database, and its lock. */
static sqlock_lock *take_in(const char *database, sqlock **out_m)
{
    sqlock_lock *lock = NULL;
    char url[400];

    snprintf(url, sizeof url, "mysql://root@localhost/%s?socket=%s", database, my_socket_path());
    ok(sqlock_migrate(sqlock_driver_mysql(), url, NULL, NULL, &said));
    ok(sqlock_open(sqlock_driver_mysql(), url, NULL, out_m, &said));
    ok(sqlock_acquire(*out_m, "sale", NULL, &lock, &said));
    return lock;
}

static void say(MYSQL *my, const char *sql)
{
    if (mysql_query(my, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(my));
}

TEST(test_guard_does_not_find_the_same_name_in_another_database)
{
    char *database = my_database_new(), *elsewhere = my_database_new(), use[200];
    sqlock *m = NULL, *other = NULL;
    sqlock_lock *lock = NULL, *others = NULL, *thiefs = NULL;
    sqlock_conn *conn = NULL;
    MYSQL *my;

    if (!my_skips_locked())
        skip();
    lock = take_in(database, &m);
    others = take_in(elsewhere, &other);
    assert_non_null(my = mysql_init(NULL));
    assert_non_null(mysql_real_connect(my, NULL, "root", "", database, 0, my_socket_path(), 0));
    ok(sqlock_adopt_mysql(m, my, &conn, &said));
    snprintf(use, sizeof use, "UPDATE `%s`.sqlock_lock SET token = %lld", elsewhere,
             (long long)sqlock_lock_token(lock));
    say(my, use);
    snprintf(use, sizeof use, "USE `%s`", elsewhere);
    say(my, use);
    say(my, "START TRANSACTION");
    ok(sqlock_guard(lock, conn, &said));
    says(SQLOCK_EGUARDED, sqlock_break(m, "sale", sqlock_lock_token(lock), &said));
    say(my, "ROLLBACK");
    ok(sqlock_acquire(m, "sale", NULL, &thiefs, &said));
    say(my, "START TRANSACTION");
    says(SQLOCK_ELOST, sqlock_guard(lock, conn, &said));
    say(my, "ROLLBACK");
    sqlock_conn_free(conn);
    mysql_close(my);
    drop(lock);
    drop(others);
    drop(thiefs);
    sqlock_close(m);
    sqlock_close(other);
}

/* A copy has the lease's row, and its locks keep nobody out of ours. */
TEST(test_P11_a_guard_on_a_copy_on_another_server_is_refused)
{
    char *database = my_database_new(), url[400], hex[2 * SQLOCK_OWNER_SIZE + 1];
    sqlock *m = NULL;
    sqlock_lock *lock = NULL;
    sqlock_conn *conn = NULL;
    MYSQL *my;

    if (!my_skips_locked())
        skip();
    lock = take_in(database, &m);
    my_private_exec("CREATE DATABASE `%s`", database);
    snprintf(url, sizeof url, "mysql://root@localhost/%s?socket=%s", database, my_private_socket());
    ok(sqlock_migrate(sqlock_driver_mysql(), url, NULL, NULL, &said));
    assert_non_null(my = mysql_init(NULL));
    assert_non_null(mysql_real_connect(my, NULL, "root", "", database, 0, my_private_socket(), 0));
    ok(sqlock_adopt_mysql(m, my, &conn, &said));
    say(my, "START TRANSACTION");
    says(SQLOCK_EREFUSED, sqlock_guard(lock, conn, &said)); /* no row: not lost */
    say(my, "ROLLBACK");
    for (int i = 0; i < SQLOCK_OWNER_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", sqlock_lock_owner(lock)[i]);
    my_private_exec("INSERT INTO `%s`.sqlock_lock (ns, name, token, owner, exp, since) "
                    "VALUES ('', 'sale', %lld, X'%s', 4000000000000000, 1)",
                    database, (long long)sqlock_lock_token(lock), hex);
    say(my, "START TRANSACTION");
    says(SQLOCK_EREFUSED, sqlock_guard(lock, conn, &said));
    assert_non_null(strstr(said.text, "another server"));
    say(my, "ROLLBACK");
    sqlock_conn_free(conn);
    mysql_close(my);
    ok(sqlock_release(lock, &said));
    drop(lock);
    sqlock_close(m);
    my_private_exec("DROP DATABASE `%s`", database);
}

TEST_MAIN_ON(mysql)
