/* Servers that are one of several which all grant: refused, with the reason. A Galera cluster of
 * one node, as MariaDB makes it, and MySQL's Group Replication. */
#include <sqlock/mysql.h>
#include <string.h>
#include <unistd.h>

#include "tests/input/hosts.h"
#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"

static sqlock_error err;

/* The library that makes MariaDB a node. */
static const char *galera(void)
{
    static const char *const paths[] = {"/usr/lib/galera/libgalera_smm.so",
                                        "/usr/lib64/galera-4/libgalera_smm.so",
                                        "/usr/lib64/galera/libgalera_smm.so"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], R_OK) == 0)
            return paths[i];
    skip_loudly("there is no Galera library (package galera-4)");
    return NULL;
}

/* A cluster of its own, on a port of its own: 64 of them for each process, as base_port takes some.
 */
static void become_galera_node(void)
{
    int port = 10000 + getpid() % 300 * 64;

    my_private_restart(textf(
        "--wsrep-on=ON --wsrep-provider=%s --wsrep-new-cluster --wsrep-cluster-address=gcomm:// "
        "--wsrep-cluster-name=sqlock_test_%d --wsrep-node-address=127.0.0.1 --binlog-format=ROW "
        "--innodb-autoinc-lock-mode=2 --wsrep-provider-options=base_port=%d;"
        "gmcast.listen_addr=tcp://127.0.0.1:%d;gcache.size=1M",
        galera(), (int)getpid(), port, port));
}

TEST(test_P16_a_galera_node_is_refused)
{
    if (strcmp(mysql_kind(), "MariaDB") != 0)
        skip();
    mysql_migrated();
    become_galera_node();
    assert_told(SQLOCK_EREFUSED, "a Galera node, and each node grants by a clock of its own",
                mysql_try(my_private_url(), 0, &err), &err);
    my_private_exec("DROP DATABASE IF EXISTS test; CREATE DATABASE test");
    assert_migrating_says_what_opening_says(mysql_db(my_private_url()), SQLOCK_EREFUSED);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_schema = 'test'"),
                     0);
    /* Weak durability is another matter. */
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), SQLOCK_OPEN_ACCEPT_WEAK, &err), &err);
    my_private_exec("SET GLOBAL wsrep_cluster_address = 'gcomm://127.0.0.1:1?pc.wait_prim=no'");
    assert_told(SQLOCK_EREFUSED, "a Galera node that is not in the primary component",
                mysql_try(my_private_url(), 0, &err), &err);
    my_private_restart("");
    mysql_migrated();
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
}

TEST(test_P16_a_replication_group_with_several_primaries_is_refused)
{
    if (strcmp(mysql_kind(), "MariaDB") == 0 || my_private_number("SELECT VERSION() < '8'"))
        skip();
    mysql_migrated();
    my_private_restart("--plugin-load-add=group_replication.so");
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
    my_private_exec("SET GLOBAL group_replication_single_primary_mode = OFF");
    assert_told(SQLOCK_EREFUSED, "several primaries", mysql_try(my_private_url(), 0, &err), &err);
    my_private_restart("");
}

TEST_MAIN_EACH(NULL, NULL)
