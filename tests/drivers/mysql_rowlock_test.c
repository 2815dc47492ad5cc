/* P12 on MariaDB and MySQL: which indexes and values make a key, and what is locked without one. */
#include <mysql.h>
#include <sqlock/mysql.h>

#include "tests/drivers/suite_rowlock.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_app.h"
#include "tests/lib/mysql_quirks.h"

static int32_t wait_ms; /* none, where the server can tell so */

static void set_stage(struct world *w)
{
    set_row_stage(w);
    be_impatient(rs.other_app);
    wait_ms = my_skips_locked() ? 0 : SQLOCK_WAIT_FOREVER;
}

static int lock_in(const char *schema, const char *table, const char *column, sqlock_value value)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_column key[] = {{.name = column, .value = value}};
    sqlock_row row = {sizeof row, schema, table, key, 1};

    o.wait_ms = wait_ms;
    return sqlock_row_lock(rs.conn, &row, 1, &o, &said);
}

static int lock(const char *column, sqlock_value value)
{
    return lock_in(NULL, "x", column, value);
}

TEST_AFTER(set_stage, test_values_of_another_kind_are_refused)
{
    app_exec(g.app, "CREATE TABLE x (i INT PRIMARY KEY, t VARCHAR(20) CHARACTER SET utf8mb4 UNIQUE,"
                    " l VARCHAR(20) CHARACTER SET latin1 UNIQUE, m VARCHAR(20) CHARACTER SET utf8 "
                    "UNIQUE, b VARBINARY(20) UNIQUE, d DATETIME UNIQUE) ENGINE=InnoDB");
    app_exec(g.app, "BEGIN");
    assert_int_equal(lock("i", sqlock_int(5)), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock("i", sqlock_text("5")));
    says(SQLOCK_EREFUSED, lock("i", sqlock_bytes("5", 1)));
    assert_int_equal(lock("t", sqlock_text("5")), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock("t", sqlock_int(5)));
    says(SQLOCK_EREFUSED, lock("t", sqlock_bytes("5", 1)));
    assert_int_equal(lock("l", sqlock_text("a")), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock("l", sqlock_text("\xE2\x82\xAC")));
    assert_int_equal(lock("m", sqlock_text("\xE2\x82\xAC")), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock("m", sqlock_text("\xF0\x9F\x98\x80")));
    assert_int_equal(lock("b", sqlock_bytes("\0\xFF", 2)), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock("b", sqlock_int(1)));
    says(SQLOCK_EREFUSED, lock("d", sqlock_text("2026-01-01")));
}

TEST_AFTER(set_stage, test_indexes_that_do_not_make_a_key)
{
    static const char *const bad[] = {
        "CREATE TABLE x (k VARCHAR(40), UNIQUE (k(10))) ENGINE=InnoDB",
        "CREATE TABLE x (k INT, INDEX (k)) ENGINE=InnoDB",
        "CREATE TABLE x (k INT, v INT, PRIMARY KEY (k, v)) ENGINE=InnoDB",
        "CREATE TABLE x (k INT PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TEMPORARY TABLE x (k INT) ENGINE=InnoDB",
        "CREATE VIEW x AS SELECT id AS k FROM app_row",
        "CREATE TABLE x (K INT PRIMARY KEY) ENGINE=InnoDB",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        app_exec(g.app, bad[i], "BEGIN");
        if (lock("k", sqlock_int(1)) != SQLOCK_EREFUSED)
            fail_msg("%s: %s", bad[i], said.text);
        app_exec(g.app, "ROLLBACK");
        app_exec(g.app, strncmp(bad[i], "CREATE VIEW", 11) == 0 ? "DROP VIEW x" : "DROP TABLE x");
    }
}

/* What is refused, done by hand: the twin of all refusals. */
TEST_AFTER(set_stage, test_lock_without_an_index_is_on_the_whole_table)
{
    app_exec(g.app, "BEGIN", "SELECT id FROM app_row WHERE n = 10 FOR UPDATE");
    assert_false(g.side->exec(rs.other_app, "UPDATE app_row SET n = 21 WHERE id = 2"));
    app_exec(g.app, "ROLLBACK", "BEGIN");
    ok(lock_in(NULL, "app_row", "id", sqlock_int(1)));
    app_exec(rs.other_app, "UPDATE app_row SET n = 21 WHERE id = 2");
    assert_false(g.side->exec(rs.other_app, "UPDATE app_row SET n = 11 WHERE id = 1"));
}

/* The row, not only the index's entry. */
TEST_AFTER(set_stage, test_lock_by_a_second_key_is_on_the_row)
{
    app_exec(g.app, "CREATE UNIQUE INDEX by_n ON app_row (n)", "BEGIN");
    ok(lock_in(NULL, "app_row", "n", sqlock_int(10)));
    assert_false(g.side->exec(rs.other_app, "DELETE FROM app_row WHERE id = 1"));
    app_exec(rs.other_app, "DELETE FROM app_row WHERE id = 2");
}

/* It is remembered, and fails: it does not lock the table. */
TEST_AFTER(set_stage, test_index_that_has_gone_since_is_an_error_and_locks_nothing)
{
    app_exec(g.app, "CREATE UNIQUE INDEX by_n ON app_row (n)", "BEGIN");
    ok(lock_in(g.w->place.schema, "app_row", "n", sqlock_int(10)));
    app_exec(g.app, "COMMIT");
    app_exec(rs.other_app, "DROP INDEX by_n ON app_row");
    app_exec(g.app, "BEGIN");
    says(SQLOCK_EDB, lock_in(g.w->place.schema, "app_row", "n", sqlock_int(10)));
    assert_int_equal(said.native, 1176);
    app_exec(rs.other_app, "UPDATE app_row SET n = n + 1");
}

/* As the header says, and no wider than that. */
TEST_AFTER(set_stage, test_absent_row_leaves_a_gap_locked_but_in_read_committed)
{
    app_exec(g.app, "INSERT INTO app_row VALUES (10, 100)", "BEGIN");
    assert_int_equal(lock_in(NULL, "app_row", "id", sqlock_int(5)), SQLOCK_ABSENT);
    assert_false(g.side->exec(rs.other_app, "INSERT INTO app_row VALUES (5, 0)"));
    app_exec(rs.other_app, "INSERT INTO app_row VALUES (11, 0)");
    app_exec(g.app, "ROLLBACK", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN");
    assert_int_equal(lock_in(NULL, "app_row", "id", sqlock_int(5)), SQLOCK_ABSENT);
    app_exec(rs.other_app, "INSERT INTO app_row VALUES (5, 0)");
}

/* The catalogue and the lock make no snapshot: what is read then is as new as the lock. */
TEST_AFTER(set_stage, test_first_read_under_the_lock_is_new)
{
    app_exec(g.app, "BEGIN");
    ok(lock_in(NULL, "app_row", "id", sqlock_int(2)));
    assert_int_equal(lock_in(NULL, "app_row", "id", sqlock_int(99)), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock_in(NULL, "app_row", "n", sqlock_int(99)));
    app_exec(rs.other_app, "UPDATE app_row SET n = 55 WHERE id = 1");
    assert_int_equal(seen_by(g.app), 55);
}

TEST_AFTER(set_stage, test_lock_works_with_autocommit_off)
{
    app_exec(g.app, "SET autocommit = 0");
    ok(lock_in(NULL, "app_row", "id", sqlock_int(1)));
    assert_false(g.side->exec(rs.other_app, "UPDATE app_row SET n = 11 WHERE id = 1"));
    app_exec(g.app, "COMMIT");
    app_exec(rs.other_app, "UPDATE app_row SET n = 11 WHERE id = 1");
}

TEST_AFTER(set_stage, test_selected_database_is_followed)
{
    app_exec(g.app, "BEGIN");
    ok(lock_in(NULL, "app_row", "id", sqlock_int(1)));
    app_exec(g.app, "USE information_schema");
    says(SQLOCK_EREFUSED, lock_in(NULL, "app_row", "id", sqlock_int(1)));
    ok(lock_in(g.w->place.schema, "app_row", "id", sqlock_int(1)));
}

TEST_AFTER(set_stage, test_lock_wait_timeout_of_the_application_does_not_end_a_wait)
{
    if (wait_ms == SQLOCK_WAIT_FOREVER)
        skip(); /* it knows no bounded wait */
    app_exec(rs.other_app, "BEGIN", "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(g.app, "SET innodb_lock_wait_timeout = 1", "BEGIN");
    assert_takes(2500, 2500 + patience_ms(2000),
                 says(SQLOCK_EBUSY, lock_row_with(rs.conn, 1, 0, 2500)));
    assert_int_equal(app_number(g.app, "SELECT @@innodb_lock_wait_timeout"), 1);
}

/* The user may not know of others' sessions: nobody is told, and all else is the same. */
TEST_AFTER(set_stage, test_blocker_is_not_reported_to_a_user_without_rights)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_blocker b = {.size = sizeof b};
    char url[400], sql[300];
    sqlock_conn *conn;
    sqlock *m = NULL;

    if (wait_ms == SQLOCK_WAIT_FOREVER)
        skip(); /* it knows no bounded wait */
    snprintf(sql, sizeof sql,
             "DROP USER IF EXISTS modest@localhost; CREATE USER modest@localhost;"
             " GRANT SELECT, INSERT, UPDATE ON `%s`.* TO modest@localhost",
             g.w->place.schema);
    my_exec(sql);
    snprintf(url, sizeof url, "mysql://modest@localhost/%s?socket=%s", g.w->place.schema,
             my_socket_path());
    ok(sqlock_open(sqlock_driver_mysql(), url, NULL, &m, &said));
    conn = adopted(m, g.app);
    app_exec(rs.other_app, "BEGIN", "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(g.app, "BEGIN");
    o.wait_ms = 700;
    o.blocker = &b;
    says(SQLOCK_EBUSY, lock_row_opts(conn, 1, &o));
    assert_int_equal(b.sessions, 0);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "ROLLBACK");
    let_go(conn);
    sqlock_close(m);
    my_exec("DROP USER modest@localhost");
}

TEST_MAIN_ON(mysql)
