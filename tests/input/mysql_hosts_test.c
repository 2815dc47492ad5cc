/* URLs of MariaDB and MySQL that name several hosts: what becomes of those that are silent, refuse,
 * or are read-only. */
#include <arpa/inet.h>
#include <sqlock/mysql.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/check.h"
#include "tests/lib/my_private.h"
#include "tests/lib/proxy.h"

static struct proxy *proxies[2];

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        proxy_stop(proxies[i]);
        proxies[i] = NULL;
    }
    return 0;
}

/* The private server, migrated, by two ways. */
static void two_ways(void)
{
    mysql_migrated();
    for (int i = 0; i < 2; i++)
        proxies[i] = proxy_start_unix(my_private_socket());
}

/* A port of 127.0.0.1 that takes connections and never answers. */
static int silent_port(int *out_fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;

    *out_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(*out_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*out_fd, 8), 0);
    assert_int_equal(getsockname(*out_fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

static int try_open(int first, int second, const char *user, int32_t request_ms, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    char url[200];
    int rc;

    memset(err, 0, sizeof *err);
    snprintf(url, sizeof url, "mysql://%s@127.0.0.1:%d,127.0.0.1:%d/test", user, first, second);
    o.request_ms = request_ms;
    rc = sqlock_open(sqlock_driver_mysql(), url, &o, &m, err);
    sqlock_close(m);
    return rc;
}

static void test_P8_a_silent_first_host_takes_its_share_alone(void **state)
{
    sqlock_error err;
    int64_t begun;
    int fd, port;

    (void)state;
    two_ways();
    port = silent_port(&fd);
    begun = now_us();
    assert_ok(try_open(port, proxy_port(proxies[0]), "root", 4000, &err), &err);
    assert_between(900000, now_us() - begun, 3500000);
    close(fd);
}

static void test_a_refused_first_host_costs_nothing(void **state)
{
    sqlock_error err;
    int64_t begun;

    (void)state;
    two_ways();
    proxy_refuse(proxies[0], 1);
    begun = now_us();
    assert_ok(try_open(proxy_port(proxies[0]), proxy_port(proxies[1]), "root", 5000, &err), &err);
    assert_between(0, now_us() - begun, patience_ms(2000) * INT64_C(1000));
}

static void test_P18_a_wrong_user_is_said_at_once(void **state)
{
    int64_t begun = now_us();
    sqlock_error err;

    (void)state;
    two_ways();
    assert_code(
        SQLOCK_EDENIED,
        try_open(proxy_port(proxies[0]), proxy_port(proxies[1]), "nobody_here", 60000, &err), &err);
    assert_int_equal(err.flags & SQLOCK_RETRY, 0);
    assert_between(0, now_us() - begun, patience_ms(5000) * INT64_C(1000));
}

/* It was the primary until somebody made it a replica: its links stay, and say so. */
static void test_a_server_that_has_become_read_only_is_left(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts a = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    sqlock *m = NULL;
    char url[200];

    (void)state;
    two_ways();
    my_private_exec("DROP USER IF EXISTS app@localhost; CREATE USER app@localhost; "
                    "GRANT ALL ON test.* TO app@localhost");
    snprintf(url, sizeof url, "mysql://app@127.0.0.1:%d,127.0.0.1:%d/test", proxy_port(proxies[0]),
             proxy_port(proxies[1]));
    assert_ok(sqlock_open(sqlock_driver_mysql(), url, &o, &m, &err), &err);
    my_private_exec("SET GLOBAL read_only = 1");
    a.wait_ms = 0;
    a.flags = SQLOCK_NO_RENEW;
    assert_code(SQLOCK_EREADONLY, sqlock_acquire(m, "nightly", &a, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_true(proxy_accepted(proxies[1]) > 0);
    my_private_exec("SET GLOBAL read_only = 0");
    assert_ok(sqlock_acquire(m, "nightly", &a, &lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

static void test_P16_migrations_are_refused_where_opening_is(void **state)
{
    sqlock_error opened = {0}, err = {0};

    (void)state;
    my_private_exec("DROP DATABASE IF EXISTS test; CREATE DATABASE test; "
                    "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &opened), &opened);
    assert_code(SQLOCK_EREFUSED,
                sqlock_migrate(sqlock_driver_mysql(), my_private_url(), NULL, NULL, &err), &err);
    assert_string_equal(err.text + strlen("migrate"), opened.text + strlen("open"));
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL read_only = 1");
    assert_code(SQLOCK_EREADONLY, mysql_try(my_private_url(), 0, &opened), &opened);
    assert_code(SQLOCK_EREADONLY,
                sqlock_migrate(sqlock_driver_mysql(), my_private_url(), NULL, NULL, &err), &err);
    assert_string_equal(err.text + strlen("migrate"), opened.text + strlen("open"));
    my_private_exec("SET GLOBAL read_only = 0");
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_schema = 'test'"),
                     0);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static const struct CMUnitTest tests[] = {
    TEST(test_P8_a_silent_first_host_takes_its_share_alone),
    TEST(test_a_refused_first_host_costs_nothing),
    TEST(test_P18_a_wrong_user_is_said_at_once),
    TEST(test_a_server_that_has_become_read_only_is_left),
    TEST(test_P16_migrations_are_refused_where_opening_is),
};

TEST_MAIN(tests)
