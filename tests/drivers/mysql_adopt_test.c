/* MariaDB and MySQL, on an application's connection: what only they have. Beside suite_adopt.c, and
 * like it by the driver's slots alone. */
#include <dlfcn.h>
#include <mysql.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/driver.h>
#include <sqlock/mysql.h>

#include "core/engine/rows.h"
#include "tests/lib/check.h"
#include "tests/lib/my.h"
#include "tests/lib/my_private.h"
#include "tests/lib/proxy.h"
#include "tests/lib/undo.h"

#define OUR_READ  "SELECT 0, 1"
#define OUR_WRITE "UPDATE app_row SET n = n + 100 WHERE id = 1"

/* An application, its connection adopted, and somebody else's. */
static struct {
    char *database;
    const char *socket;
    MYSQL *my, *other;
    void *conn;
    sqlock_rows *rows;
    sqlock_step step;
    sqlock_script scripts[SQLOCK_STMT_COUNT];
    sqlock_error err;
} t;

static void say(MYSQL *my, const char *sql)
{
    if (mysql_query(my, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(my));
    mysql_free_result(mysql_store_result(my));
}

static void say_wrong(MYSQL *my, const char *sql, unsigned error)
{
    assert_int_not_equal(mysql_query(my, sql), 0);
    assert_int_equal(mysql_errno(my), error);
}

static int64_t number(MYSQL *my, const char *sql)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    int64_t n;

    if (mysql_query(my, sql) != 0 || (res = mysql_store_result(my)) == NULL)
        fail_msg("%s: %s", sql, mysql_error(my));
    row = mysql_fetch_row(res);
    n = row && row[0] ? strtoll(row[0], NULL, 10) : -1;
    mysql_free_result(res);
    return n;
}

static int64_t seen_by(MYSQL *my)
{
    return number(my, "SELECT n FROM app_row WHERE id = 1 LIMIT 1");
}

static MYSQL *connected(MYSQL *my, unsigned long flags)
{
    if (!mysql_real_connect(my, NULL, "root", "", t.database, 0, t.socket, flags))
        fail_msg("%s", mysql_error(my));
    return my;
}

static MYSQL *new_client(unsigned long flags)
{
    MYSQL *my = mysql_init(NULL);

    assert_non_null(my);
    return connected(my, flags);
}

static int adopt(MYSQL *my, void **out_conn)
{
    sqlock_adopt_opts o = {.size = sizeof o,
                           .native = my,
                           .native_size = sizeof *my,
                           .library = (void (*)(void))mysql_init,
                           .scripts = t.scripts};

    return sqlock_driver_mysql()->adopt(&o, out_conn, &t.err);
}

static void make_table(MYSQL *my)
{
    say(my, "CREATE TABLE app_row (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB");
    say(my, "CREATE TABLE app_new (id INT PRIMARY KEY AUTO_INCREMENT, n INT UNIQUE) ENGINE=InnoDB");
    say(my, "INSERT INTO app_row VALUES (1, 10), (2, 20)");
}

static void begin_with(MYSQL *my)
{
    t.my = my;
    t.other = new_client(0);
    make_table(my);
    assert_non_null(t.rows = rows_new());
    assert_ok(adopt(my, &t.conn), &t.err);
}

static void begin_database(void)
{
    t.database = my_database_new();
    t.socket = my_socket_path();
}

static void begin(void)
{
    begin_database();
    begin_with(new_client(0));
}

static int end(void **state)
{
    (void)state;
    if (t.conn)
        sqlock_driver_mysql()->close(t.conn);
    rows_free(t.rows);
    mysql_close(t.my);
    mysql_close(t.other);
    if (t.database)
        undo_now(t.database);
    memset(&t, 0, sizeof t);
    return 0;
}

static int64_t in_ms(int64_t ms)
{
    return sqlock_now_us() + ms * 1000;
}

static int run_until(const char *sql, int64_t deadline)
{
    t.step = (sqlock_step){.sql = sql};
    t.scripts[SQLOCK_STMT_GUARDED] =
        (sqlock_script){.name = "test", .params = "", .n_steps = 1, .steps = &t.step};
    rows_clear(t.rows);
    return sqlock_driver_mysql()->run(t.conn, SQLOCK_STMT_GUARDED, NULL, 1, deadline, t.rows,
                                      &t.err);
}

static int run(const char *sql)
{
    return run_until(sql, in_ms(patience_ms(10000)));
}

static int point(sqlock_savepoint what)
{
    return sqlock_driver_mysql()->savepoint(t.conn, what, in_ms(patience_ms(10000)), &t.err);
}

static sqlock_tx_state tx(void)
{
    return sqlock_driver_mysql()->tx_state(t.conn);
}

/* What core does: a request that succeeds, and one that fails. */
static void be_a_guest(void)
{
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
    assert_ok(run(OUR_WRITE), &t.err);
    assert_ok(point(SQLOCK_SAVEPOINT_RELEASE), &t.err);
    assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
    assert_true(run("SELECT 0, 1 FROM no_such_table") < 0);
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    assert_ok(point(SQLOCK_SAVEPOINT_UNDO), &t.err);
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
}

static int is_maria(void)
{
    return strstr(mysql_get_server_info(t.my), "MariaDB") != NULL;
}

/* ---- adopting ----------------------------------------------------------------------------------
 */

/* It would go on in another session, without the transaction, and nobody would know. */
static void test_connection_that_reconnects_is_refused(void **state)
{
    MYSQL *my;
    void *conn = NULL;
    char on = 1;

    (void)state;
    begin();
    my = mysql_init(NULL);
    mysql_options(my, MYSQL_OPT_RECONNECT, &on);
    connected(my, 0);
    assert_code(SQLOCK_ESTATE, adopt(my, &conn), &t.err);
    assert_null(conn);
    mysql_close(my);
}

static void test_connection_that_is_not_connected_is_refused(void **state)
{
    MYSQL *my;
    void *conn = NULL;

    (void)state;
    begin();
    my = mysql_init(NULL);
    assert_code(SQLOCK_ESTATE, adopt(my, &conn), &t.err);
    mysql_close(my);
}

/* The copy of a function in another copy of its library. */
static void *in_another_copy(const char *name)
{
    Dl_info info;
    void *ours = NULL, *copy, *function;
    char command[600], *dir = temp_dir();

    memcpy(&ours, &(void *(*)(MYSQL *)){(void *(*)(MYSQL *))mysql_init}, sizeof ours);
    assert_int_not_equal(dladdr(ours, &info), 0);
    snprintf(command, sizeof command, "cp -L '%s' '%s/copy.so'", info.dli_fname, dir);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/copy.so", dir);
    assert_non_null(copy = dlopen(command, RTLD_NOW | RTLD_LOCAL));
    assert_non_null(function = dlsym(copy, name));
    return function;
}

static void test_other_copy_of_the_client_library_is_refused(void **state)
{
    sqlock_adopt_opts o = {.size = sizeof o, .scripts = t.scripts};
    MYSQL *(*init)(MYSQL *) = NULL;
    MYSQL *(*connect)(MYSQL *, const char *, const char *, const char *, const char *, unsigned,
                      const char *, unsigned long) = NULL;
    void (*close)(MYSQL *) = NULL, *function, *conn = NULL;
    MYSQL *my;

    (void)state;
    begin();
    function = in_another_copy("mysql_init");
    memcpy(&init, &function, sizeof init);
    o.native = t.my;
    o.library = (void (*)(void))init;
    assert_code(SQLOCK_EREFUSED, sqlock_driver_mysql()->adopt(&o, &conn, &t.err), &t.err);
    function = in_another_copy("mysql_real_connect");
    memcpy(&connect, &function, sizeof connect);
    function = in_another_copy("mysql_close");
    memcpy(&close, &function, sizeof close);
    assert_non_null(my = init(NULL));
    assert_non_null(connect(my, NULL, "root", "", t.database, 0, t.socket, 0));
    o.native = my;
    o.library = (void (*)(void))mysql_init;
    assert_code(SQLOCK_EREFUSED, sqlock_driver_mysql()->adopt(&o, &conn, &t.err), &t.err);
    o.library = NULL;
    assert_code(SQLOCK_EREFUSED, sqlock_driver_mysql()->adopt(&o, &conn, &t.err), &t.err);
    assert_null(conn);
    close(my);
}

/* The application connects once more, by the same handle. */
static void test_connection_that_was_made_anew_is_lost(void **state)
{
    static MYSQL my; /* one that mysql_close() does not free */

    (void)state;
    begin_database();
    assert_non_null(mysql_init(&my));
    begin_with(connected(&my, 0));
    mysql_close(&my);
    mysql_init(&my);
    connected(&my, 0);
    say(&my, "BEGIN");
    assert_int_equal(tx(), SQLOCK_TX_UNKNOWN);
    assert_true(run(OUR_READ) < 0);
    assert_true(t.err.flags & SQLOCK_RECONNECT);
    assert_true(point(SQLOCK_SAVEPOINT_SET) < 0);
    sqlock_driver_mysql()->close(t.conn);
    assert_ok(adopt(&my, &t.conn), &t.err);
    be_a_guest();
}

/* ---- the transaction's state -------------------------------------------------------------------
 */

static void test_autocommit_off_is_an_open_transaction(void **state)
{
    (void)state;
    begin();
    say(t.my, "SET autocommit = 0");
    be_a_guest(); /* its first statement */
    assert_int_equal(seen_by(t.other), 10);
    say(t.my, "ROLLBACK");
    assert_int_equal(seen_by(t.my), 10);
    be_a_guest(); /* an old one */
    say(t.my, "COMMIT");
    assert_int_equal(seen_by(t.other), 110);
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    say(t.my, "SET autocommit = 1");
    assert_int_equal(tx(), SQLOCK_TX_IDLE);
    assert_code(SQLOCK_ESTATE, run(OUR_WRITE), &t.err);
}

static void test_every_isolation_level_will_do(void **state)
{
    static const char *const levels[] = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ",
                                         "SERIALIZABLE"};
    char sql[80];

    (void)state;
    begin();
    for (size_t i = 0; i < 4; i++) {
        snprintf(sql, sizeof sql, "SET SESSION TRANSACTION ISOLATION LEVEL %s", levels[i]);
        say(t.my, sql);
        say(t.my, "START TRANSACTION");
        if (i % 2 == 0)
            seen_by(t.my); /* not its first statement */
        be_a_guest();
        say(t.my, "COMMIT");
        assert_int_equal(seen_by(t.my), 110 + (int64_t)i * 100);
    }
}

static void *want_row_2(void *arg)
{
    (void)arg;
    mysql_thread_init();
    (void)mysql_query(t.other, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    mysql_thread_end();
    return NULL;
}

/* The other one has done more, so it is ours that dies. Afterwards nothing of the transaction is
 * left, and what is sent commits by itself. */
static void die_in_a_deadlock(void)
{
    pthread_t thread;

    say(t.my, "UPDATE app_row SET n = 11 WHERE id = 1");
    say(t.other, "BEGIN");
    say(t.other, "INSERT INTO app_new (n) VALUES (1), (2), (3), (4), (5), (6), (7), (8)");
    say(t.other, "UPDATE app_row SET n = 21 WHERE id = 2");
    assert_int_equal(pthread_create(&thread, NULL, want_row_2, NULL), 0);
    assert_soon(my_number("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "
                          "'UPDATE app_row SET n = n + 1%'") == 1,
                patience_ms(5000));
    sleep_ms(100);
    if (t.conn) {
        assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
        assert_code(SQLOCK_EDB, run("UPDATE app_row SET n = n + 100 WHERE id = 2"), &t.err);
    } else {
        say_wrong(t.my, "UPDATE app_row SET n = n + 100 WHERE id = 2", 1213);
    }
    pthread_join(thread, NULL);
    say(t.other, "ROLLBACK");
}

static void test_deadlock_ends_the_transaction_and_is_told(void **state)
{
    (void)state;
    for (int autocommit = 0; autocommit <= 1; autocommit++) {
        begin();
        say(t.my, autocommit ? "START TRANSACTION" : "SET autocommit = 0");
        die_in_a_deadlock();
        assert_string_equal(t.err.sqlstate, "40P01");
        assert_int_equal(t.err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), 0);
        assert_int_equal(tx(), SQLOCK_TX_IDLE);
        assert_code(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_UNDO), &t.err);
        assert_code(SQLOCK_ESTATE, run(OUR_WRITE), &t.err);
        assert_int_equal(tx(), SQLOCK_TX_IDLE);
        say(t.my, "ROLLBACK");
        assert_int_equal(tx(), autocommit ? SQLOCK_TX_IDLE : SQLOCK_TX_ACTIVE);
        say(t.my, "START TRANSACTION");
        be_a_guest();
        say(t.my, "ROLLBACK");
        assert_int_equal(seen_by(t.other), 10);
        end(state);
    }
}

/* An error's answer does not say so: the library shows the transaction that the application had. */
static void test_transaction_that_has_ended_is_found_out_before_a_change(void **state)
{
    (void)state;
    for (int set = 0; set <= 1; set++) {
        void *conn;

        begin();
        conn = t.conn;
        t.conn = NULL;
        say(t.my, "START TRANSACTION");
        die_in_a_deadlock();
        t.conn = conn;
        assert_code(SQLOCK_ESTATE, set ? point(SQLOCK_SAVEPOINT_SET) : run(OUR_WRITE), &t.err);
        assert_int_equal(t.err.flags, 0);
        assert_int_equal(tx(), SQLOCK_TX_IDLE);
        assert_int_equal(mysql_errno(t.my), 1213);
        assert_int_equal(seen_by(t.other), 10);
        end(state);
    }
}

static void test_statement_in_a_read_only_transaction_fails_alone(void **state)
{
    (void)state;
    begin();
    say(t.my, "START TRANSACTION READ ONLY");
    assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
    assert_code(SQLOCK_EREADONLY, run(OUR_WRITE), &t.err);
    assert_int_equal(t.err.flags & SQLOCK_RECONNECT, 0);
    assert_ok(point(SQLOCK_SAVEPOINT_UNDO), &t.err);
    assert_ok(run("SELECT 0, 1 FROM app_row WHERE id = 1 LOCK IN SHARE MODE"), &t.err);
    assert_int_equal(seen_by(t.my), 10);
    say(t.my, "COMMIT");
}

/* ---- what is under way -------------------------------------------------------------------------
 */

static void unknown(void)
{
    void *conn = NULL;

    assert_int_equal(tx(), SQLOCK_TX_UNKNOWN);
    assert_code(SQLOCK_ESTATE, run(OUR_WRITE), &t.err);
    assert_code(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET), &t.err);
    assert_code(SQLOCK_ESTATE, adopt(t.my, &conn), &t.err);
}

static void test_statement_that_was_only_sent_is_left_alone(void **state)
{
    MYSQL_RES *res;

    (void)state;
    begin();
    say(t.my, "BEGIN");
    assert_int_equal(mysql_send_query(t.my, "SELECT 7", 8), 0);
    unknown();
    assert_int_equal(mysql_read_query_result(t.my), 0);
    unknown();
    assert_non_null(res = mysql_store_result(t.my));
    assert_string_equal(mysql_fetch_row(res)[0], "7");
    mysql_free_result(res);
    be_a_guest();
}

static void test_answer_behind_another_is_left_alone(void **state)
{
    (void)state;
    begin_database();
    begin_with(new_client(CLIENT_MULTI_STATEMENTS));
    say(t.my, "BEGIN");
    say(t.my, "SELECT 7; SELECT 8");
    unknown();
    assert_int_equal(mysql_next_result(t.my), 0);
    mysql_free_result(mysql_store_result(t.my));
    be_a_guest();
}

static MYSQL_STMT *prepared(const char *sql, unsigned long cursor)
{
    MYSQL_STMT *stmt = mysql_stmt_init(t.my);

    assert_non_null(stmt);
    assert_int_equal(mysql_stmt_prepare(stmt, sql, strlen(sql)), 0);
    assert_int_equal(mysql_stmt_attr_set(stmt, STMT_ATTR_CURSOR_TYPE, &cursor), 0);
    assert_int_equal(mysql_stmt_execute(stmt), 0);
    return stmt;
}

static void test_rows_of_a_prepared_statement_are_left_alone(void **state)
{
    MYSQL_STMT *stmt;

    (void)state;
    begin();
    say(t.my, "BEGIN");
    stmt = prepared("SELECT n FROM app_row", CURSOR_TYPE_NO_CURSOR);
    unknown();
    assert_int_equal(mysql_stmt_fetch(stmt), 0);
    unknown();
    mysql_stmt_free_result(stmt);
    be_a_guest();
    mysql_stmt_close(stmt); /* the server does not answer to that */
    be_a_guest();
}

static void test_cursor_of_the_application_goes_on(void **state)
{
    MYSQL_STMT *stmt;

    (void)state;
    begin();
    say(t.my, "BEGIN");
    stmt = prepared("SELECT id FROM app_row ORDER BY id", CURSOR_TYPE_READ_ONLY);
    assert_int_equal(mysql_stmt_fetch(stmt), 0);
    be_a_guest();
    assert_int_equal(mysql_stmt_fetch(stmt), 0);
    be_a_guest();
    assert_int_equal(mysql_stmt_fetch(stmt), MYSQL_NO_DATA);
    mysql_stmt_close(stmt);
}

/* The library numbers packets in one byte: an answer of so many rows ends where a request begins.
 */
static void test_answer_of_any_length_is_known_to_have_come(void **state)
{
    char sql[80];

    (void)state;
    begin();
    say(t.my, "BEGIN");
    for (int n = 240; n < 262; n++) {
        snprintf(sql, sizeof sql, "SELECT 1 FROM information_schema.columns LIMIT %d", n);
        say(t.my, sql);
        assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    }
    be_a_guest();
}

/* ---- what the application reads next -----------------------------------------------------------
 */

static void test_last_insert_id_is_given_back(void **state)
{
    unsigned long long id;

    (void)state;
    begin();
    say(t.my, "BEGIN");
    say(t.my, "INSERT INTO app_new (n) VALUES (1), (2)");
    id = mysql_insert_id(t.my);
    assert_true(id > 0);
    be_a_guest();
    assert_int_equal(mysql_insert_id(t.my), id);
    assert_int_equal(mysql_affected_rows(t.my), 2);
    assert_string_equal(mysql_info(t.my), "Records: 2  Duplicates: 0  Warnings: 0");
    assert_int_equal(number(t.my, "SELECT LAST_INSERT_ID()"), (int64_t)id);
}

static void test_last_error_and_warnings_are_given_back(void **state)
{
    char text[MYSQL_ERRMSG_SIZE];

    (void)state;
    begin();
    say(t.my, "BEGIN");
    say(t.my, "INSERT INTO app_new (n) VALUES (1)");
    say_wrong(t.my, "INSERT INTO app_new (n) VALUES (1)", 1062);
    snprintf(text, sizeof text, "%s", mysql_error(t.my));
    be_a_guest();
    assert_int_equal(mysql_errno(t.my), 1062);
    assert_string_equal(mysql_error(t.my), text);
    assert_string_equal(mysql_sqlstate(t.my), "23000");
    say(t.my, "SELECT CAST('x' AS SIGNED)");
    assert_int_equal(mysql_warning_count(t.my), 1);
    be_a_guest();
    assert_int_equal(mysql_warning_count(t.my), 1);
    assert_int_equal(mysql_errno(t.my), 0);
}

/* ---- settings ----------------------------------------------------------------------------------
 */

/* Each makes something of ours go wrong that does not provide for it. */
static const char *const hostile[] = {
    "SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE'",
    "SET sql_mode = ''",
    "SET sql_select_limit = 0",
    "SET sql_select_limit = DEFAULT",
    "SET sql_safe_updates = 1, sql_auto_is_null = 1, sql_big_selects = 0, max_join_size = 1",
    "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
    "SET NAMES gbk",
    "SET time_zone = '-07:00', lc_time_names = 'de_DE', autocommit = 1",
    "SET NAMES utf8mb4, character_set_results = NULL",
};

static void test_settings_of_the_session_change_no_answer(void **state)
{
    const sqlock_value bytes = {SQLOCK_BYTES, 0, "'\"\\`\0\xbf\x5c", 7};
    static const uint8_t order[] = {0};
    sqlock_step steps[] = {{.sql = "UPDATE app_row SET n = n + 1 WHERE id + 0 = 2", .flags = 0},
                           {.sql = "SELECT 0, 1, ? FROM app_row a JOIN app_row b WHERE a.id = 1"
                                   " AND b.id = 2",
                            .order = order,
                            .n_order = 1}};
    const void *got;
    size_t len;

    (void)state;
    begin_database();
    begin_with(new_client(CLIENT_FOUND_ROWS));
    t.scripts[SQLOCK_STMT_LIST] = (sqlock_script){
        .name = "test", .params = "b:x", .n_params = 1, .n_steps = 2, .steps = steps};
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        say(t.my, hostile[i]);
        say(t.my, "START TRANSACTION");
        assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
        rows_clear(t.rows);
        assert_ok(sqlock_driver_mysql()->run(t.conn, SQLOCK_STMT_LIST, &bytes, 1, in_ms(10000),
                                             t.rows, &t.err),
                  &t.err);
        assert_int_equal(sqlock_rows_count(t.rows), 1);
        got = rows_bytes(t.rows, 0, 2, &len);
        assert_int_equal(len, bytes.len);
        assert_memory_equal(got, bytes.data, len);
        be_a_guest();
        say(t.my, "ROLLBACK");
    }
    assert_int_equal(number(t.my, "SELECT @@innodb_lock_wait_timeout LIMIT 1"), 1);
    assert_int_equal(number(t.my, "SELECT @@sql_safe_updates LIMIT 1"), 1);
}

/* The packet of a step is taken apart where the connection does not take packets; what its
 * statements say to each other arrives all the same. */
static void test_statements_of_a_step_know_of_each_other(void **state)
{
    (void)state;
    begin();
    say(t.my, "BEGIN");
    assert_ok(run("SET @sqlock_test = 5;\n"
                  "UPDATE app_row SET n = n + @sqlock_test WHERE id <= 2;\n"
                  "SELECT 0, ROW_COUNT(), @sqlock_test"),
              &t.err);
    assert_int_equal(rows_int(t.rows, 0, 1, -1), 2);
    assert_int_equal(rows_int(t.rows, 0, 2, -1), 5);
    assert_int_equal(seen_by(t.my), 15);
}

static int ask(const char *sql, const sqlock_value *values, uint8_t n)
{
    sqlock_step step = {.sql = sql};
    sqlock_script script = {.name = "test", .n_params = n, .n_steps = 1, .steps = &step};

    rows_clear(t.rows);
    return sqlock_driver_mysql()->ask(t.conn, &script, values, in_ms(patience_ms(10000)), t.rows,
                                      &t.err);
}

static sqlock_value text(const char *s)
{
    return (sqlock_value){.type = SQLOCK_TEXT, .data = s, .len = strlen(s)};
}

/* In some of them a letter ends in the byte of a backslash; the client library does not see that
 * the character set was changed, where the server does not tell it. */
static void test_text_is_read_in_the_character_set_of_the_session(void **state)
{
    static const char *const names[][2] = {{"SET NAMES gbk", "\xbf\x5c '"},
                                           {"SET NAMES sjis", "\x83\x5c' "},
                                           {"SET NAMES latin1", "\xe4\\'\"`?"},
                                           {"SET NAMES utf8mb4", "\xf0\x9f\x94\x92 \\'"},
                                           {"SET NAMES utf8", "\xc3\xa4 ;\n ?"}};
    static const char *const modes[] = {"SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI'",
                                        "SET sql_mode = ''"};

    (void)state;
    begin();
    say(t.my, "CREATE TABLE app_text (t VARCHAR(20) CHARACTER SET utf8mb4 PRIMARY KEY)");
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        sqlock_value value = text(names[i / 2][1]);
        size_t len = 0;
        const void *got;

        say(t.my, modes[i % 2]);
        say(t.my, names[i / 2][0]);
        say(t.my, "BEGIN");
        assert_ok(ask("INSERT INTO app_text VALUES (?)", &value, 1), &t.err);
        assert_ok(ask("SELECT t FROM app_text WHERE t = ?", &value, 1), &t.err);
        assert_int_equal(sqlock_rows_count(t.rows), 1);
        got = rows_bytes(t.rows, 0, 0, &len);
        assert_int_equal(len, value.len);
        assert_memory_equal(got, value.data, len);
        say(t.my, "ROLLBACK");
    }
}

static void test_names_may_hold_what_parts_texts(void **state)
{
    const sqlock_value value = {.type = SQLOCK_INT, .i = 7};

    (void)state;
    begin();
    say(t.my, "CREATE TABLE `a?b``;\n?` (`;\n?` INT, n INT) ENGINE=InnoDB");
    say(t.my, "BEGIN");
    assert_ok(ask("INSERT INTO `a?b``;\n?` (`;\n?`, n) VALUES (1, ?)", &value, 1), &t.err);
    assert_ok(ask("UPDATE `a?b``;\n?` SET `;\n?` = n;\n"
                  "SELECT `;\n?` FROM `a?b``;\n?` WHERE n = ?",
                  &value, 1),
              &t.err);
    assert_int_equal(rows_int(t.rows, 0, 0, -1), 7);
}

static void test_number_that_does_not_fit_comes_as_it_is(void **state)
{
    const char *bytes;
    size_t len = 0;

    (void)state;
    begin();
    say(t.my, "BEGIN");
    assert_ok(
        ask("SELECT 18446744073709551615, -9223372036854775808, 1.5, 9223372036854775807", NULL, 0),
        &t.err);
    bytes = rows_bytes(t.rows, 0, 0, &len);
    assert_int_equal(len, 20);
    assert_memory_equal(bytes, "18446744073709551615", 20);
    assert_true(rows_int(t.rows, 0, 1, 0) == INT64_MIN);
    bytes = rows_bytes(t.rows, 0, 2, &len);
    assert_memory_equal(bytes, "1.5", 3);
    assert_true(rows_int(t.rows, 0, 3, 0) == INT64_MAX);
}

static void test_compressed_connection_is_as_good(void **state)
{
    (void)state;
    begin_database();
    begin_with(new_client(CLIENT_COMPRESS));
    say(t.my, "BEGIN");
    say(t.my, "INSERT INTO app_new (n) VALUES (1), (2)");
    be_a_guest();
    assert_string_equal(mysql_info(t.my), "Records: 2  Duplicates: 0  Warnings: 0");
    assert_int_equal(mysql_send_query(t.my, "SELECT 7", 8), 0);
    unknown();
    assert_int_equal(mysql_read_query_result(t.my), 0);
    mysql_free_result(mysql_store_result(t.my));
    be_a_guest();
    say(t.my, "COMMIT");
    assert_int_equal(seen_by(t.other), 210);
}

/* ---- waiting -----------------------------------------------------------------------------------
 */

static void *commit_late(void *arg)
{
    (void)arg;
    mysql_thread_init();
    sleep_ms(1200);
    (void)mysql_query(t.other, "COMMIT");
    mysql_thread_end();
    return NULL;
}

/* A statement is cut for a look at cancel, and sent again: it is done once. */
static void test_statement_that_waits_for_long_is_done_once(void **state)
{
    pthread_t thread;
    int64_t begun;

    (void)state;
    begin();
    say(t.other, "BEGIN");
    say(t.other, "UPDATE app_row SET n = 50 WHERE id = 1");
    say(t.my, "SET innodb_lock_wait_timeout = 1");
    say(t.my, "BEGIN");
    say(t.my, "UPDATE app_row SET n = 21 WHERE id = 2");
    begun = now_us();
    assert_int_equal(pthread_create(&thread, NULL, commit_late, NULL), 0);
    be_a_guest();
    pthread_join(thread, NULL);
    assert_between(1100000, now_us() - begun, patience_ms(8000) * INT64_C(1000));
    say(t.my, "COMMIT");
    assert_int_equal(seen_by(t.other), 150);
    assert_int_equal(number(t.my, "SELECT n FROM app_row WHERE id = 2"), 21);
}

static void *cancel_soon(void *conn)
{
    sleep_ms(200);
    sqlock_driver_mysql()->cancel(conn);
    return NULL;
}

static void test_cancel_ends_a_wait_for_a_row(void **state)
{
    int64_t begun = now_us();
    pthread_t thread;
    int rc;

    (void)state;
    begin();
    say(t.other, "BEGIN");
    say(t.other, "UPDATE app_row SET n = 50 WHERE id = 1");
    say(t.my, "BEGIN");
    assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, t.conn), 0);
    rc = run(OUR_WRITE);
    pthread_join(thread, NULL);
    assert_code(SQLOCK_ECANCELLED, rc, &t.err);
    assert_between(200000, now_us() - begun, patience_ms(4000) * INT64_C(1000));
    assert_ok(point(SQLOCK_SAVEPOINT_UNDO), &t.err);
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
}

/* There a timeout of the server's own ends the whole transaction. On MariaDB another one comes
 * first. */
static void test_rollback_on_timeout_does_not_take_the_transaction_unseen(void **state)
{
    (void)state;
    my_private_restart("--innodb-rollback-on-timeout=ON");
    my_private_exec("CREATE DATABASE IF NOT EXISTS sqlock_adopt");
    t.socket = my_private_socket();
    t.my = mysql_init(NULL);
    assert_non_null(mysql_real_connect(t.my, NULL, "root", "", "sqlock_adopt", 0, t.socket, 0));
    t.other = mysql_init(NULL);
    assert_non_null(mysql_real_connect(t.other, NULL, "root", "", "sqlock_adopt", 0, t.socket, 0));
    make_table(t.my);
    assert_non_null(t.rows = rows_new());
    assert_ok(adopt(t.my, &t.conn), &t.err);
    say(t.other, "BEGIN");
    say(t.other, "UPDATE app_row SET n = 50 WHERE id = 1");
    say(t.my, "BEGIN");
    say(t.my, "UPDATE app_row SET n = 21 WHERE id = 2");
    assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
    assert_true(run_until(OUR_WRITE, in_ms(1500)) < 0);
    assert_int_equal(tx(), is_maria() ? SQLOCK_TX_ACTIVE : SQLOCK_TX_IDLE);
    assert_int_equal(number(t.my, "SELECT n FROM app_row WHERE id = 2"), is_maria() ? 21 : 20);
}

/* The reply is held back for longer than anybody waits: the application must not read it as its
 * own. */
static void test_link_that_is_silent_is_ended(void **state)
{
    struct proxy *p;
    char path[256];
    int64_t begun;

    (void)state;
    begin_database();
    assert_non_null(p = proxy_start_unix(t.socket));
    snprintf(path, sizeof path, "%s/.s.PGSQL.5432", proxy_dir(p));
    t.my = mysql_init(NULL);
    assert_non_null(mysql_real_connect(t.my, NULL, "root", "", t.database, 0, path, 0));
    begin_with(t.my);
    say(t.my, "BEGIN");
    assert_ok(point(SQLOCK_SAVEPOINT_SET), &t.err);
    proxy_mode_set(p, PROXY_HOLD_DOWN);
    begun = now_us();
    assert_code(SQLOCK_ETIMEOUT, run_until(OUR_WRITE, in_ms(200)), &t.err);
    assert_between(200000, now_us() - begun, patience_ms(15000) * INT64_C(1000));
    assert_int_equal(t.err.flags, SQLOCK_RECONNECT);
    assert_int_equal(tx(), SQLOCK_TX_UNKNOWN);
    proxy_mode_set(p, PROXY_PASS);
    assert_int_not_equal(mysql_query(t.my, "SELECT 1"), 0);
    assert_soon(seen_by(t.other) == 10, patience_ms(5000));
    mysql_close(t.my);
    t.my = NULL;
    proxy_stop(p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(test_connection_that_reconnects_is_refused, end),
    cmocka_unit_test_teardown(test_connection_that_is_not_connected_is_refused, end),
    cmocka_unit_test_teardown(test_other_copy_of_the_client_library_is_refused, end),
    cmocka_unit_test_teardown(test_connection_that_was_made_anew_is_lost, end),
    cmocka_unit_test_teardown(test_autocommit_off_is_an_open_transaction, end),
    cmocka_unit_test_teardown(test_every_isolation_level_will_do, end),
    cmocka_unit_test_teardown(test_deadlock_ends_the_transaction_and_is_told, end),
    cmocka_unit_test_teardown(test_transaction_that_has_ended_is_found_out_before_a_change, end),
    cmocka_unit_test_teardown(test_statement_in_a_read_only_transaction_fails_alone, end),
    cmocka_unit_test_teardown(test_statement_that_was_only_sent_is_left_alone, end),
    cmocka_unit_test_teardown(test_answer_behind_another_is_left_alone, end),
    cmocka_unit_test_teardown(test_rows_of_a_prepared_statement_are_left_alone, end),
    cmocka_unit_test_teardown(test_cursor_of_the_application_goes_on, end),
    cmocka_unit_test_teardown(test_answer_of_any_length_is_known_to_have_come, end),
    cmocka_unit_test_teardown(test_last_insert_id_is_given_back, end),
    cmocka_unit_test_teardown(test_last_error_and_warnings_are_given_back, end),
    cmocka_unit_test_teardown(test_settings_of_the_session_change_no_answer, end),
    cmocka_unit_test_teardown(test_statements_of_a_step_know_of_each_other, end),
    cmocka_unit_test_teardown(test_text_is_read_in_the_character_set_of_the_session, end),
    cmocka_unit_test_teardown(test_names_may_hold_what_parts_texts, end),
    cmocka_unit_test_teardown(test_number_that_does_not_fit_comes_as_it_is, end),
    cmocka_unit_test_teardown(test_compressed_connection_is_as_good, end),
    cmocka_unit_test_teardown(test_statement_that_waits_for_long_is_done_once, end),
    cmocka_unit_test_teardown(test_cancel_ends_a_wait_for_a_row, end),
    cmocka_unit_test_teardown(test_rollback_on_timeout_does_not_take_the_transaction_unseen, end),
    cmocka_unit_test_teardown(test_link_that_is_silent_is_ended, end),
};

int main(void)
{
    const char *url = getenv("SQLOCK_TEST_MYSQL_URL");

    if (test_wants("mysql") && (!url || !*url)) {
        puts("SKIP: no MariaDB or MySQL: SQLOCK_TEST_MYSQL_URL is not set");
        return test_strict() ? 1 : 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
