/* P14 on MariaDB and MySQL: whose connection can be adopted, what is known of its transaction, and
 * what the application reads next. */
#include <dlfcn.h>
#include <mysql.h>

#include "tests/drivers/mysql_adopted.h"
#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_quirks.h"

/* ---- adopting -------------------------------------------------------------------------------- */

static int adopt_native(MYSQL *my, void (*library)(void))
{
    sqlock_adopt_opts o = {
        .size = sizeof o, .native = my, .library = library, .scripts = g.scripts};
    void *conn = NULL;
    int rc = g.adopter->adopt(&o, &conn, &said);

    if (rc == 0)
        g.adopter->close(conn);
    return rc;
}

/* It would go on in another session, without the transaction, and nobody would know. */
TEST_AFTER(begin_app, test_connection_that_reconnects_is_refused)
{
    MYSQL *my = mysql_init(NULL);
    char on = 1;

    mysql_options(my, MYSQL_OPT_RECONNECT, &on);
    connect_native(my, 0, NULL);
    says(SQLOCK_ESTATE, adopt_native(my, NULL));
    on = 0;
    mysql_options(my, MYSQL_OPT_RECONNECT, &on);
    ok(adopt_native(my, NULL));
    mysql_close(my);
}

TEST_AFTER(begin_app, test_connection_that_is_not_connected_is_refused)
{
    MYSQL *my = mysql_init(NULL);

    says(SQLOCK_ESTATE, adopt_native(my, NULL));
    mysql_close(my);
}

/* MySQL's calls itself by way of the program, where it would find the other copy. */
#ifdef MARIADB_PACKAGE_VERSION_ID
#define TO_ITSELF 0
#else
#define TO_ITSELF RTLD_DEEPBIND
#endif

/* Where the client library is in a file of its own: that file once more, under another name. */
static void *load_another_copy(void)
{
    char command[600], *dir = temp_dir();
    Dl_info info;
    void *copy;

    assert_int_not_equal(dladdr(native(g.app)->charset, &info), 0);
    snprintf(command, sizeof command, "cp -L '%s' '%s/copy.so'", info.dli_fname, dir);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/copy.so", dir);
    assert_non_null(copy = dlopen(command, RTLD_NOW | RTLD_LOCAL | TO_ITSELF));
    return copy;
}

#define FIND(function, copy)                                                                       \
    do {                                                                                           \
        void *found = dlsym((copy), #function);                                                    \
        assert_non_null(found);                                                                    \
        memcpy(&their_##function, &found, sizeof found);                                           \
    } while (0)

TEST_AFTER(begin_app, test_other_copy_of_the_client_library_is_refused)
{
    MYSQL *(*their_mysql_init)(MYSQL *) = NULL;
    MYSQL *(*their_mysql_real_connect)(MYSQL *, const char *, const char *, const char *,
                                       const char *, unsigned, const char *, unsigned long) = NULL;
    void (*their_mysql_close)(MYSQL *) = NULL, *copy;
    MYSQL *my;

    copy = load_another_copy();
    FIND(mysql_init, copy);
    FIND(mysql_real_connect, copy);
    FIND(mysql_close, copy);
    ok(adopt_native(native(g.app), (void (*)(void))mysql_init));
    says(SQLOCK_EREFUSED, adopt_native(native(g.app), (void (*)(void))their_mysql_init));
    assert_non_null(my = their_mysql_init(NULL));
    assert_non_null(their_mysql_real_connect(my, NULL, "root", "", NULL, 0, my_socket_path(), 0));
    says(SQLOCK_EREFUSED, adopt_native(my, (void (*)(void))mysql_init));
    says(SQLOCK_EREFUSED, adopt_native(my, NULL));
    their_mysql_close(my);
}

/* The application connects once more, by the same handle. */
TEST(test_connection_that_was_made_anew_is_lost)
{
    static MYSQL my;

    begin_mysql_as(w, &my, 0, NULL);
    mysql_close(&my);
    mysql_init(&my);
    connect_native(&my, 0, NULL);
    app_exec(g.app, "BEGIN");
    assert_int_equal(tx(), SQLOCK_TX_UNKNOWN);
    assert_true(run(OUR_READ) < 0);
    assert_true(said.flags & SQLOCK_RECONNECT);
    assert_true(point(SQLOCK_SAVEPOINT_SET) < 0);
    end_adopted();
    ok(adopt(g.app, &g.conn));
    be_adopted();
}

/* ---- the transaction's state ----------------------------------------------------------------- */

TEST_AFTER(begin_adopted, test_autocommit_off_is_an_open_transaction)
{
    void *other = app_connect();

    app_exec(g.app, "SET autocommit = 0");
    be_adopted(); /* its first statement */
    assert_int_equal(seen_by(other), 10);
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(seen_by(g.app), 10);
    be_adopted(); /* an old one */
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 110);
    assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    app_exec(g.app, "SET autocommit = 1");
    assert_int_equal(tx(), SQLOCK_TX_IDLE);
    says(SQLOCK_ESTATE, run(OUR_WRITE));
}

TEST_AFTER(begin_adopted, test_statement_in_a_read_only_transaction_fails_alone)
{
    app_exec(g.app, "START TRANSACTION READ ONLY");
    point_ok(SQLOCK_SAVEPOINT_SET);
    says(SQLOCK_EREADONLY, run(OUR_WRITE));
    undo_failed();
    ok(run("SELECT 0, 1 FROM app_row WHERE id = 1 LOCK IN SHARE MODE"));
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
}

/* ---- what is under way ----------------------------------------------------------------------- */

static void send_and_adopted(void)
{
    MYSQL_RES *res;

    assert_int_equal(mysql_send_query(native(g.app), "SELECT 7", 8), 0);
    assert_in_the_middle();
    assert_int_equal(mysql_read_query_result(native(g.app)), 0);
    assert_in_the_middle();
    assert_non_null(res = mysql_store_result(native(g.app)));
    assert_string_equal(mysql_fetch_row(res)[0], "7");
    mysql_free_result(res);
    be_adopted();
}

TEST(test_answer_behind_another_is_left_alone)
{
    begin_mysql_as(w, NULL, CLIENT_MULTI_STATEMENTS, NULL);
    app_exec(g.app, "BEGIN", "SELECT 7; SELECT 8");
    assert_in_the_middle();
    assert_int_equal(mysql_next_result(native(g.app)), 0);
    mysql_free_result(mysql_store_result(native(g.app)));
    be_adopted();
}

static MYSQL_STMT *execute(const char *sql, unsigned long cursor)
{
    MYSQL_STMT *stmt = mysql_stmt_init(native(g.app));

    assert_non_null(stmt);
    assert_int_equal(mysql_stmt_prepare(stmt, sql, strlen(sql)), 0);
    assert_int_equal(mysql_stmt_attr_set(stmt, STMT_ATTR_CURSOR_TYPE, &cursor), 0);
    assert_int_equal(mysql_stmt_execute(stmt), 0);
    return stmt;
}

TEST_AFTER(begin_in_transaction, test_rows_of_a_prepared_statement_are_left_alone)
{
    MYSQL_STMT *stmt = execute("SELECT n FROM app_row", CURSOR_TYPE_NO_CURSOR);

    assert_in_the_middle();
    assert_int_equal(mysql_stmt_fetch(stmt), 0);
    assert_in_the_middle();
    mysql_stmt_free_result(stmt);
    be_adopted();
    mysql_stmt_close(stmt); /* the server does not answer to that */
    be_adopted();
}

TEST_AFTER(begin_mysql, test_cursor_of_the_application_goes_on)
{
    MYSQL_STMT *stmt;

    app_exec(g.app, "BEGIN");
    stmt = execute("SELECT id FROM app_row ORDER BY id", CURSOR_TYPE_READ_ONLY);
    assert_int_equal(mysql_stmt_fetch(stmt), 0);
    be_adopted();
    assert_int_equal(mysql_stmt_fetch(stmt), 0);
    be_adopted();
    assert_int_equal(mysql_stmt_fetch(stmt), MYSQL_NO_DATA);
    mysql_stmt_close(stmt);
}

/* Packets are numbered in one byte: some answers end with the number that a request has. */
TEST_AFTER(begin_in_transaction, test_answer_of_any_length_is_known_to_have_come)
{
    char sql[80];

    for (int n = 240; n < 262; n++) {
        snprintf(sql, sizeof sql, "SELECT 1 FROM information_schema.columns LIMIT %d", n);
        app_exec(g.app, sql);
        assert_int_equal(tx(), SQLOCK_TX_ACTIVE);
    }
    be_adopted();
}

/* ---- what the application reads next --------------------------------------------------------- */

static void insert_and_adopted(void)
{
    unsigned long long id;

    app_exec(g.app, "INSERT INTO app_new (n) VALUES (1), (2)");
    id = mysql_insert_id(native(g.app));
    assert_true(id > 0);
    be_adopted();
    assert_true(mysql_insert_id(native(g.app)) == id);
    assert_true(mysql_affected_rows(native(g.app)) == 2);
    assert_string_equal(mysql_info(native(g.app)), "Records: 2  Duplicates: 0  Warnings: 0");
    assert_int_equal(app_number(g.app, "SELECT LAST_INSERT_ID()"), (int64_t)id);
}

TEST_AFTER(begin_mysql, test_last_insert_id_is_given_back_by_statements_that_set_it)
{
    int64_t id;

    app_exec(g.app, "BEGIN", "INSERT INTO app_new (n) VALUES (1)");
    id = app_number(g.app, "SELECT LAST_INSERT_ID()");
    ok(run("UPDATE app_row SET n = LAST_INSERT_ID(n + 1) WHERE id = 1;\n"
           "SELECT 0, LAST_INSERT_ID()"));
    assert_int_equal(rows_int(g.rows, 0, 1, -1), 11);
    assert_int_equal(app_number(g.app, "SELECT LAST_INSERT_ID()"), id);
    assert_true(run("UPDATE app_row SET n = LAST_INSERT_ID(n + 1) WHERE id = 1;\n" OUR_WRONG) < 0);
    assert_int_equal(app_number(g.app, "SELECT LAST_INSERT_ID()"), id);
}

TEST_AFTER(begin_mysql, test_last_error_and_warnings_are_given_back)
{
    char text[MYSQL_ERRMSG_SIZE];

    app_exec(g.app, "BEGIN", "INSERT INTO app_new (n) VALUES (1)");
    assert_false(g.side->exec(g.app, "INSERT INTO app_new (n) VALUES (1)"));
    snprintf(text, sizeof text, "%s", mysql_error(native(g.app)));
    be_adopted();
    assert_int_equal(mysql_errno(native(g.app)), 1062);
    assert_string_equal(mysql_error(native(g.app)), text);
    assert_string_equal(mysql_sqlstate(native(g.app)), "23000");
    app_exec(g.app, "SELECT CAST('x' AS SIGNED)");
    assert_int_equal(mysql_warning_count(native(g.app)), 1);
    be_adopted();
    assert_int_equal(mysql_warning_count(native(g.app)), 1);
    assert_int_equal(mysql_errno(native(g.app)), 0);
}

TEST(test_compressed_connection_is_as_good)
{
    void *other;

    begin_mysql_as(w, NULL, CLIENT_COMPRESS, NULL);
    other = app_connect();
    app_exec(g.app, "BEGIN");
    insert_and_adopted();
    send_and_adopted();
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 210);
}

TEST_MAIN_ON(mysql)
