/* P12 and P13 on SQLite: a key is one row, whatever else has its index's name, and however the
 * table compares. */
#include <sqlock/cas.h>

#include "tests/drivers/suite_rowlock.h"
#include "tests/lib/sqlite_quirks.h"

/* Raise the version from 1 of the row of this key; how many rows were raised, as count tells. */
static int64_t raised(const char *schema, const char *table, sqlock_column key, const char *count,
                      int *out_rc)
{
    sqlock_row row = {sizeof row, schema, table, &key, 1};
    sqlock_row_version v = {.size = sizeof v, .column = "version", .expected = sqlock_int(1)};
    int64_t n;

    app_exec(g.app, "BEGIN IMMEDIATE");
    *out_rc = sqlock_cas_update(rs.conn, &row, &v, NULL, 0, &rs.err);
    n = app_number(g.app, count);
    app_exec(g.app, "ROLLBACK");
    return n;
}

/* To `=` both names are one, by the column's collation; to the index they are two. */
static void test_key_is_compared_as_its_index_compares(void **state)
{
    static const char *const makes[] = {
        "CREATE TABLE x (k TEXT COLLATE NOCASE, version INTEGER);"
        "CREATE UNIQUE INDEX x_k ON x (k COLLATE BINARY)",
        "CREATE TABLE x (k TEXT COLLATE NOCASE, version INTEGER, PRIMARY KEY (k COLLATE BINARY))",
        "CREATE TABLE x (k TEXT COLLATE NOCASE, version INTEGER, PRIMARY KEY (k COLLATE BINARY))"
        " WITHOUT ROWID",
    };
    int rc;

    set_row_stage(state);
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        app_exec(g.app, makes[i]);
        app_exec(g.app, "INSERT INTO x VALUES ('a', 1), ('A', 1)");
        assert_int_equal(raised("main", "x", (sqlock_column){"k", sqlock_text("a"), NULL},
                                "SELECT count(*) FROM x WHERE version = 2", &rc),
                         1);
        assert_ok(rc, &rs.err);
        app_exec(g.app, "DROP TABLE x");
    }
    strike_row_stage();
}

/* main.pair is unique on one column; the table's own index of that name, in the file that was
 * attached, on two. */
static void test_index_of_the_same_name_in_another_file_is_another(void **state)
{
    sqlock_column id = {"id", sqlock_int(1), NULL};
    static const char count[] = "SELECT count(*) FROM there WHERE version = 2";
    int rc;

    set_row_stage(state);
    app_exec(g.app, "CREATE TABLE here (id INTEGER); CREATE UNIQUE INDEX pair ON here (id);"
                    "ATTACH ':memory:' AS beside;"
                    "CREATE TABLE beside.there (id INTEGER, n INTEGER, version INTEGER);"
                    "CREATE UNIQUE INDEX beside.pair ON there (id, n);"
                    "INSERT INTO there VALUES (1, 1, 1), (1, 2, 1)");
    assert_int_equal(raised(NULL, "there", id, count, &rc), 0);
    assert_code(SQLOCK_EREFUSED, rc, &rs.err);
    assert_int_equal(raised("beside", "there", id, count, &rc), 0);
    assert_code(SQLOCK_EREFUSED, rc, &rs.err);
    app_exec(g.app, "CREATE UNIQUE INDEX beside.one ON there (n)");
    assert_int_equal(raised(NULL, "there", (sqlock_column){"n", sqlock_int(2), NULL}, count, &rc),
                     1);
    assert_ok(rc, &rs.err);
    strike_row_stage();
}

/* What SQLite itself would take: temp before main before what was attached. */
static void test_table_without_a_schema_is_the_one_that_sqlite_takes(void **state)
{
    sqlock_column id = {"id", sqlock_int(1), NULL};
    static const char count[] = "SELECT count(*) FROM x WHERE version = 2";
    int rc;

    set_row_stage(state);
    app_exec(g.app, "ATTACH ':memory:' AS beside;"
                    "CREATE TABLE beside.x (id INTEGER PRIMARY KEY, version INTEGER);"
                    "INSERT INTO beside.x VALUES (1, 1)");
    assert_int_equal(raised(NULL, "x", id, count, &rc), 1);
    app_exec(g.app, "CREATE TABLE main.x (id INTEGER, version INTEGER)"); /* no key */
    assert_int_equal(raised(NULL, "x", id, count, &rc), 0);
    assert_code(SQLOCK_EREFUSED, rc, &rs.err);
    app_exec(g.app, "CREATE TABLE temp.x (id INTEGER PRIMARY KEY, version INTEGER);"
                    "INSERT INTO temp.x VALUES (1, 1)");
    assert_int_equal(raised(NULL, "x", id, count, &rc), 1);
    assert_ok(rc, &rs.err);
    strike_row_stage();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_key_is_compared_as_its_index_compares),
    cmocka_unit_test(test_index_of_the_same_name_in_another_file_is_another),
    cmocka_unit_test(test_table_without_a_schema_is_the_one_that_sqlite_takes),
};

int main(void)
{
    return suite_run_tests(&sqlite_quirks, "sqlite_keys", tests, sizeof tests / sizeof *tests);
}
