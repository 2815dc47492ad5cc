/* MariaDB servers that are not there, will not have us, or cannot keep a promise; and what a server
 * or client may have set otherwise without harm. */
#include <arpa/inet.h>
#include <mysql.h>
#include <poll.h>
#include <sqlock/driver.h>
#include <sqlock/mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/check.h"
#include "tests/lib/my_private.h"

/* Acquire, find it busy, renew and release, with managers of their own. */
static void use(const sqlock_open_opts *o, const char *url)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *other = NULL;
    sqlock *a = NULL, *b = NULL;
    sqlock_error err = {0};
    int64_t token;

    once.wait_ms = 0;
    assert_ok(sqlock_open(sqlock_driver_mysql(), url, o, &a, &err), &err);
    assert_ok(sqlock_open(sqlock_driver_mysql(), my_private_url(), NULL, &b, &err), &err);
    assert_ok(sqlock_acquire(a, "nightly", NULL, &lock, &err), &err);
    token = sqlock_lock_token(lock);
    assert_code(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &once, &other, &err), &err);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    assert_ok(sqlock_acquire(b, "nightly", &once, &other, &err), &err);
    assert_int_equal(sqlock_lock_token(other), token + 1);
    assert_ok(sqlock_release(other, &err), &err);
    sqlock_lock_free(lock);
    sqlock_lock_free(other);
    sqlock_close(a);
    sqlock_close(b);
}

static void test_a_socket_that_is_not_there_is_unreachable(void **state)
{
    sqlock_error err;

    (void)state;
    if (!test_wants("mysql"))
        skip();
    assert_code(SQLOCK_EUNREACH,
                mysql_try("mysql://root@localhost/test?socket=/nowhere/s", 0, &err), &err);
    assert_code(SQLOCK_EUNREACH, mysql_try("mysql://root@127.0.0.1:1/test", 0, &err), &err);
}

static void test_a_pooler_that_shares_sessions_is_refused(void **state)
{
    sqlock_error err;

    (void)state;
    if (!test_wants("mysql"))
        skip();
    assert_code(
        SQLOCK_EREFUSED,
        mysql_try("mysql://root@localhost/test?socket=/nowhere/s", SQLOCK_OPEN_UNPREPARED, &err),
        &err);
}

/* A port on which nobody answers. */
static int listen_in_silence(char *url, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(url, size, "mysql://root@127.0.0.1:%d/test", ntohs(a.sin_port));
    return fd;
}

/* Connections that nobody accepts, until one has to wait for its own making. */
static size_t crowd(const char *url, int *fds, size_t n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

    a.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
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

static void open_in_time(const char *url)
{
    int64_t begun = sqlock_now_us();
    sqlock_error err;

    assert_code(SQLOCK_EUNREACH, mysql_try_for(url, 0, 1000, &err), &err);
    assert_true(sqlock_now_us() - begun < INT64_C(3) * patience_ms(1000) * 1000);
}

static void test_a_server_that_says_nothing_is_given_up_in_time(void **state)
{
    char url[64];
    int fds[16], fd;
    size_t n;

    (void)state;
    if (!test_wants("mysql"))
        skip();
    fd = listen_in_silence(url, sizeof url);
    open_in_time(url);
    n = crowd(url, fds, sizeof fds / sizeof *fds);
    open_in_time(url);
    while (n > 0)
        close(fds[--n]);
    close(fd);
}

static void test_a_wrong_password_is_denied_and_never_told(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    mysql_new_user("guest", "localhost", "right");
    snprintf(url, sizeof url, "mysql://guest:secret@localhost/test?socket=%s", my_private_socket());
    assert_code(SQLOCK_EDENIED, mysql_try(url, 0, &err), &err);
    assert_null(strstr(err.text, "secret"));
}

static void test_a_database_that_does_not_exist_is_unreachable_for_good(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    snprintf(url, sizeof url, "mysql://root@localhost/nosuch?socket=%s", my_private_socket());
    assert_code(SQLOCK_EUNREACH, mysql_try(url, 0, &err), &err);
    assert_int_equal(err.flags & SQLOCK_RETRY, 0);
}

static void test_a_read_only_server_is_refused(void **state)
{
    sqlock_error err;
    int rc;

    (void)state;
    mysql_migrated();
    my_private_exec("SET GLOBAL read_only = 1");
    rc = mysql_try(my_private_url(), 0, &err);
    my_private_exec("SET GLOBAL read_only = 0");
    assert_code(SQLOCK_EREADONLY, rc, &err);
}

/* Of the rights that a client needs each is asked for, and no more. */
static void test_a_missing_right_is_told_when_it_is_opened(void **state)
{
    static const struct {
        const char *lock, *meta, *missing;
    } cases[] = {{"SELECT, INSERT, UPDATE", "SELECT, UPDATE", NULL},
                 {"INSERT, UPDATE", "SELECT, UPDATE", "SELECT"},
                 {"SELECT, UPDATE", "SELECT, UPDATE", "INSERT"},
                 {"SELECT, INSERT", "SELECT, UPDATE", "UPDATE"},
                 {"SELECT, INSERT, UPDATE", "SELECT", "UPDATE"},
                 {"SELECT, INSERT, UPDATE (token)", "SELECT, UPDATE", "UPDATE"}};
    char url[400];
    sqlock_error err;

    (void)state;
    mysql_migrated();
    /* of MySQL 5.6: everybody may do everything in databases called test */
    my_private_exec("DELETE FROM mysql.db WHERE user = ''; FLUSH PRIVILEGES");
    snprintf(url, sizeof url, "mysql://modest@localhost/test?socket=%s", my_private_socket());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc;

        mysql_new_user("modest", "localhost", NULL);
        my_private_exec("GRANT %s ON test.sqlock_lock TO modest@localhost; "
                        "GRANT %s ON test.sqlock_meta TO modest@localhost",
                        cases[i].lock, cases[i].meta);
        rc = mysql_try(url, 0, &err);
        assert_code(cases[i].missing != NULL ? SQLOCK_EDENIED : SQLOCK_OK, rc, &err);
        if (cases[i].missing != NULL)
            assert_non_null(strstr(err.text, cases[i].missing));
    }
}

static int count_step(const sqlock_migration_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

/* What one may not read is not shown in the catalogue: that is no table that is absent. */
static void test_migrations_that_may_not_be_read_are_denied_and_not_absent(void **state)
{
    char url[400];
    sqlock_error err;
    int told = 0;

    (void)state;
    mysql_migrated();
    my_private_exec("DELETE FROM mysql.db WHERE user = ''; FLUSH PRIVILEGES");
    snprintf(url, sizeof url, "mysql://modest@localhost/test?socket=%s", my_private_socket());
    mysql_new_user("modest", "localhost", NULL);
    my_private_exec("GRANT SELECT, INSERT, UPDATE ON test.sqlock_lock TO modest@localhost");
    for (int i = 0; i < 2; i++) {
        const sqlock_driver *driver = sqlock_driver_mysql();

        assert_code(SQLOCK_EDENIED,
                    sqlock_migration_status(driver, url, NULL, count_step, &told, &err), &err);
        assert_int_equal(told, 0);
        assert_non_null(strstr(err.text, i == 0 ? "sqlock_meta" : "sqlock_migration"));
        assert_code(SQLOCK_EDENIED, sqlock_migration_verify(driver, url, NULL, &err), &err);
        my_private_exec("GRANT SELECT, UPDATE ON test.sqlock_meta TO modest@localhost");
    }
    my_private_exec("GRANT SELECT ON test.sqlock_migration TO modest@localhost");
    assert_ok(sqlock_migration_status(sqlock_driver_mysql(), url, NULL, count_step, &told, &err),
              &err);
    assert_true(told > 0);
    /* Of the tables that are left it cannot be known. */
    assert_code(SQLOCK_ESCHEMA, sqlock_migration_verify(sqlock_driver_mysql(), url, NULL, &err),
                &err);
    assert_non_null(strstr(err.text, "or no right to it"));
}

static void test_rights_by_role_wildcard_and_column_are_enough(void **state)
{
    static const char *const grants[] = {
        "GRANT SELECT, INSERT, UPDATE ON `te%`.* TO modest@localhost",
        "GRANT SELECT, INSERT, UPDATE ON *.* TO modest@localhost",
        "DROP ROLE IF EXISTS locker; CREATE ROLE locker; "
        "GRANT SELECT, INSERT, UPDATE ON test.* TO locker; GRANT locker TO modest@localhost; "
        "SET DEFAULT ROLE locker /*M! FOR */ /*!80000 TO */ modest@localhost",
        "GRANT SELECT, INSERT, UPDATE (owner, token, exp, ttl, since, label, ended_owner, "
        "ended_token, ended_why, withdrawn, idle_since, mode) ON test.sqlock_lock TO "
        "modest@localhost; "
        "GRANT SELECT, UPDATE (fence_floor, inc, server, lost_at, longest) ON test.sqlock_meta TO "
        "modest@localhost"};
    char url[400];
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    (void)state;
    mysql_migrated();
    snprintf(url, sizeof url, "mysql://modest@localhost/test?socket=%s", my_private_socket());
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        if (strcmp(mysql_kind(), "5.6") == 0 && strstr(grants[i], "ROLE") != NULL)
            continue;
        mysql_new_user("modest", "localhost", NULL);
        my_private_exec("%s", grants[i]);
        use(&o, url);
    }
}

static void test_a_table_that_is_not_innodb_is_refused(void **state)
{
    static const char *const tables[] = {"lock", "broken"};
    sqlock_error err;

    (void)state;
    mysql_migrated();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        my_private_exec("ALTER TABLE test.sqlock_%s ENGINE = MyISAM", tables[i]);
        int rc = mysql_try(my_private_url(), 0, &err);
        my_private_exec("ALTER TABLE test.sqlock_%s ENGINE = InnoDB", tables[i]);
        assert_code(SQLOCK_EREFUSED, rc, &err);
        assert_non_null(strstr(err.text, "InnoDB"));
    }
}

static void test_servers_that_cannot_keep_time_or_log_are_refused(void **state)
{
    sqlock_error err;

    (void)state;
    mysql_migrated();
    my_private_restart("--log-bin=bin --binlog-format=STATEMENT --sync-binlog=1");
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &err), &err);
    assert_non_null(strstr(err.text, "STATEMENT"));
    my_private_restart("--sysdate-is-now");
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &err), &err);
    assert_non_null(strstr(err.text, "sysdate_is_now"));
    my_private_restart("");
    use(NULL, my_private_url());
}

static void test_hostile_defaults_of_a_server_change_nothing(void **state)
{
    (void)state;
    mysql_migrated();
    my_private_exec("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    my_private_exec("SET GLOBAL sql_mode = 'ANSI', GLOBAL autocommit = 0,"
                    " GLOBAL time_zone = '+13:00', GLOBAL sql_select_limit = 0,"
                    " GLOBAL completion_type = 'CHAIN',"
                    " GLOBAL init_connect = 'SET sql_safe_updates = 1'"
                    " /*!80000 , GLOBAL max_execution_time = 1 */"
                    " /*M!100000 , GLOBAL max_statement_time = 0.001,"
                    " GLOBAL sql_mode = 'SIMULTANEOUS_ASSIGNMENT,ANSI' */");
    use(NULL, my_private_url());
    my_private_restart("");
}

struct factory {
    unsigned long flags;
    const char *first; /* what it says to the server before it hands a connection out */
    int made;
    int blocks; /* made so that it cannot be used without blocking, or connects anew by itself */
};

static int connect_by_hand(void *user, void **out_native, sqlock_error *err)
{
    struct factory *f = user;
    MYSQL *my = mysql_init(NULL);

    (void)err;
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

static void test_a_factorys_connections_work_with_and_without_found_rows(void **state)
{
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    (void)state;
    mysql_migrated();
    o.connect = connect_by_hand;
    o.connect_user = &f;
    use(&o, NULL);
    f.flags |= CLIENT_FOUND_ROWS;
    use(&o, NULL);
    assert_true(f.made >= 2);
}

static void refuse_the_factory(struct factory f)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;

    o.connect = connect_by_hand;
    o.connect_user = &f;
    assert_code(SQLOCK_ESTATE, sqlock_open(sqlock_driver_mysql(), NULL, &o, &m, &err), &err);
    assert_null(m);
}

static void test_a_factorys_connection_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    mysql_migrated();
    refuse_the_factory((struct factory){.flags = 0});
    refuse_the_factory((struct factory){.flags = CLIENT_MULTI_STATEMENTS, .blocks = 1});
}

/* A replica that takes over would not know what tokens were drawn here. */
static void test_a_session_whose_changes_reach_no_replica_is_refused(void **state)
{
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS, .first = "SET sql_log_bin = 0"};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;

    (void)state;
    mysql_migrated();
    o.connect = connect_by_hand;
    o.connect_user = &f;
    my_private_restart("--log-bin=bin --sync-binlog=1 --binlog-format=MIXED --server-id=7");
    assert_code(SQLOCK_EREFUSED, sqlock_open(sqlock_driver_mysql(), NULL, &o, &m, &err), &err);
    assert_non_null(strstr(err.text, "sql_log_bin"));
    assert_null(m);
    f.first = NULL;
    use(&o, NULL);
    my_private_exec("FLUSH LOGS"); /* what is only prepared would need the binlog again */
    my_private_restart("--skip-log-bin");
    f.first = "SET sql_log_bin = 0";
    use(&o, NULL);
}

/* EXPLAIN says of a query on information_schema how many databases it goes through. */
static void explain(MYSQL *my, const char *query, int *explained)
{
    char sql[16384];
    MYSQL_RES *res;

    snprintf(sql, sizeof sql, "EXPLAIN %s", query);
    assert_int_equal(mysql_query(my, sql), 0);
    res = mysql_store_result(my);
    assert_non_null(res);
    for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;) {
        const char *extra = row[mysql_num_fields(res) - 1];

        if (extra != NULL && strstr(extra, "Scanned all databases") != NULL)
            fail_msg("all databases are read by %s", query);
    }
    mysql_free_result(res);
    ++*explained;
}

/* On a server with 200 databases of 50 tables an opening took 0.2 s, and verifying never ended. */
static void test_no_request_reads_the_catalogue_of_every_database(void **state)
{
    static const char logged[] = "SELECT argument FROM mysql.general_log WHERE command_type = "
                                 "'Query' AND argument LIKE 'SELECT 0,%information_schema%'";
    static const char *const schemas[] = {NULL, "test"};
    struct factory f = {.flags = CLIENT_MULTI_STATEMENTS};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    MYSQL *my = NULL;
    MYSQL_RES *res;
    int explained = 0;
    sqlock_error err = {0};

    (void)state;
    mysql_migrated();
    my_private_exec("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1; "
                    "TRUNCATE mysql.general_log");
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        o.schema = schemas[i];
        use(&o, my_private_url());
        assert_ok(sqlock_migration_verify(sqlock_driver_mysql(), my_private_url(), &o, &err), &err);
        assert_ok(sqlock_migrate(sqlock_driver_mysql(), my_private_url(), &o, NULL, &err), &err);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_socket_that_is_not_there_is_unreachable),
        cmocka_unit_test(test_a_pooler_that_shares_sessions_is_refused),
        cmocka_unit_test(test_a_server_that_says_nothing_is_given_up_in_time),
        cmocka_unit_test(test_a_wrong_password_is_denied_and_never_told),
        cmocka_unit_test(test_a_database_that_does_not_exist_is_unreachable_for_good),
        cmocka_unit_test(test_a_read_only_server_is_refused),
        cmocka_unit_test(test_a_missing_right_is_told_when_it_is_opened),
        cmocka_unit_test(test_migrations_that_may_not_be_read_are_denied_and_not_absent),
        cmocka_unit_test(test_rights_by_role_wildcard_and_column_are_enough),
        cmocka_unit_test(test_a_table_that_is_not_innodb_is_refused),
        cmocka_unit_test(test_servers_that_cannot_keep_time_or_log_are_refused),
        cmocka_unit_test(test_hostile_defaults_of_a_server_change_nothing),
        cmocka_unit_test(test_a_factorys_connections_work_with_and_without_found_rows),
        cmocka_unit_test(test_a_factorys_connection_that_does_not_fit_is_refused),
        cmocka_unit_test(test_a_session_whose_changes_reach_no_replica_is_refused),
        cmocka_unit_test(test_no_request_reads_the_catalogue_of_every_database),
    };

    return cmocka_run_group_tests_name("MariaDB servers", tests, NULL, NULL);
}
