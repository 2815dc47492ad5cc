/* P12: which rows can be named to be locked, and what is refused, or never executed. */
#define SUITE_NEEDS GUARDS
#include "tests/drivers/suite_rowlock.h"

static void check_refused(const char *table, const char *column, sqlock_value value)
{
    says(SQLOCK_EREFUSED, lock_row_by(table, column, value));
    assert_int_equal(seen_by(g.app), 10); /* and the transaction goes on */
}

TEST_AFTER(set_row_stage, test_key_without_a_unique_index_is_refused)
{
    app_exec(g.app, "CREATE TABLE app_keys (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, "
                    "c INTEGER, UNIQUE (a, b))");
    app_exec(g.app, "CREATE INDEX app_keys_c ON app_keys (c)");
    app_exec(g.app, "CREATE VIEW app_view AS SELECT id FROM app_keys");
    app_exec(g.app, "INSERT INTO app_keys VALUES (1, 1, 1, 1)", g.side->begins[0]);
    ok(lock_row_by("app_keys", "id", sqlock_int(1)));
    check_refused("app_keys", "a", sqlock_int(1)); /* a part of one */
    check_refused("app_keys", "c", sqlock_int(1)); /* not unique */
    check_refused("app_keys", "nothing", sqlock_int(1));
    check_refused("app_view", "id", sqlock_int(1));
    check_refused("no_table", "id", sqlock_int(1));
    assert_non_null(strstr(said.text, "no_table"));
}

TEST_AFTER(set_row_stage, test_key_of_two_columns_is_one_row)
{
    sqlock_row_opts o = row_opts(0, 0);
    sqlock_column key[] = {{.name = "b", .value = sqlock_int(1)},
                           {.name = "a", .value = sqlock_int(2)}};
    sqlock_row row = {sizeof row, NULL, "app_two", key, 2};

    app_exec(g.app, "CREATE TABLE app_two (a INTEGER, b INTEGER, PRIMARY KEY (a, b))");
    app_exec(g.app, "INSERT INTO app_two VALUES (2, 1)", "INSERT INTO app_two VALUES (1, 2)");
    begin_both();
    ok(sqlock_row_lock(rs.conn, &row, 1, &o, &said));
    says(SQLOCK_EBUSY, sqlock_row_lock(rs.other, &row, 1, &o, &said));
    key[0].value.i = 2, key[1].value.i = 1;
    assert_int_equal(sqlock_row_lock(rs.other, &row, 1, &o, &said),
                     rs.one_writer ? SQLOCK_EBUSY : 0);
    key[0].value.i = 1;
    assert_int_equal(sqlock_row_lock(rs.conn, &row, 1, &o, &said), SQLOCK_ABSENT);
}

/* A table with one row, whose name and column are this. */
static void make_table_named(const char *name)
{
    char sql[512], quoted[160];

    quote_name(quoted, name);
    snprintf(sql, sizeof sql, "CREATE TABLE %s (%s INTEGER PRIMARY KEY)", quoted, quoted);
    app_exec(g.app, sql);
    snprintf(sql, sizeof sql, "INSERT INTO %s VALUES (1)", quoted);
    app_exec(g.app, sql);
}

/* All that a parser, ours or a server's, could stumble over. */
TEST_AFTER(set_row_stage, test_hostile_names_are_names)
{
    static const char *const names[] = {"order\"; DROP TABLE app_row; -- `?$1 {match} '\\ select",
                                        "/*each ,*/ ?/*end*/ {table} :name", "SELECT", "'", " x "};

    for (size_t i = 0; i < sizeof names / sizeof *names - (g.driver->dialect->quote == '`'); i++) {
        make_table_named(names[i]);
        begin_both();
        ok(lock_row_by(names[i], names[i], sqlock_int(1)));
        assert_int_equal(lock_row_by(names[i], names[i], sqlock_int(2)), SQLOCK_ABSENT);
        end_both("ROLLBACK");
    }
    begin_both();
    check_refused("app_row; DROP TABLE app_row", "id", sqlock_int(1));
    check_refused("app_row", "id\" = 1 OR \"id", sqlock_int(1));
    check_refused("app_row", "id` = 1 OR `id", sqlock_int(1));
    check_refused("app_row", "select", sqlock_int(1));
    end_both("ROLLBACK");
    assert_int_equal(seen_by(g.app), 10);
}

/* A name of 63 bytes, and one that is cut to it. */
TEST_AFTER(set_row_stage, test_name_is_not_cut_to_another_tables)
{
    char name[66], sql[160];

    memset(name, 'x', sizeof name - 1);
    name[63] = '\0';
    snprintf(sql, sizeof sql, "CREATE TABLE %s (id INTEGER PRIMARY KEY)", name);
    app_exec(g.app, sql, g.side->begins[0]);
    assert_int_equal(lock_row_by(name, "id", sqlock_int(1)), SQLOCK_ABSENT);
    name[63] = 'x';
    name[65] = '\0';
    check_refused(name, "id", sqlock_int(1));
}

TEST_AFTER(set_row_stage, test_values_are_never_executed)
{
    static const char hostile[] = "a'; DROP TABLE app_row; -- \\";

    app_exec(g.app, g.side->table_of_types, "INSERT INTO app_types (t) VALUES ('a')");
    app_exec(g.app, g.side->begins[0]);
    ok(lock_row_by("app_types", "t", sqlock_text("a")));
    assert_int_equal(lock_row_by("app_types", "t", sqlock_text(hostile)), SQLOCK_ABSENT);
    assert_int_equal(lock_row_by("app_types", "t", sqlock_text("")), SQLOCK_ABSENT);
    assert_int_equal(seen_by(g.app), 10);
}

TEST_WITH(CORE_TRIED, set_row_stage, test_arguments_are_checked)
{
    sqlock_column key[] = {{.name = "id", .value = sqlock_int(1)}};
    sqlock_row row = {sizeof row, NULL, "app_row", key, 1};
    sqlock_row_opts o = row_opts(0x80u, 0);

    app_exec(g.app, g.side->begins[0]);
    says(SQLOCK_EINVAL, sqlock_row_lock(rs.conn, &row, 1, &o, &said));
    o = row_opts(0, -2);
    says(SQLOCK_EINVAL, sqlock_row_lock(rs.conn, &row, 1, &o, &said));
    says(SQLOCK_EINVAL, sqlock_row_lock(rs.conn, &row, 0, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_row_lock(rs.conn, NULL, 1, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_row_lock(rs.conn, &row, SQLOCK_ROWS_MAX + 1, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_row_lock(NULL, &row, 1, NULL, &said));
    says(SQLOCK_EINVAL, lock_row_name(rs.conn, "", 0));
    says(SQLOCK_EINVAL, lock_row_name(rs.conn, "\xFF", 0));
    ok(sqlock_row_lock(rs.conn, &row, 1, NULL, NULL));
}
