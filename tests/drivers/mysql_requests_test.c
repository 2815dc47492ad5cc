/* P14 on MariaDB and MySQL: what settings of the session do to a guest's statements, how they wait,
 * and what a deadlock or a dead link leaves. */
#include <mysql.h>
#include <sqlock/rows.h>

#include "tests/drivers/mysql_adopted.h"
#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/my_private.h"
#include "tests/lib/mysql_quirks.h"
#include "tests/lib/proxy.h"

static int is_maria(void)
{
    return strstr(mysql_get_server_info(native(g.app)), "MariaDB") != NULL;
}

static int64_t in_ms(int64_t ms)
{
    return sqlock_now_us() + ms * 1000;
}

/* ---- settings and values --------------------------------------------------------------------- */

/* Each makes something of ours go wrong that does not provide for it. They add up. */
static const char *const hostile[] = {
    "SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE'",
    "SET sql_mode = ''",
    "SET sql_select_limit = 0",
    "SET sql_select_limit = DEFAULT",
    "SET sql_safe_updates = 1, sql_auto_is_null = 1, sql_big_selects = 0, max_join_size = 1",
    "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
    "SET NAMES gbk",
    "SET time_zone = '-07:00', lc_time_names = 'de_DE'",
    "SET NAMES utf8mb4, character_set_results = NULL",
};

TEST(test_settings_of_the_session_change_no_answer)
{
    const sqlock_value bytes = {SQLOCK_BYTES, 0, "'\"\\`\0\xbf\x5c", 7};

    begin_mysql_as(w, NULL, CLIENT_FOUND_ROWS, NULL);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        const void *got;
        size_t len = 0;

        app_exec(g.app, hostile[i], "START TRANSACTION");
        ok(ask("UPDATE app_row SET n = n + 1 WHERE id + 0 = 2", NULL, 0));
        ok(ask("SELECT ? FROM app_row a JOIN app_row b WHERE a.id + 0 = 1 AND b.n + 0 = 21", &bytes,
               1));
        assert_int_equal(sqlock_rows_count(g.rows), 1);
        got = rows_bytes(g.rows, 0, 0, &len);
        assert_int_equal(len, bytes.len);
        assert_memory_equal(got, bytes.data, len);
        be_adopted();
        app_exec(g.app, "ROLLBACK");
    }
    assert_int_equal(app_number(g.app, "SELECT @@innodb_lock_wait_timeout LIMIT 1"), 1);
    assert_int_equal(app_number(g.app, "SELECT @@sql_safe_updates LIMIT 1"), 1);
}

/* A 1 that begins with a NUL would be read as 0: a guard as lost, a change as not made. MySQL
 * sends digits as they are. */
TEST_AFTER(begin_mysql, test_numbers_in_wide_characters_are_refused)
{
    int rc;

    app_exec(g.app, "SET character_set_results = ucs2", "START TRANSACTION");
    rc = ask("SELECT 0, 1", NULL, 0);
    if (rc == 0 && !is_maria()) {
        assert_int_equal(rows_int(g.rows, 0, 1, -1), 1);
    } else {
        says(SQLOCK_EREFUSED, rc);
        assert_int_equal(sqlock_rows_count(g.rows), 0);
    }
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    app_exec(g.app, "SET character_set_results = utf8mb4");
    ok(ask("SELECT 0, 1", NULL, 0));
}

static sqlock_value text(const char *s)
{
    return (sqlock_value){.type = SQLOCK_TEXT, .data = s, .len = strlen(s)};
}

/* In some of them a letter ends in the byte of a backslash. */
TEST_AFTER(begin_adopted, test_text_is_read_in_the_character_set_of_the_session)
{
    static const char *const names[][2] = {{"SET NAMES gbk", "\xbf\x5c '"},
                                           {"SET NAMES sjis", "\x83\x5c' "},
                                           {"SET NAMES latin1", "\xe4\\'\"`?"},
                                           {"SET NAMES utf8mb4", "\xf0\x9f\x94\x92 \\'"},
                                           {"SET NAMES utf8", "\xc3\xa4 ;\n ?"}};
    static const char *const modes[] = {"SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI'",
                                        "SET sql_mode = ''"};

    app_exec(g.app, "CREATE TABLE app_text (t VARCHAR(20) CHARACTER SET utf8mb4 PRIMARY KEY)");
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        sqlock_value value = text(names[i / 2][1]);
        const void *got;
        size_t len = 0;

        app_exec(g.app, modes[i % 2], names[i / 2][0], "BEGIN");
        ok(ask("INSERT INTO app_text VALUES (?)", &value, 1));
        ok(ask("SELECT t FROM app_text WHERE t = ?", &value, 1));
        assert_int_equal(sqlock_rows_count(g.rows), 1);
        got = rows_bytes(g.rows, 0, 0, &len);
        assert_int_equal(len, value.len);
        assert_memory_equal(got, value.data, len);
        app_exec(g.app, "ROLLBACK");
    }
}

TEST_AFTER(begin_adopted, test_names_may_hold_what_parts_texts)
{
    const sqlock_value value = {.type = SQLOCK_INT, .i = 7};

    app_exec(g.app, "CREATE TABLE `a?b``;\n?` (`;\n?` INT, n INT) ENGINE=InnoDB", "BEGIN");
    ok(ask("INSERT INTO `a?b``;\n?` (`;\n?`, n) VALUES (1, ?)", &value, 1));
    ok(ask("UPDATE `a?b``;\n?` SET `;\n?` = n;\n"
           "SELECT `;\n?` FROM `a?b``;\n?` WHERE n = ?",
           &value, 1));
    assert_int_equal(rows_int(g.rows, 0, 0, -1), 7);
}

TEST_AFTER(begin_in_transaction, test_number_that_does_not_fit_comes_as_it_is)
{
    const char *bytes;
    size_t len = 0;

    ok(ask("SELECT 18446744073709551615, -9223372036854775808, 1.5, 9223372036854775807", NULL, 0));
    bytes = rows_bytes(g.rows, 0, 0, &len);
    assert_int_equal(len, 20);
    assert_memory_equal(bytes, "18446744073709551615", 20);
    assert_true(rows_int(g.rows, 0, 1, 0) == INT64_MIN);
    bytes = rows_bytes(g.rows, 0, 2, &len);
    assert_memory_equal(bytes, "1.5", 3);
    assert_true(rows_int(g.rows, 0, 3, 0) == INT64_MAX);
}

/* The packet of a step is taken apart, for the connection need not take packets; what its
 * statements say to each other arrives all the same. */
TEST_AFTER(begin_mysql, test_statements_of_a_step_know_of_each_other)
{
    app_exec(g.app, "BEGIN");
    ok(run("SET @sqlock_test = 5;\n"
           "UPDATE app_row SET n = n + @sqlock_test WHERE id <= 2;\n"
           "SELECT 0, ROW_COUNT(), @sqlock_test"));
    assert_int_equal(rows_int(g.rows, 0, 1, -1), 2);
    assert_int_equal(rows_int(g.rows, 0, 2, -1), 5);
    assert_int_equal(seen_by(g.app), 15);
}

/* ---- a transaction that the server ends ------------------------------------------------------ */

static void *want_row_1(void *other)
{
    mysql_thread_init();
    (void)mysql_query(native(other), "UPDATE app_row SET n = n + 1 WHERE id = 1");
    mysql_thread_end();
    return NULL;
}

/* Somebody else has done more, so it is the application's transaction that dies: by a statement of
 * ours or its own. */
static void die_in_a_deadlock(void *other, int by_ours)
{
    static const char fatal[] = "UPDATE app_row SET n = n + 100 WHERE id = 2";
    pthread_t thread;

    app_exec(g.app, "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(other, "BEGIN");
    app_exec(other, "INSERT INTO app_new (n) VALUES (1), (2), (3), (4), (5), (6), (7), (8)");
    app_exec(other, "UPDATE app_row SET n = 21 WHERE id = 2");
    assert_int_equal(pthread_create(&thread, NULL, want_row_1, other), 0);
    assert_soon(my_number("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "
                          "'UPDATE app_row SET n = n + 1 %'") == 1,
                patience_ms(5000));
    sleep_ms(100);
    if (by_ours)
        assert_true(run(fatal) < 0);
    else
        assert_false(g.side->exec(g.app, fatal));
    pthread_join(thread, NULL);
    app_exec(other, "ROLLBACK");
}

static void judge_deadlock(struct world *w, const char *begin, sqlock_tx_state after_rollback)
{
    void *other;

    begin_mysql(w);
    other = app_connect();
    app_exec(g.app, begin);
    die_in_a_deadlock(other, 1);
    assert_string_equal(said.sqlstate, "40P01");
    assert_int_equal(said.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), 0);
    assert_int_equal(tx(), SQLOCK_TX_IDLE);
    says(SQLOCK_ESTATE, run(OUR_WRITE));
    assert_int_equal(tx(), SQLOCK_TX_IDLE);
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(tx(), after_rollback);
    app_exec(g.app, "START TRANSACTION");
    be_adopted();
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(seen_by(other), 10);
}

TEST(test_deadlock_ends_the_transaction_and_is_reported)
{
    judge_deadlock(w, "START TRANSACTION", SQLOCK_TX_IDLE);
}

/* The next statement would begin a new one, without what the application had done. */
TEST(test_deadlock_with_autocommit_off_is_reported_too)
{
    judge_deadlock(w, "SET autocommit = 0", SQLOCK_TX_ACTIVE);
}

/* Of a transaction an error's answer says nothing: the library shows the one that was open. */
TEST_AFTER(begin_mysql, test_transaction_that_died_before_is_not_worked_in)
{
    static const char read[] = "SELECT 0, 1 FROM app_row WHERE id = 1 LOCK IN SHARE MODE";
    void *other = app_connect();

    for (int i = 0; i < 3; i++) {
        app_exec(g.app, "START TRANSACTION");
        die_in_a_deadlock(other, 0);
        says(SQLOCK_ESTATE, i == 0   ? run(OUR_WRITE)
                            : i == 1 ? run(read)
                                     : point(SQLOCK_SAVEPOINT_SET));
        assert_int_equal(said.flags, 0);
        assert_int_equal(sqlock_rows_count(g.rows), 0);
        assert_int_equal(tx(), SQLOCK_TX_IDLE);
        assert_int_equal(mysql_errno(native(g.app)), 1213);
        assert_int_equal(seen_by(g.app), 10);
    }
}

/* There a timeout of InnoDB's ends the whole transaction, and so does MariaDB's NOWAIT where a row
 * is busy. On MariaDB another timeout than InnoDB's comes first. */
TEST_AFTER(begin_app, test_rollback_on_timeout_takes_no_transaction_unseen)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_conn *conn;
    sqlock *m = NULL;
    int64_t stays;
    int busy;
    void *other = app_connect();

    my_private_restart("--innodb-rollback-on-timeout=ON");
    my_private_exec("CREATE DATABASE IF NOT EXISTS %s", g.w->place.schema);
    for (int i = 0; i < 2; i++) {
        struct mysql_app_conn *app = i == 0 ? g.app : other;

        mysql_close(app->my);
        assert_non_null(app->my = mysql_init(NULL));
        connect_native(app->my, 0, my_private_socket());
    }
    stays = is_maria();
    busy = is_maria() || mysql_get_server_version(native(g.app)) < 80000 ? SQLOCK_EREFUSED
                                                                         : SQLOCK_EBUSY;
    opts.schema = g.w->place.schema;
    ok(sqlock_migrate(g.driver, my_private_url(), &opts, NULL, &said));
    ok(sqlock_open(g.driver, my_private_url(), &opts, &m, &said));
    app_exec(g.app, "CREATE TABLE app_row (id INT PRIMARY KEY, n INT) ENGINE=InnoDB");
    app_exec(g.app, "INSERT INTO app_row VALUES (1, 10), (2, 20)");
    conn = adopted(m, g.app);
    app_exec(other, "BEGIN", "UPDATE app_row SET n = 50 WHERE id = 1");
    app_exec(g.app, "BEGIN", "UPDATE app_row SET n = 21 WHERE id = 2");
    for (o.wait_ms = 0; o.wait_ms <= 200; o.wait_ms += 200)
        says(busy, sqlock_row_lock(conn, ROW("app_row", 1), 1, &o, &said));
    let_go(conn);
    sqlock_close(m);
    ok(adopt(g.app, &g.conn));
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"), 21);
    assert_true(run_until(OUR_WRITE, in_ms(1500)) < 0);
    assert_int_equal(tx(), stays ? SQLOCK_TX_ACTIVE : SQLOCK_TX_IDLE);
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"), stays ? 21 : 20);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* On MySQL before 5.7.8 nothing ends a statement that computes: it is waited for. */
TEST_AFTER(begin_adopted, test_statement_that_computes_is_cut_where_it_can_be)
{
    static const char slow[] =
        "SELECT 0, 1 FROM (SELECT 1 FROM information_schema.collations LIMIT 100) c "
        "WHERE SLEEP(0.02) = 1";
    int64_t begun;
    int rc, cut;

    cut = is_maria() || mysql_get_server_version(native(g.app)) >= 50708;
    app_exec(g.app, "BEGIN", "UPDATE app_row SET n = n + 1 WHERE id = 1");
    begun = now_us();
    rc = run_until(slow, in_ms(200));
    assert_int_equal(rc, cut ? SQLOCK_ETIMEOUT : 0);
    assert_between(cut ? 200000 : 2000000, now_us() - begun,
                   patience_ms(cut ? 1500 : 6000) * INT64_C(1000));
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    assert_int_equal(seen_by(g.app), 11);
}

/* A statement is cut for a look at cancel, and sent again. */
TEST_AFTER(begin_mysql, test_statement_that_waits_for_long_is_done_once)
{
    int64_t begun;
    void *other = app_connect();

    app_exec(other, "BEGIN", "UPDATE app_row SET n = 50 WHERE id = 1");
    app_exec(g.app, "SET innodb_lock_wait_timeout = 1", "BEGIN");
    app_exec(g.app, "UPDATE app_row SET n = 21 WHERE id = 2");
    begun = now_us();
    exec_later(1200, other, "COMMIT");
    be_adopted();
    await_later();
    assert_between(1100000, now_us() - begun, patience_ms(8000) * INT64_C(1000));
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 150);
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"), 21);
}

/* The reply comes later than anybody waits: the application must not read it as its own. */
TEST(test_link_that_is_silent_is_ended)
{
    struct proxy *p = proxy_start_unix(my_socket_path());
    char path[256];
    void *other;

    assert_non_null(p);
    snprintf(path, sizeof path, "%s/.s.PGSQL.5432", proxy_dir(p));
    begin_mysql_as(w, NULL, 0, path);
    other = app_connect();
    app_exec(g.app, "BEGIN");
    proxy_mode_set(p, PROXY_HOLD_DOWN);
    assert_takes(200, patience_ms(10000), says(SQLOCK_ETIMEOUT, run_until(OUR_WRITE, in_ms(200))));
    assert_int_equal(said.flags, SQLOCK_RECONNECT);
    assert_int_equal(tx(), SQLOCK_TX_UNKNOWN);
    proxy_mode_set(p, PROXY_PASS);
    assert_false(g.side->exec(g.app, "SELECT 1"));
    assert_soon(app_number(other, "SELECT n FROM app_row WHERE id = 1 FOR UPDATE") == 10,
                patience_ms(5000));
    end_adopted();
    proxy_stop(p);
}

TEST_MAIN_ON(mysql)
