/* P12 on PostgreSQL: which indexes make a key, and what a lock keeps out. */
#include <sqlock/postgres.h>
#include <stdio.h>
#include <string.h>

#include "tests/drivers/suite_rowlock.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/postgres_quirks.h"

/* Each is made, asked about, and gone again. */
static void ask_of(const char *const *tables, size_t n, int expected)
{
    for (size_t i = 0; i < n; i++) {
        app_exec(g.app, "BEGIN");
        app_exec(g.app, tables[i]);
        if (lock_row_by("x", "k", sqlock_int(1)) != expected)
            fail_msg("%s: %s", tables[i], said.text);
        app_exec(g.app, "ROLLBACK");
    }
}

static void test_only_a_unique_index_of_all_rows_makes_a_key(void **state)
{
    static const char *const good[] = {
        "CREATE TABLE x (k text UNIQUE)",
        "CREATE TABLE x (k int, v text); CREATE UNIQUE INDEX ON x (k) INCLUDE (v)",
        "CREATE TABLE x (k numeric PRIMARY KEY)",
        "CREATE TABLE x (k int PRIMARY KEY) PARTITION BY RANGE (k);"
        "CREATE TABLE x1 PARTITION OF x FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE x (k text COLLATE \"C\"); CREATE UNIQUE INDEX ON x (k)",
        "CREATE TEMP TABLE x (k int PRIMARY KEY)",
        "CREATE TABLE x (k int UNIQUE DEFERRABLE); CREATE UNIQUE INDEX ON x (k)",
    };
    static const char *const bad[] = {
        "CREATE TABLE x (k int); CREATE INDEX ON x (k)",
        "CREATE TABLE x (k int); CREATE UNIQUE INDEX ON x (k) WHERE k > 0",
        "CREATE TABLE x (k int); CREATE UNIQUE INDEX ON x ((k + 0))",
        "CREATE TABLE x (k int UNIQUE DEFERRABLE)",
        "CREATE TABLE x (k int, v int, PRIMARY KEY (k, v))",
        "CREATE TABLE x (k text); CREATE UNIQUE INDEX ON x (k COLLATE \"C\")",
        "CREATE TABLE x (k text); CREATE UNIQUE INDEX ON x (k text_pattern_ops)",
        "CREATE TABLE x (k int, EXCLUDE (k WITH =))",
        "CREATE TABLE x (k int PRIMARY KEY); CREATE TABLE y () INHERITS (x)",
        "CREATE TABLE y (k int PRIMARY KEY); CREATE VIEW x AS SELECT k FROM y",
        "CREATE TABLE y (k int PRIMARY KEY); CREATE MATERIALIZED VIEW x AS SELECT k FROM y;"
        "CREATE UNIQUE INDEX ON x (k)",
        "CREATE TABLE x (k int PRIMARY KEY);"
        "CREATE RULE r AS ON UPDATE TO x DO INSTEAD NOTHING",
        "CREATE TABLE x (k int PRIMARY KEY); ALTER TABLE x RENAME k TO \"K\"",
        "CREATE SEQUENCE x",
    };

    set_row_stage(state);
    ask_of(good, sizeof good / sizeof *good, SQLOCK_ABSENT);
    ask_of(bad, sizeof bad / sizeof *bad, SQLOCK_EREFUSED);
}

/* An index that was never finished (CREATE INDEX CONCURRENTLY) holds not all rows. */
static void test_invalid_index_is_no_key(void **state)
{
    set_row_stage(state);
    app_exec(g.app, "CREATE TABLE x (k int)");
    app_exec(g.app, "INSERT INTO x VALUES (1), (1)");
    assert_false(g.side->exec(g.app, "CREATE UNIQUE INDEX CONCURRENTLY ON x (k)"));
    app_exec(g.app, "BEGIN");
    says(SQLOCK_EREFUSED, lock_row_by("x", "k", sqlock_int(1)));
}

/* The table is another one when the path has changed: it has no key. */
static void test_search_path_is_followed(void **state)
{
    set_row_stage(state);
    app_exec(g.app, "CREATE TABLE x (k int PRIMARY KEY)");
    app_exec(g.app, "BEGIN");
    assert_int_equal(lock_row_by("x", "k", sqlock_int(1)), SQLOCK_ABSENT);
    app_exec(g.app, "CREATE SCHEMA \"of others\"");
    app_exec(g.app, "CREATE TABLE \"of others\".x (k int)");
    app_exec(g.app, "SET LOCAL search_path = \"of others\"");
    says(SQLOCK_EREFUSED, lock_row_by("x", "k", sqlock_int(1)));
}

static void test_bytes_are_for_bytea_and_nothing_else(void **state)
{
    set_row_stage(state);
    app_exec(g.app, "CREATE TABLE x (k bytea PRIMARY KEY, i int UNIQUE)");
    app_exec(g.app, "INSERT INTO x VALUES ('\\x610062', 5)");
    app_exec(g.app, "BEGIN");
    ok(lock_row_by("x", "k", sqlock_bytes("a\0b", 3)));
    assert_int_equal(lock_row_by("x", "k", sqlock_bytes("a", 1)), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED, lock_row_by("x", "k", sqlock_text("a")));
    says(SQLOCK_EREFUSED, lock_row_by("x", "i", sqlock_bytes("\0\0\0\5", 4)));
    ok(lock_row_by("x", "i", sqlock_text("5")));
    says(SQLOCK_EDB, lock_row_by("x", "i", sqlock_text("5 OR true")));
    assert_string_equal(said.sqlstate, "22P02");
    ok(lock_row_by("x", "i", sqlock_int(5))); /* it goes on */
}

/* 1: who inserts a row that refers to the locked one has to wait. */
static bool children_wait(unsigned flags)
{
    bool waited;

    app_exec(g.app, "BEGIN");
    ok(lock_row_with(rs.conn, 1, flags, 0));
    app_exec(rs.other_app, "SET lock_timeout = '100ms'");
    waited = !g.side->exec(rs.other_app, "INSERT INTO app_child VALUES (1)");
    assert_false(g.side->exec(rs.other_app, "UPDATE app_row SET n = 0 WHERE id = 1"));
    app_exec(g.app, "ROLLBACK");
    return waited;
}

static void test_children_wait_unless_the_key_is_kept(void **state)
{
    set_row_stage(state);
    app_exec(g.app, "CREATE TABLE app_child (id int REFERENCES app_row)");
    assert_true(children_wait(0));
    assert_false(children_wait(SQLOCK_ROW_KEEPS_KEY));
}

/* Deleted and made anew by the transaction that was waited for: it is there. A statement that waits
 * finds no row then. */
static void test_row_that_was_made_anew_during_the_wait_is_found(void **state)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    PGconn *other;

    set_row_stage(state);
    other = ((struct postgres_app_conn *)rs.other_app)->pg;
    app_exec(rs.other_app, "BEGIN");
    app_exec(rs.other_app, "DELETE FROM app_row WHERE id = 1");
    app_exec(rs.other_app, "INSERT INTO app_row VALUES (1, 77)");
    assert_int_equal(PQsendQuery(other, "SELECT pg_sleep(0.3); COMMIT"), 1);
    app_exec(g.app, "BEGIN");
    o.wait_ms = patience_ms(10000);
    ok(lock_row_opts(rs.conn, 1, &o));
    assert_int_equal(seen_by(g.app), 77);
}

static void test_right_that_is_missing_is_told(void **state)
{
    set_row_stage(state);
    app_exec(g.app, "BEGIN");
    app_exec(g.app, "CREATE ROLE sqlock_reader_of_rows");
    app_exec(g.app, "GRANT SELECT ON app_row TO sqlock_reader_of_rows");
    app_exec(g.app, "SET LOCAL ROLE sqlock_reader_of_rows");
    assert_true(lock_row_by("app_row", "id", sqlock_int(1)) < 0);
    assert_true(said.code == SQLOCK_EDENIED || said.code == SQLOCK_EREFUSED);
}

/* lock_timeout is for each wait, and not ours; statement_timeout is the application's last word. */
static void test_timeouts_of_the_application_are_kept_apart(void **state)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    int64_t began;

    set_row_stage(state);
    app_exec(rs.other_app, "BEGIN");
    app_exec(rs.other_app, "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(g.app, "BEGIN");
    app_exec(g.app, "SET LOCAL lock_timeout = '100ms'");
    o.wait_ms = 500;
    began = sqlock_now_us();
    says(SQLOCK_EBUSY, lock_row_opts(rs.conn, 1, &o));
    assert_in_range(sqlock_now_us() - began, 500000, 500000 + patience_ms(2000) * 1000);
    app_exec(g.app, "SET LOCAL lock_timeout = 0");
    app_exec(g.app, "SET LOCAL statement_timeout = '200ms'");
    o.wait_ms = SQLOCK_WAIT_FOREVER;
    says(SQLOCK_EDB, lock_row_opts(rs.conn, 1, &o));
    assert_string_equal(said.sqlstate, "57014");
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
}

/* A manager whose role has no rights but those that sqlock needs. The number is told to everybody,
 * the rest of another role's session is its own. */
static void test_blocker_is_told_by_number_to_a_role_without_rights(void **state)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_blocker b = {.size = sizeof b};
    const char *schema;
    char url[600];
    sqlock_conn *conn;
    sqlock *m = NULL;

    set_row_stage(state);
    schema = g.w->place.schema;
    pg_exec("CREATE ROLE %s_modest LOGIN", schema);
    pg_exec("GRANT USAGE ON SCHEMA %s TO %s_modest", schema, schema);
    pg_exec("GRANT SELECT, INSERT, UPDATE ON %s.sqlock_lock, %s.sqlock_meta TO %s_modest", schema,
            schema, schema);
    snprintf(url, sizeof url, "%s%cuser=%s_modest", pg_url(), strchr(pg_url(), '?') ? '&' : '?',
             schema);
    place_opts(g.w, &opts);
    ok(sqlock_open(sqlock_driver_postgres(), url, &opts, &m, &said));
    conn = adopted(m, g.app);
    app_exec(rs.other_app, "BEGIN; UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(g.app, "BEGIN");
    o.blocker = &b;
    for (o.wait_ms = 0; o.wait_ms <= 700; o.wait_ms += 700) {
        says(SQLOCK_EBUSY, lock_row_opts(conn, 1, &o));
        assert_int_equal(b.sessions, 1);
        assert_int_equal(b.session, app_number(rs.other_app, "SELECT pg_backend_pid()"));
        assert_int_equal(b.open_ms, -1);
        assert_non_null(strstr(b.text, "user "));
        assert_null(strstr(b.text, "idle"));
    }
    app_exec(g.app, "ROLLBACK");
    sqlock_conn_free(conn);
    sqlock_close(m);
    pg_exec("DROP OWNED BY %s_modest; DROP ROLE %s_modest", schema, schema);
}

/* P18. A policy lets everybody read the row, and its owner alone lock it. */
static void test_row_that_a_policy_keeps_is_refused_and_not_called_busy(void **state)
{
    char role[80], sql[1000];
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_policy", &key, 1};

    set_row_stage(state);
    snprintf(role, sizeof role, "%s_tenant", g.w->place.schema);
    snprintf(sql, sizeof sql,
             "CREATE ROLE %s; CREATE TABLE app_policy (id int PRIMARY KEY, owner name);"
             "INSERT INTO app_policy VALUES (1, 'other'), (2, '%s');"
             "ALTER TABLE app_policy ENABLE ROW LEVEL SECURITY;"
             "CREATE POLICY reads ON app_policy FOR SELECT USING (true);"
             "CREATE POLICY writes ON app_policy FOR UPDATE USING (owner = current_user);"
             "GRANT ALL ON app_policy TO %s; GRANT USAGE ON SCHEMA %s TO %s",
             role, role, role, g.w->place.schema, role);
    app_exec(g.app, sql);
    app_exec(rs.other_app, "BEGIN; SELECT 1 FROM app_policy WHERE id = 2 FOR UPDATE");
    snprintf(sql, sizeof sql, "BEGIN; SET LOCAL ROLE %s", role);
    app_exec(g.app, sql);
    for (o.wait_ms = 0; o.wait_ms <= 20; o.wait_ms += 20) {
        key.value.i = 1;
        says(SQLOCK_EREFUSED, sqlock_row_lock(rs.conn, &row, 1, &o, &said));
        key.value.i = 2;
        says(SQLOCK_EBUSY, sqlock_row_lock(rs.conn, &row, 1, &o, &said));
        key.value.i = 3;
        assert_int_equal(sqlock_row_lock(rs.conn, &row, 1, &o, &said), SQLOCK_ABSENT);
    }
    o.flags = SQLOCK_ROW_SKIP_LOCKED;
    key.value.i = 2;
    assert_int_equal(sqlock_row_lock(rs.conn, &row, 1, &o, &said), SQLOCK_CONFLICT);
    app_exec(rs.other_app, "ROLLBACK");
    ok(sqlock_row_lock(rs.conn, &row, 1, &o, &said));
    o.flags = SQLOCK_ROW_KEEPS_KEY;
    ok(sqlock_row_lock(rs.conn, &row, 1, &o, &said));
    app_exec(g.app, "ROLLBACK");
    pg_exec("DROP OWNED BY %s; DROP ROLE %s", role, role);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_row_that_a_policy_keeps_is_refused_and_not_called_busy),
    cmocka_unit_test(test_blocker_is_told_by_number_to_a_role_without_rights),
    cmocka_unit_test(test_timeouts_of_the_application_are_kept_apart),
    cmocka_unit_test(test_only_a_unique_index_of_all_rows_makes_a_key),
    cmocka_unit_test(test_invalid_index_is_no_key),
    cmocka_unit_test(test_search_path_is_followed),
    cmocka_unit_test(test_bytes_are_for_bytea_and_nothing_else),
    cmocka_unit_test(test_children_wait_unless_the_key_is_kept),
    cmocka_unit_test(test_row_that_was_made_anew_during_the_wait_is_found),
    cmocka_unit_test(test_right_that_is_missing_is_told),
};

TEST_MAIN_ON(postgres, tests)
