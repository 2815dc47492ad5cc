/* URLs of MariaDB and MySQL servers, and option files. */
#include <sqlock/mysql.h>
#include <stdlib.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"

static sqlock_error err;

static char *home;

/* The client libraries look for it once, when they are loaded. */
static int setup(__attribute__((unused)) void **state)
{
    if (home == NULL)
        home = temp_dir();
    return setenv("HOME", home, 1);
}

/* Of a list all is judged, whichever host is asked. */
TEST(test_a_malformed_url_is_reported_without_its_password)
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
        "mysql://u:secret@h/?socket=/s%00x",
        /* a list with one malformed host */
        "mysql://u:secret@h,/d", "mysql://u:secret@,h/d", "mysql://u:secret@h,,i/d",
        "mysql://u:secret@h,i:0/d", "mysql://u:secret@h:1,:2/d", "mysql://u:secret@h, i/d",
        "mysql://u:secret@h,i@j,k/d", "mysql://u:secret@localhost,localhost/d?socket=/s",
        "mysql://u:secret@h,i%2Cj/d", "mysql://u:secret@h,i/d?connect-timeout=0",
        "mysql://u:secret@h/d?connect-timeout=soon",
        /* an option that is unknown, twice or empty */
        "mysql://u:secret@h/d?what=1", "mysql://u:secret@localhost/d?socket=/s&socket=/s",
        "mysql://u:secret@localhost/d?socket",
        "mysql://u:secret@localhost/d?socket=", "mysql://u:secret@localhost/d?Socket=/s",

        "mysql://u:secret@h/d?socket=/s", "mysql://u:secret@h/d?init-command=x",
        "mysql://u:secret@localhost/d?defaults-file=/nowhere/my.cnf"};

    need_driver("mysql");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (mysql_try(bad[i], 0, &err) != SQLOCK_EINVAL)
            fail_msg("%s: %s", bad[i], err.text);
        assert_silent(&err, "secret");
    }
}

TEST(test_addresses_of_both_kinds_are_understood)
{
    static const char *const good[] = {"mysql://root@[::1]:1/test", "mysql://root@127.0.0.1:1/test",
                                       "mariadb://127.0.0.1:1",
                                       "mysql://127.0.0.1:1/?ssl-mode=disabled"};

    need_driver("mysql");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_code(SQLOCK_EUNREACH, mysql_try(good[i], 0, &err), &err);
}

TEST(test_a_url_without_a_database_is_reported)
{
    const char *url = textf("mysql://root@localhost/?socket=%s", my_private_socket());

    assert_error(SQLOCK_EUNREACH, "names no database", mysql_try(url, 0, &err), &err);
    assert_string_equal(err.sqlstate, "3D000");
}

TEST(test_names_and_passwords_may_hold_any_sign)
{
    struct db db;

    mysql_new_user("o@d:u/r", "localhost", "p@:/?#%& +");
    my_private_exec("CREATE DATABASE IF NOT EXISTS `d/t a`; "
                    "GRANT ALL ON `d/t a`.* TO 'o@d:u/r'@localhost");
    db = mysql_db(textf("mysql://o%%40d%%3Au%%2fr:p%%40%%3A%%2F%%3F%%23%%25%%26%%20+@localhost/"
                        "d%%2Ft%%20a?socket=%s",
                        my_private_socket()));
    db_migrate(db);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM `d/t a`.sqlock_meta"), 1);
    my_private_exec("DROP DATABASE `d/t a`");
}

static void an_adopted(void)
{
    mysql_migrated();
    mysql_new_user("guest", "localhost", "right way");
    my_private_exec("GRANT ALL ON test.* TO guest@localhost");
}

TEST(test_an_option_file_says_what_the_url_leaves_open)
{
    const char *path;

    an_adopted();
    path = put_file(temp_dir(), "their.cnf",
                    textf("[client]\nuser=guest\npassword=\"right way\"\nsocket=/nowhere\n"
                          "database=test\n[sqlock]\nsocket=%s\n[mysqld]\nuser=other\n",
                          my_private_socket()));
    assert_ok(mysql_try(textf("mysql://localhost/?defaults-file=%s", path), 0, &err), &err);
    assert_ok(mysql_try(textf("mysql:///?defaults-file=%s", path), 0, &err), &err);
    assert_code(SQLOCK_EDENIED,
                mysql_try(textf("mysql://guest:wrong@localhost/?defaults-file=%s", path), 0, &err),
                &err);
    assert_true(mysql_try(textf("mysql://localhost/nosuch?defaults-file=%s", path), 0, &err) != 0);
    assert_silent(&err, "right way");
    assert_code(SQLOCK_EUNREACH,
                mysql_try(textf("mysql:///?socket=/nowhere/s&defaults-file=%s", path), 0, &err),
                &err);
}

/* A server behind another port, a container's say, is not the one whose socket is at hand. */
TEST(test_a_port_of_localhost_is_not_a_socket)
{
    const char *path =
        put_file(temp_dir(), "my.cnf", textf("[client]\nsocket=%s\n", my_private_socket()));

    assert_code(SQLOCK_EUNREACH,
                mysql_try(textf("mysql://root@localhost:1/test?defaults-file=%s", path), 0, &err),
                &err);
}

TEST(test_the_users_own_option_file_is_read)
{
    an_adopted();
    put_file(home, ".my.cnf",
             textf("[client]\nuser=guest\npassword=right way\nsocket=%s\n", my_private_socket()));
    assert_ok(mysql_try("mysql:///test", 0, &err), &err);
    put_file(home, ".my.cnf", "");
}

/* It may be meant for programs that people use. */
TEST(test_an_option_file_changes_nothing_that_promises_rest_on)
{
    static const char text[] =
        "[client]\nsocket=%s\ninit-command=\"CREATE TABLE test.evil (a INT)\"\nreconnect=1\n"
        "local-infile=1\nprotocol=tcp\nhost=192.0.2.1\nport=1\ndefault-character-set=utf16\n"
        "compress\nmax-allowed-packet=1024\nconnect-timeout=1\ninteractive-timeout\n";
    const char *path;

    an_adopted();
    path = put_file(temp_dir(), "evil.cnf", textf(text, my_private_socket()));
    my_private_exec("DROP TABLE IF EXISTS test.evil");
    assert_ok(mysql_try(textf("mysql://guest:right%%20way@localhost/test?defaults-file=%s", path),
                        0, &err),
              &err);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM information_schema.tables "
                                       "WHERE table_name = 'evil'"),
                     0);
}

TEST_MAIN_EACH(setup, NULL)
