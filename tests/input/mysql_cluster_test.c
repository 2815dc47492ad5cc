/* Servers that are one of several which all grant: refused, with the reason. A Galera cluster of
 * one node, as MariaDB makes it, and MySQL's Group Replication. */
#include <sqlock/mysql.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/check.h"
#include "tests/lib/my_private.h"

static int is_mariadb(void)
{
    return my_private_number("SELECT VERSION() LIKE '%%MariaDB%%'") == 1;
}

/* The library that makes MariaDB a node. */
static const char *galera(void)
{
    static const char *const paths[] = {"/usr/lib/galera/libgalera_smm.so",
                                        "/usr/lib64/galera-4/libgalera_smm.so",
                                        "/usr/lib64/galera/libgalera_smm.so"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], R_OK) == 0)
            return paths[i];
    print_error("SKIP: there is no Galera library (package galera-4)\n");
    if (test_strict())
        fail_msg("STRICT=1 asks for every test");
    skip();
    return NULL;
}

/* A cluster of its own, on a port of its own: 64 of them for each process, as base_port takes some.
 */
static void become_galera_node(void)
{
    char args[700];
    int port = 10000 + getpid() % 300 * 64;

    snprintf(
        args, sizeof args,
        "--wsrep-on=ON --wsrep-provider=%s --wsrep-new-cluster --wsrep-cluster-address=gcomm:// "
        "--wsrep-cluster-name=sqlock_test_%d --wsrep-node-address=127.0.0.1 --binlog-format=ROW "
        "--innodb-autoinc-lock-mode=2 --wsrep-provider-options=base_port=%d;"
        "gmcast.listen_addr=tcp://127.0.0.1:%d;gcache.size=1M",
        galera(), (int)getpid(), port, port);
    my_private_restart(args);
}

/* And writes nothing. */
static void assert_migrate_says_the_same(const sqlock_error *opened)
{
    sqlock_error err = {0};

    my_private_exec("DROP DATABASE IF EXISTS test; CREATE DATABASE test");
    assert_code(SQLOCK_EREFUSED,
                sqlock_migrate(sqlock_driver_mysql(), my_private_url(), NULL, NULL, &err), &err);
    assert_string_equal(err.text + strlen("migrate"), opened->text + strlen("open"));
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_schema = 'test'"),
                     0);
}

static void test_P16_a_galera_node_is_refused(void **state)
{
    sqlock_error err;

    (void)state;
    if (!is_mariadb())
        skip();
    mysql_migrated();
    become_galera_node();
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &err), &err);
    assert_non_null(strstr(err.text, "a Galera node, and each node grants by a clock of its own"));
    assert_migrate_says_the_same(&err);
    /* Weak durability is another matter. */
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), SQLOCK_OPEN_ACCEPT_WEAK, &err), &err);
    my_private_exec("SET GLOBAL wsrep_cluster_address = 'gcomm://127.0.0.1:1?pc.wait_prim=no'");
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &err), &err);
    assert_non_null(strstr(err.text, "a Galera node that is not in the primary component"));
    my_private_restart("");
    mysql_migrated();
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
}

static void test_P16_a_replication_group_with_several_primaries_is_refused(void **state)
{
    sqlock_error err;

    (void)state;
    if (is_mariadb() || my_private_number("SELECT VERSION() < '8'"))
        skip();
    mysql_migrated();
    my_private_restart("--plugin-load-add=group_replication.so");
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
    my_private_exec("SET GLOBAL group_replication_single_primary_mode = OFF");
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &err), &err);
    assert_non_null(strstr(err.text, "several primaries"));
    my_private_restart("");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_P16_a_galera_node_is_refused),
    cmocka_unit_test(test_P16_a_replication_group_with_several_primaries_is_refused),
};

TEST_MAIN(tests)
