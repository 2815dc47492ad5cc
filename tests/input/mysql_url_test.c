/* URLs of MariaDB and MySQL servers, and option files. */
#include <mysql.h>
#include <sqlock/driver.h>
#include <sqlock/mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/check.h"
#include "tests/lib/my_private.h"

static char *home;

/* The client libraries look for it once, when they are loaded. */
static int setup(void **state)
{
    (void)state;
    home = temp_dir();
    return setenv("HOME", home, 1);
}

static void malformed(const char *const *urls, size_t n)
{
    sqlock_error err;

    for (size_t i = 0; i < n; i++) {
        assert_code(SQLOCK_EINVAL, mysql_try(urls[i], 0, &err), &err);
        assert_null(strstr(err.text, "secret"));
    }
}

static void test_a_malformed_url_is_told_without_its_password(void **state)
{
    static const char *const bad[] = {
        "mysql://u:secret@h:0/d", "mysql://u:secret@h:x/d", "mysql://u:secret@h:65536/d",
        "mysql://u:secret@h:99999999999999999999/d", "mysql://u:secret%zz@h/d",
        "mysql://u:secret%4@h/d", "mysql://u:secret@[::1/d", "mysql://u:secret@[v1.x]/d",
        "mysql://u:sec^ret@h/d", "mysql://u:secret@h/d#piece", "mysql://u:secret@h/d/e",
        /* more than a name to one of the client libraries */
        "mysql://u:secret@h%3Di/d", "mysql://u:secret@x%3A%2F%2Fh/d",
        /* cut off by a byte of zero */
        "mysql://u:secret%00more@h/d", "mysql://u:secret@h/d%00",
        "mysql://u:secret@h/?socket=/s%00x"};

    (void)state;
    if (!test_wants("mysql"))
        skip();
    malformed(bad, sizeof bad / sizeof *bad);
}

/* All of a list is judged, whichever host is asked. */
static void test_a_list_with_one_malformed_host_is_refused(void **state)
{
    static const char *const bad[] = {"mysql://u:secret@h,/d",
                                      "mysql://u:secret@,h/d",
                                      "mysql://u:secret@h,,i/d",
                                      "mysql://u:secret@h,i:0/d",
                                      "mysql://u:secret@h:1,:2/d",
                                      "mysql://u:secret@h, i/d",
                                      "mysql://u:secret@h,i@j,k/d",
                                      "mysql://u:secret@localhost,localhost/d?socket=/s",
                                      "mysql://u:secret@h,i%2Cj/d",
                                      "mysql://u:secret@h,i/d?connect-timeout=0",
                                      "mysql://u:secret@h/d?connect-timeout=soon"};

    (void)state;
    if (!test_wants("mysql"))
        skip();
    malformed(bad, sizeof bad / sizeof *bad);
}

static void test_hosts_of_a_list_are_counted(void **state)
{
    static const struct {
        const char *url;
        uint32_t n;
        int64_t each_s;
    } urls[] = {{"mysql:///d", 1, 0},
                {"mysql://h/d", 1, 0},
                {"mysql://a,b:p,q@h/d", 1, 0},
                {"mysql://u:secret@h1,h2:3307,[::1]:3308/d?connect-timeout=4", 3, 4},
                {"mariadb://h1:1,h2", 2, 0},
                {"mysql://h/d?connect-timeout=7", 1, 7}};

    (void)state;
    if (!test_wants("mysql"))
        skip();
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        sqlock_hosts hosts = {.size = sizeof hosts, .n = 1};
        sqlock_error err = {0};

        assert_ok(sqlock_driver_mysql()->hosts(urls[i].url, &hosts, &err), &err);
        if (hosts.n != urls[i].n || hosts.each_us != urls[i].each_s * 1000000)
            fail_msg("%s: %u hosts, %lld us", urls[i].url, hosts.n, (long long)hosts.each_us);
    }
}

static void test_an_option_that_is_unknown_twice_or_empty_is_refused(void **state)
{
    static const char *const bad[] = {"mysql://u:secret@h/d?what=1",
                                      "mysql://u:secret@localhost/d?socket=/s&socket=/s",
                                      "mysql://u:secret@localhost/d?socket",
                                      "mysql://u:secret@localhost/d?socket=",
                                      "mysql://u:secret@localhost/d?Socket=/s",

                                      "mysql://u:secret@h/d?socket=/s",
                                      "mysql://u:secret@h/d?init-command=x",
                                      "mysql://u:secret@localhost/d?defaults-file=/nowhere/my.cnf"};

    (void)state;
    if (!test_wants("mysql"))
        skip();
    malformed(bad, sizeof bad / sizeof *bad);
}

static void test_addresses_of_both_kinds_are_understood(void **state)
{
    static const char *const good[] = {"mysql://root@[::1]:1/test", "mysql://root@127.0.0.1:1/test",
                                       "mariadb://127.0.0.1:1",
                                       "mysql://127.0.0.1:1/?ssl-mode=disabled"};
    sqlock_error err;

    (void)state;
    if (!test_wants("mysql"))
        skip();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_code(SQLOCK_EUNREACH, mysql_try(good[i], 0, &err), &err);
}

static void test_names_and_passwords_may_hold_any_sign(void **state)
{
    char url[600];
    sqlock_error err = {0};

    (void)state;
    mysql_new_user("o@d:u/r", "localhost", "p@:/?#%& +");
    my_private_exec("CREATE DATABASE IF NOT EXISTS `d/t a`; "
                    "GRANT ALL ON `d/t a`.* TO 'o@d:u/r'@localhost");
    snprintf(url, sizeof url,
             "mysql://o%%40d%%3Au%%2fr:p%%40%%3A%%2F%%3F%%23%%25%%26%%20+@localhost/"
             "d%%2Ft%%20a?socket=%s",
             my_private_socket());
    assert_ok(sqlock_migrate(sqlock_driver_mysql(), url, NULL, NULL, &err), &err);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM `d/t a`.sqlock_meta"), 1);
    my_private_exec("DROP DATABASE `d/t a`");
}

/* A file for this test alone, and its place in a URL. */
static void put_file(char *dir, const char *name, char *out_path, size_t size, const char *text)
{
    FILE *f;

    snprintf(out_path, size, "%s/%s", dir, name);
    f = fopen(out_path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_guest(void)
{
    mysql_migrated();
    mysql_new_user("guest", "localhost", "right way");
    my_private_exec("GRANT ALL ON test.* TO guest@localhost");
}

static void test_an_option_file_tells_what_the_url_leaves_open(void **state)
{
    char *dir = temp_dir(), text[400], path[300], url[400];
    sqlock_error err;

    (void)state;
    a_guest();
    snprintf(text, sizeof text,
             "[client]\nuser=guest\npassword=\"right way\"\nsocket=/nowhere\ndatabase=test\n"
             "[sqlock]\nsocket=%s\n[mysqld]\nuser=other\n",
             my_private_socket());
    put_file(dir, "their.cnf", path, sizeof path, text);
    snprintf(url, sizeof url, "mysql://localhost/?defaults-file=%s", path);
    assert_ok(mysql_try(url, 0, &err), &err);
    snprintf(url, sizeof url, "mysql:///?defaults-file=%s", path);
    assert_ok(mysql_try(url, 0, &err), &err);
    snprintf(url, sizeof url, "mysql://guest:wrong@localhost/?defaults-file=%s", path);
    assert_code(SQLOCK_EDENIED, mysql_try(url, 0, &err), &err);
    snprintf(url, sizeof url, "mysql://localhost/nosuch?defaults-file=%s", path);
    assert_true(mysql_try(url, 0, &err) != SQLOCK_OK);
    assert_null(strstr(err.text, "right way"));
    snprintf(url, sizeof url, "mysql:///?socket=/nowhere/s&defaults-file=%s", path);
    assert_code(SQLOCK_EUNREACH, mysql_try(url, 0, &err), &err);
    temp_dir_remove(dir);
}

/* A server behind another port, a container's say, is not the one whose socket is at hand. */
static void test_a_port_of_localhost_is_not_a_socket(void **state)
{
    char *dir = temp_dir(), text[400], path[300], url[400];
    sqlock_error err;

    (void)state;
    snprintf(text, sizeof text, "[client]\nsocket=%s\n", my_private_socket());
    put_file(dir, "my.cnf", path, sizeof path, text);
    snprintf(url, sizeof url, "mysql://root@localhost:1/test?defaults-file=%s", path);
    assert_code(SQLOCK_EUNREACH, mysql_try(url, 0, &err), &err);
    temp_dir_remove(dir);
}

static void test_the_users_own_option_file_is_read(void **state)
{
    char text[400], path[300];
    sqlock_error err;

    (void)state;
    a_guest();
    snprintf(text, sizeof text, "[client]\nuser=guest\npassword=right way\nsocket=%s\n",
             my_private_socket());
    put_file(home, ".my.cnf", path, sizeof path, text);
    assert_ok(mysql_try("mysql:///test", 0, &err), &err);
    unlink(path);
}

/* It may be meant for programs that people use. */
static void test_an_option_file_changes_nothing_that_promises_rest_on(void **state)
{
    char *dir = temp_dir(), text[600], path[300], url[400];
    sqlock_error err;

    (void)state;
    a_guest();
    snprintf(text, sizeof text,
             "[client]\nsocket=%s\ninit-command=\"CREATE TABLE test.evil (a INT)\"\nreconnect=1\n"
             "local-infile=1\nprotocol=tcp\nhost=192.0.2.1\nport=1\ndefault-character-set=utf16\n"
             "compress\nmax-allowed-packet=1024\nconnect-timeout=1\ninteractive-timeout\n",
             my_private_socket());
    put_file(dir, "evil.cnf", path, sizeof path, text);
    snprintf(url, sizeof url, "mysql://guest:right%%20way@localhost/test?defaults-file=%s", path);
    my_private_exec("DROP TABLE IF EXISTS test.evil");
    assert_ok(mysql_try(url, 0, &err), &err);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_name = 'evil'"),
                     0);
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_malformed_url_is_told_without_its_password),
        cmocka_unit_test(test_a_list_with_one_malformed_host_is_refused),
        cmocka_unit_test(test_hosts_of_a_list_are_counted),
        cmocka_unit_test(test_an_option_that_is_unknown_twice_or_empty_is_refused),
        cmocka_unit_test(test_addresses_of_both_kinds_are_understood),
        cmocka_unit_test(test_names_and_passwords_may_hold_any_sign),
        cmocka_unit_test(test_an_option_file_tells_what_the_url_leaves_open),
        cmocka_unit_test(test_the_users_own_option_file_is_read),
        cmocka_unit_test(test_an_option_file_changes_nothing_that_promises_rest_on),
        cmocka_unit_test(test_a_port_of_localhost_is_not_a_socket),
    };

    return cmocka_run_group_tests_name("URLs of MariaDB", tests, setup, NULL);
}
