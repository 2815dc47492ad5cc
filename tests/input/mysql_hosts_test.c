/* URLs of MariaDB and MySQL that name several hosts: how many there are, and what becomes of those
 * that are silent, refuse, or are read-only. */
#include <sqlock/mysql.h>

#include "tests/input/hosts.h"
#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"

static sqlock_error err;

static char *mysql_url(const char *user)
{
    return textf("mysql://%s@127.0.0.1:%d,127.0.0.1:%d/test", user, proxy_port(hosts_proxies[0]),
                 proxy_port(hosts_proxies[1]));
}

static void mysql_empty(void)
{
    my_private_exec("DROP DATABASE IF EXISTS test; CREATE DATABASE test");
}

static void mysql_weaken(bool on)
{
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = %d", on ? 2 : 1);
}

static int64_t mysql_tables(void)
{
    return my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                             "WHERE table_schema = 'test'");
}

static const struct hosts mysql = {
    .driver = sqlock_driver_mysql,
    .migrated = mysql_migrated,
    .socket = my_private_socket,
    .url = mysql_url,
    .user = "root",
    .share_ms = 900,
    .empty = mysql_empty,
    .weaken = mysql_weaken,
    .tables = mysql_tables,
};
HOSTS_TESTS(&mysql)

TEST(test_hosts_of_a_list_are_counted)
{
    static const struct named urls[] = {
        {"mysql:///d", 1, 0},
        {"mysql://h/d", 1, 0},
        {"mysql://a,b:p,q@h/d", 1, 0},
        {"mysql://u:secret@h1,h2:3307,[::1]:3308/d?connect-timeout=4", 3, 4},
        {"mariadb://h1:1,h2", 2, 0},
        {"mysql://h/d?connect-timeout=7", 1, 7},
        {0}};

    need_driver("mysql");
    assert_counted(&mysql, urls);
}

/* It was the primary until somebody made it a replica: its links stay, and say so. */
TEST(test_a_server_that_has_become_read_only_is_left)
{
    sqlock_lock *lock = NULL;
    sqlock *m;

    my_private_exec("DROP USER IF EXISTS app@localhost; CREATE USER app@localhost; "
                    "GRANT ALL ON test.* TO app@localhost");
    m = db_open(hosts_two_ways(&mysql, "app", 0));
    my_private_exec("SET GLOBAL read_only = 1");
    assert_code(SQLOCK_EREADONLY, lock_try(m, "nightly", 0, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_true(proxy_accepted(hosts_proxies[1]) > 0);
    my_private_exec("SET GLOBAL read_only = 0");
    lock_draw(m, "nightly");
    sqlock_close(m);
}
TEST_MAIN_EACH(NULL, hosts_teardown)
