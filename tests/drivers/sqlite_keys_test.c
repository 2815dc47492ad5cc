/* P12, P13 on SQLite: a key is one row, whatever has its index's name, however tables compare. */
#include <sqlite3.h> /* before sqlock/sqlite.h */
#include <sqlock/sqlite.h>

#include <sqlock/cas.h>

#include "tests/drivers/suite_rowlock.h"
#include "tests/lib/sqlite_quirks.h"

/* Raise the version from 1 of the row of this key; how many rows were raised, as count tells: none
 * where the key is refused. */
static int64_t raised(const char *schema, const char *table, sqlock_column key, const char *count)
{
    sqlock_row row = {sizeof row, schema, table, &key, 1};
    sqlock_row_version v = {.size = sizeof v, .column = "version", .expected = sqlock_int(1)};
    int64_t n;
    int rc;

    app_exec(g.app, "BEGIN IMMEDIATE");
    rc = sqlock_cas_update(rs.conn, &row, &v, NULL, 0, &said);
    n = app_number(g.app, count);
    app_exec(g.app, "ROLLBACK");
    says(n > 0 ? 0 : SQLOCK_EREFUSED, rc);
    return n;
}

/* To `=` both names are one, by the column's collation; to the index they are two. */
TEST_AFTER(set_row_stage, test_key_is_compared_as_its_index_compares)
{
    static const char *const makes[] = {
        "CREATE TABLE x (k TEXT COLLATE NOCASE, version INTEGER);"
        "CREATE UNIQUE INDEX x_k ON x (k COLLATE BINARY)",
        "CREATE TABLE x (k TEXT COLLATE NOCASE, version INTEGER, PRIMARY KEY (k COLLATE BINARY))",
        "CREATE TABLE x (k TEXT COLLATE NOCASE, version INTEGER, PRIMARY KEY (k COLLATE BINARY))"
        " WITHOUT ROWID",
    };

    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        app_exec(g.app, makes[i], "INSERT INTO x VALUES ('a', 1), ('A', 1)");
        assert_int_equal(raised("main", "x", (sqlock_column){"k", sqlock_text("a"), NULL},
                                "SELECT count(*) FROM x WHERE version = 2"),
                         1);
        app_exec(g.app, "DROP TABLE x");
    }
}

/* main.pair is unique on one column; the table's own index of that name, in the file that was
 * attached, on two. */
TEST_AFTER(set_row_stage, test_index_of_the_same_name_in_another_file_is_another)
{
    sqlock_column id = {"id", sqlock_int(1), NULL};
    static const char count[] = "SELECT count(*) FROM there WHERE version = 2";

    app_exec(g.app, "CREATE TABLE here (id INTEGER); CREATE UNIQUE INDEX pair ON here (id);"
                    "ATTACH ':memory:' AS beside;"
                    "CREATE TABLE beside.there (id INTEGER, n INTEGER, version INTEGER);"
                    "CREATE UNIQUE INDEX beside.pair ON there (id, n);"
                    "INSERT INTO there VALUES (1, 1, 1), (1, 2, 1)");
    assert_int_equal(raised(NULL, "there", id, count), 0);
    assert_int_equal(raised("beside", "there", id, count), 0);
    app_exec(g.app, "CREATE UNIQUE INDEX beside.one ON there (n)");
    assert_int_equal(raised(NULL, "there", (sqlock_column){"n", sqlock_int(2), NULL}, count), 1);
}

/* What SQLite itself would take: temp before main before what was attached. */
TEST_AFTER(set_row_stage, test_table_without_a_schema_is_the_one_that_sqlite_takes)
{
    sqlock_column id = {"id", sqlock_int(1), NULL};
    static const char count[] = "SELECT count(*) FROM x WHERE version = 2";

    app_exec(g.app, "ATTACH ':memory:' AS beside;"
                    "CREATE TABLE beside.x (id INTEGER PRIMARY KEY, version INTEGER);"
                    "INSERT INTO beside.x VALUES (1, 1)");
    assert_int_equal(raised(NULL, "x", id, count), 1);
    app_exec(g.app, "CREATE TABLE main.x (id INTEGER, version INTEGER)"); /* no key */
    assert_int_equal(raised(NULL, "x", id, count), 0);
    app_exec(g.app, "CREATE TABLE temp.x (id INTEGER PRIMARY KEY, version INTEGER);"
                    "INSERT INTO temp.x VALUES (1, 1)");
    assert_int_equal(raised(NULL, "x", id, count), 1);
}

/* Our names of tables are UTF-8, whatever the file's texts are. */
TEST_AFTER(set_row_stage, test_table_is_found_in_a_file_of_utf_16)
{
    sqlock_column key = {"s", sqlock_text("\xC3\xA4"), NULL};
    sqlock_row row = {sizeof row, NULL, "\xC3\xA4", &key, 1};
    sqlock_row_version v = {.size = sizeof v, .column = "version", .expected = sqlock_int(1)};
    char url[600];
    sqlite3 *db;
    sqlock *m;
    sqlock_conn *conn;

    snprintf(url, sizeof url, "%s.utf16", g.w->place.url);
    assert_int_equal(sqlite3_open(strchr(url, ':') + 1, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA encoding = 'UTF-16';"
                                  "CREATE TABLE \xC3\xA4 (s TEXT UNIQUE, version INTEGER);"
                                  "INSERT INTO \xC3\xA4 VALUES ('\xC3\xA4', 1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    ok(sqlock_migrate(g.driver, url, NULL, NULL, &said));
    ok(sqlock_open(g.driver, url, NULL, &m, &said));
    ok(sqlock_adopt_sqlite(m, db, &conn, &said));
    assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    ok(sqlock_row_lock(conn, &row, 1, NULL, &said));
    ok(sqlock_cas_update(conn, &row, &v, NULL, 0, &said));
    assert_int_equal(v.found.i, 2);
    sqlock_conn_free(conn);
    sqlock_close(m);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Each statement that changes something gives a row then. */
TEST_AFTER(set_row_stage, test_application_may_have_its_changes_counted)
{
    sqlock_column id = {"id", sqlock_int(1), NULL};

    app_exec(g.app, "CREATE TABLE x (id INTEGER PRIMARY KEY, version INTEGER);"
                    "INSERT INTO x VALUES (1, 1); PRAGMA count_changes = 1");
    assert_int_equal(raised("main", "x", id, "SELECT count(*) FROM x WHERE version = 2"), 1);
    app_exec(g.app, "BEGIN");
    ok(lock_row(rs.conn, 1));
    ok(lock_row_name(rs.conn, "name", 0));
    app_exec(g.app, "COMMIT");
}

TEST_MAIN_ON(sqlite)
