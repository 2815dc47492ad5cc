/* MariaDB servers that are not there, will not have us, or cannot keep a promise; and what a server
 * or client may have set otherwise without harm. */
#include <arpa/inet.h>
#include <mysql.h>
#include <poll.h>
#include <sqlock/driver.h>
#include <sqlock/mysql.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"
#include "tests/lib/proxy.h"

static sqlock_error err;

/* Acquire, find it busy, renew and release, with managers of their own. */
static void use(struct db db)
{
    sqlock *a = db_open(db), *b = db_open(mysql_db(my_private_url()));
    sqlock_lock *lock = lock_take(a, "nightly", 0, 0), *other = NULL;
    int64_t token = sqlock_lock_token(lock);

    assert_code(SQLOCK_EBUSY, lock_try(b, "nightly", 0, &other, &err), &err);
    assert_ok(sqlock_renew(lock, &err), &err);
    lock_give(lock);
    assert_int_equal(lock_draw(b, "nightly"), token + 1);
    sqlock_close(a);
    sqlock_close(b);
}

TEST(test_a_socket_that_is_not_there_is_unreachable)
{
    need_driver("mysql");
    assert_code(SQLOCK_EUNREACH,
                mysql_try("mysql://root@localhost/test?socket=/nowhere/s", 0, &err), &err);
    assert_code(SQLOCK_EUNREACH, mysql_try("mysql://root@127.0.0.1:1/test", 0, &err), &err);
}

TEST(test_a_pooler_that_shares_sessions_is_refused)
{
    need_driver("mysql");
    assert_code(
        SQLOCK_EREFUSED,
        mysql_try("mysql://root@localhost/test?socket=/nowhere/s", SQLOCK_OPEN_UNPREPARED, &err),
        &err);
}

/* Connections that nobody accepts, until one has to wait for its own making. */
static size_t crowd(int port, int *fds, size_t n)
{
    struct sockaddr_in a = {AF_INET, htons((uint16_t)port), {htonl(INADDR_LOOPBACK)}, ""};

    for (size_t i = 0; i < n; i++) {
        struct pollfd p = {.events = POLLOUT};

        p.fd = fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(fds[i] >= 0);
        connect(fds[i], (struct sockaddr *)&a, sizeof a);
        if (poll(&p, 1, 50) == 0)
            return i + 1;
    }
    fail_msg("there was always room for one more");
    return n;
}

TEST(test_a_server_that_says_nothing_is_given_up_in_time)
{
    int fds[16], fd, port = port_without_server("127.0.0.1", &fd);
    const char *url = textf("mysql://root@127.0.0.1:%d/test", port);
    size_t n;

    need_driver("mysql");
    assert_given_up_in_time(url);
    n = crowd(port, fds, sizeof fds / sizeof *fds);
    assert_given_up_in_time(url);
    while (n > 0)
        close(fds[--n]);
    close(fd);
}

TEST(test_a_wrong_password_is_denied_and_never_shown)
{
    mysql_new_user("guest", "localhost", "right");
    assert_code(SQLOCK_EDENIED, mysql_try(mysql_login("guest:secret"), 0, &err), &err);
    assert_silent(&err, "secret");
}

TEST(test_a_database_that_does_not_exist_is_unreachable_for_good)
{
    const char *url = textf("mysql://root@localhost/nosuch?socket=%s", my_private_socket());

    assert_code(SQLOCK_EUNREACH, mysql_try(url, 0, &err), &err);
    assert_int_equal(err.flags & SQLOCK_RETRY, 0);
}

TEST(test_a_read_only_server_is_refused)
{
    my_private_exec("DROP DATABASE IF EXISTS test; CREATE DATABASE test; "
                    "SET GLOBAL read_only = 1");
    assert_migrating_says_what_opening_says(mysql_db(my_private_url()), SQLOCK_EREADONLY);
    my_private_exec("SET GLOBAL read_only = 0");
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_schema = 'test'"),
                     0);
    assert_ok(db_try(mysql_migrated(), &err), &err);
    my_private_exec("SET GLOBAL read_only = 1");
    assert_code(SQLOCK_EREADONLY, mysql_try(my_private_url(), 0, &err), &err);
    my_private_exec("SET GLOBAL read_only = 0");
}

/* A switchover behind one address: who waits for a lock goes on, who only tries learns why not. */
TEST(test_wait_goes_on_while_the_server_is_read_only)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    sqlock *m;

    mysql_migrated();
    mysql_new_user("modest", "localhost", NULL);
    my_private_exec("GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO modest@localhost");
    m = db_open(mysql_db(mysql_login("modest")));
    o.wait_ms = 30000;
    my_private_exec("SET GLOBAL read_only = 1");
    assert_code(SQLOCK_EREADONLY, lock_try(m, "nightly", 0, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_ok(sqlock_acquire_start(m, "nightly", &o, &op, &err), &err);
    sqlock_sleep_us(1500000);
    my_private_exec("SET GLOBAL read_only = 0");
    assert_ok(sqlock_op_finish(op, &lock, &err), &err);
    lock_give(lock);
    sqlock_close(m);
}

/* Of the rights that a client needs each is asked for, and no more. */
TEST(test_a_missing_right_is_reported_when_it_is_opened)
{
    static const struct {
        const char *lock, *meta, *missing;
    } cases[] = {{"SELECT, INSERT, UPDATE", "SELECT, UPDATE", NULL},
                 {"INSERT, UPDATE", "SELECT, UPDATE", "SELECT"},
                 {"SELECT, UPDATE", "SELECT, UPDATE", "INSERT"},
                 {"SELECT, INSERT", "SELECT, UPDATE", "UPDATE"},
                 {"SELECT, INSERT, UPDATE", "SELECT", "UPDATE"},
                 {"SELECT, INSERT, UPDATE (token)", "SELECT, UPDATE", "UPDATE"}};
    mysql_migrated();
    /* of MySQL 5.6: everybody may do everything in databases called test */
    my_private_exec("DELETE FROM mysql.db WHERE user = ''; FLUSH PRIVILEGES");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc;

        mysql_new_user("modest", "localhost", NULL);
        my_private_exec("GRANT %s ON test.sqlock_lock TO modest@localhost; "
                        "GRANT %s ON test.sqlock_meta TO modest@localhost",
                        cases[i].lock, cases[i].meta);
        rc = mysql_try(mysql_login("modest"), 0, &err);
        assert_code(cases[i].missing != NULL ? SQLOCK_EDENIED : SQLOCK_OK, rc, &err);
        if (cases[i].missing != NULL)
            assert_says(&err, cases[i].missing);
    }
}

static int count_step(const sqlock_migration_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

/* What one may not read is not shown in the catalogue: that is no table that is absent. */
TEST(test_migrations_that_may_not_be_read_are_denied_and_not_absent)
{
    const sqlock_driver *driver = sqlock_driver_mysql();
    const char *url;
    int told = 0;

    mysql_migrated();
    my_private_exec("DELETE FROM mysql.db WHERE user = ''; FLUSH PRIVILEGES");
    url = mysql_login("modest");
    mysql_new_user("modest", "localhost", NULL);
    my_private_exec("GRANT SELECT, INSERT, UPDATE ON test.sqlock_lock TO modest@localhost");
    for (int i = 0; i < 2; i++) {
        assert_code(SQLOCK_EDENIED,
                    sqlock_migration_status(driver, url, NULL, count_step, &told, &err), &err);
        assert_int_equal(told, 0);
        assert_says(&err, i == 0 ? "sqlock_meta" : "sqlock_migration");
        assert_code(SQLOCK_EDENIED, sqlock_migration_verify(driver, url, NULL, &err), &err);
        my_private_exec("GRANT SELECT, UPDATE ON test.sqlock_meta TO modest@localhost");
    }
    my_private_exec("GRANT SELECT ON test.sqlock_migration TO modest@localhost");
    assert_ok(sqlock_migration_status(driver, url, NULL, count_step, &told, &err), &err);
    assert_true(told > 0);
    /* Of the tables that are left it cannot be known. */
    assert_error(SQLOCK_ESCHEMA, "or no right to it",
                 sqlock_migration_verify(driver, url, NULL, &err), &err);
}

TEST(test_rights_by_role_wildcard_and_column_are_enough)
{
    static const char *const grants[] = {
        "GRANT SELECT, INSERT, UPDATE ON `te%`.* TO modest@localhost",
        "GRANT SELECT, INSERT, UPDATE ON *.* TO modest@localhost",
        "DROP ROLE IF EXISTS locker; CREATE ROLE locker; "
        "GRANT SELECT, INSERT, UPDATE ON test.* TO locker; GRANT locker TO modest@localhost; "
        "SET DEFAULT ROLE locker /*M! FOR */ /*!80000 TO */ modest@localhost",
        "GRANT SELECT, INSERT, UPDATE (owner, token, exp, ttl, since, label, ended_owner, "
        "ended_token, ended_why, withdrawn, idle_since, client, offered, mode) ON test.sqlock_lock "
        "TO "
        "modest@localhost; "
        "GRANT SELECT, UPDATE (fence_floor, inc, server, lost_at, longest) ON test.sqlock_meta TO "
        "modest@localhost"};
    mysql_migrated();
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        if (strcmp(mysql_kind(), "5.6") == 0 && strstr(grants[i], "ROLE") != NULL)
            continue;
        mysql_new_user("modest", "localhost", NULL);
        my_private_exec("%s", grants[i]);
        use(mysql_db(mysql_login("modest")));
    }
}

TEST(test_a_table_that_is_not_innodb_is_refused)
{
    static const char *const tables[] = {"lock", "broken"};

    mysql_migrated();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        my_private_exec("ALTER TABLE test.sqlock_%s ENGINE = MyISAM", tables[i]);
        int rc = mysql_try(my_private_url(), 0, &err);
        my_private_exec("ALTER TABLE test.sqlock_%s ENGINE = InnoDB", tables[i]);
        assert_error(SQLOCK_EREFUSED, "InnoDB", rc, &err);
    }
}

TEST(test_servers_that_cannot_keep_time_or_log_are_refused)
{
    mysql_migrated();
    my_private_restart("--log-bin=bin --binlog-format=STATEMENT --sync-binlog=1");
    assert_error(SQLOCK_EREFUSED, "STATEMENT", mysql_try(my_private_url(), 0, &err), &err);
    my_private_restart("--sysdate-is-now");
    assert_error(SQLOCK_EREFUSED, "sysdate_is_now", mysql_try(my_private_url(), 0, &err), &err);
    my_private_restart("");
    use(mysql_db(my_private_url()));
}

TEST(test_hostile_defaults_of_a_server_change_nothing)
{
    mysql_migrated();
    my_private_exec("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    my_private_exec("SET GLOBAL sql_mode = 'ANSI', GLOBAL autocommit = 0,"
                    " GLOBAL time_zone = '+13:00', GLOBAL sql_select_limit = 0,"
                    " GLOBAL completion_type = 'CHAIN',"
                    " GLOBAL init_connect = 'SET sql_safe_updates = 1'"
                    " /*!80000 , GLOBAL max_execution_time = 1 */"
                    " /*M!100000 , GLOBAL max_statement_time = 0.001,"
                    " GLOBAL sql_mode = 'SIMULTANEOUS_ASSIGNMENT,ANSI' */");
    use(mysql_db(my_private_url()));
    my_private_restart("");
}

struct factory {
    unsigned long flags;
    const char *first; /* what it says to the server before it hands a connection out */
    int made;
    int blocks; /* made so that it cannot be used without blocking, or connects anew by itself */
};

static int connect_by_hand(void *user, void **out_native, sqlock_error *out_err)
{
    struct factory *f = user;
    MYSQL *my = mysql_init(NULL);

    (void)out_err;
#ifdef MARIADB_PACKAGE_VERSION_ID
    if (!f->blocks)
        mysql_options(my, MYSQL_OPT_NONBLOCK, NULL);
#endif
    if (!mysql_real_connect(my, NULL, "root", "", "test", 0, my_private_socket(), f->flags)) {
        mysql_close(my);
        return SQLOCK_EUNREACH;
    }
#ifndef MARIADB_PACKAGE_VERSION_ID
    my->reconnect = f->blocks;
#endif
    if (f->first != NULL)
        assert_int_equal(mysql_query(my, f->first), 0);
    f->made++;
    *out_native = my;
    return 0;
}

static struct db factory_db(struct factory *f)
{
    struct db db = mysql_db(NULL);

    db.connect = connect_by_hand;
    db.connect_user = f;
    return db;
}

TEST(test_a_factorys_connections_work_with_and_without_found_rows)
{
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS};

    mysql_migrated();
    use(factory_db(&f));
    f.flags |= CLIENT_FOUND_ROWS;
    use(factory_db(&f));
    assert_true(f.made >= 2);
}

/* Several answers come in one piece. */
TEST(test_a_factorys_compressed_connections_work)
{
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS | CLIENT_COMPRESS};

    mysql_migrated();
    use(factory_db(&f));
    assert_true(f.made >= 1);
}

TEST(test_a_factorys_connection_that_does_not_fit_is_refused)
{
    struct factory single = {.flags = 0}, blocks = {.flags = CLIENT_MULTI_STATEMENTS, .blocks = 1};

    mysql_migrated();
    assert_code(SQLOCK_ESTATE, db_try(factory_db(&single), &err), &err);
    assert_code(SQLOCK_ESTATE, db_try(factory_db(&blocks), &err), &err);
}

/* A replica that takes over would not know what tokens were drawn here. */
TEST(test_a_session_whose_changes_reach_no_replica_is_refused)
{
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS, .first = "SET sql_log_bin = 0"};

    mysql_migrated();
    my_private_restart("--log-bin=bin --sync-binlog=1 --binlog-format=MIXED --server-id=7");
    assert_error(SQLOCK_EREFUSED, "sql_log_bin", db_try(factory_db(&f), &err), &err);
    f.first = NULL;
    use(factory_db(&f));
    my_private_exec("FLUSH LOGS"); /* what is only prepared would need the binlog again */
    my_private_restart("--skip-log-bin");
    f.first = "SET sql_log_bin = 0";
    use(factory_db(&f));
}

/* EXPLAIN says of a query on information_schema how many databases it goes through. */
static void explain(MYSQL *my, const char *query, int *explained)
{
    MYSQL_RES *res;

    assert_int_equal(mysql_query(my, textf("EXPLAIN %s", query)), 0);
    assert_non_null(res = mysql_store_result(my));
    for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;) {
        const char *extra = row[mysql_num_fields(res) - 1];

        if (extra != NULL && strstr(extra, "Scanned all databases") != NULL)
            fail_msg("all databases are read by %s", query);
    }
    mysql_free_result(res);
    ++*explained;
}

/* On a server with 200 databases of 50 tables an opening took 0.2 s, and verifying never ended. */
TEST(test_no_request_reads_the_catalogue_of_every_database)
{
    static const char logged[] = "SELECT argument FROM mysql.general_log WHERE command_type = "
                                 "'Query' AND argument LIKE 'SELECT 0,%information_schema%'";
    static const char *const schemas[] = {NULL, "test"};
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS};
    MYSQL *my = NULL;
    MYSQL_RES *res;
    int explained = 0;
    struct db db = mysql_migrated();

    my_private_exec("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1; "
                    "TRUNCATE mysql.general_log");
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        sqlock_open_opts o;

        db.schema = schemas[i];
        o = db_opts(db);
        use(db);
        assert_ok(sqlock_migration_verify(db.driver, db.url, &o, &err), &err);
        db_migrate(db);
    }
    my_private_exec("SET GLOBAL general_log = 0, GLOBAL log_output = 'FILE'");
    assert_ok(connect_by_hand(&f, (void **)&my, NULL), NULL);
    assert_int_equal(mysql_query(my, logged), 0);
    assert_non_null(res = mysql_store_result(my));
    for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;)
        explain(my, row[0], &explained);
    mysql_free_result(res);
    mysql_close(my);
    assert_between(20, explained, 200);
}

/* ---- one of several which all grant: a Galera cluster of one node, a replication group ------- */

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

/* A cluster of its own, on a port of its own: 64 of them for each process: it takes some. */
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
    assert_error(SQLOCK_EREFUSED, "a Galera node, and each node grants by a clock of its own",
                 mysql_try(my_private_url(), 0, &err), &err);
    my_private_exec("DROP DATABASE IF EXISTS test; CREATE DATABASE test");
    assert_migrating_says_what_opening_says(mysql_db(my_private_url()), SQLOCK_EREFUSED);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_schema = 'test'"),
                     0);
    /* Weak durability is another matter. */
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), SQLOCK_OPEN_ACCEPT_WEAK, &err), &err);
    my_private_exec("SET GLOBAL wsrep_cluster_address = 'gcomm://127.0.0.1:1?pc.wait_prim=no'");
    assert_error(SQLOCK_EREFUSED, "a Galera node that is not in the primary component",
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
    assert_error(SQLOCK_EREFUSED, "several primaries", mysql_try(my_private_url(), 0, &err), &err);
    my_private_restart("");
}

TEST_MAIN_EACH(NULL, NULL)
