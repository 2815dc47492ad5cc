/* P12 on PostgreSQL: which indexes make a key, and what a lock keeps out. */
#include <sqlock/postgres.h>

#include "tests/drivers/suite_rowlock.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/postgres_quirks.h"

/* Each is made, asked about, and gone again. */
static void send_of(const char *const *tables, size_t n, int expected)
{
    for (size_t i = 0; i < n; i++) {
        app_exec(g.app, "BEGIN", tables[i]);
        if (lock_row_by("x", "k", sqlock_int(1)) != expected)
            fail_msg("%s: %s", tables[i], said.text);
        app_exec(g.app, "ROLLBACK");
    }
}

TEST_AFTER(set_row_stage, test_only_a_unique_index_of_all_rows_makes_a_key)
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

    send_of(good, sizeof good / sizeof *good, SQLOCK_ABSENT);
    send_of(bad, sizeof bad / sizeof *bad, SQLOCK_EREFUSED);
}

/* An index that was never finished (CREATE INDEX CONCURRENTLY) holds not all rows. */
TEST_AFTER(set_row_stage, test_invalid_index_is_no_key)
{
    app_exec(g.app, "CREATE TABLE x (k int)", "INSERT INTO x VALUES (1), (1)");
    assert_false(g.side->exec(g.app, "CREATE UNIQUE INDEX CONCURRENTLY ON x (k)"));
    app_exec(g.app, "BEGIN");
    says(SQLOCK_EREFUSED, lock_row_by("x", "k", sqlock_int(1)));
}

/* The table is another one when the path has changed: it has no key. */
TEST_AFTER(set_row_stage, test_search_path_is_followed)
{
    app_exec(g.app, "CREATE TABLE x (k int PRIMARY KEY)", "BEGIN");
    assert_int_equal(lock_row_by("x", "k", sqlock_int(1)), SQLOCK_ABSENT);
    app_exec(g.app, "CREATE SCHEMA \"of others\"", "CREATE TABLE \"of others\".x (k int)");
    app_exec(g.app, "SET LOCAL search_path = \"of others\"");
    says(SQLOCK_EREFUSED, lock_row_by("x", "k", sqlock_int(1)));
}

TEST_AFTER(set_row_stage, test_bytes_are_for_bytea_and_nothing_else)
{
    app_exec(g.app, "CREATE TABLE x (k bytea PRIMARY KEY, i int UNIQUE)");
    app_exec(g.app, "INSERT INTO x VALUES ('\\x610062', 5)", "BEGIN");
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

TEST_AFTER(set_row_stage, test_children_wait_unless_the_key_is_kept)
{
    app_exec(g.app, "CREATE TABLE app_child (id int REFERENCES app_row)");
    assert_true(children_wait(0));
    assert_false(children_wait(SQLOCK_ROW_KEEPS_KEY));
}

/* Deleted and made anew by the transaction that was waited for: it is there. A statement that waits
 * finds no row then. */
TEST_AFTER(set_row_stage, test_row_that_was_made_anew_during_the_wait_is_found)
{
    PGconn *other = ((struct postgres_app_conn *)rs.other_app)->pg;

    app_exec(rs.other_app, "BEGIN", "DELETE FROM app_row WHERE id = 1");
    app_exec(rs.other_app, "INSERT INTO app_row VALUES (1, 77)");
    assert_int_equal(PQsendQuery(other, "SELECT pg_sleep(0.3); COMMIT"), 1);
    app_exec(g.app, "BEGIN");
    ok(lock_row_with(rs.conn, 1, 0, patience_ms(10000)));
    assert_int_equal(seen_by(g.app), 77);
}

TEST_AFTER(set_row_stage, test_right_that_is_missing_is_reported)
{
    app_exec(g.app, "BEGIN", "CREATE ROLE sqlock_reader_of_rows");
    app_exec(g.app, "GRANT SELECT ON app_row TO sqlock_reader_of_rows");
    app_exec(g.app, "SET LOCAL ROLE sqlock_reader_of_rows");
    assert_true(lock_row_by("app_row", "id", sqlock_int(1)) < 0);
    assert_true(said.code == SQLOCK_EDENIED || said.code == SQLOCK_EREFUSED);
}

/* lock_timeout is for each wait, and not ours; statement_timeout is the application's last word. */
TEST_AFTER(set_row_stage, test_timeouts_of_the_application_are_kept_apart)
{
    app_exec(rs.other_app, "BEGIN", "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(g.app, "BEGIN", "SET LOCAL lock_timeout = '100ms'");
    assert_takes(500, 500 + patience_ms(2000),
                 says(SQLOCK_EBUSY, lock_row_with(rs.conn, 1, 0, 500)));
    app_exec(g.app, "SET LOCAL lock_timeout = 0", "SET LOCAL statement_timeout = '200ms'");
    says(SQLOCK_EDB, lock_row_with(rs.conn, 1, 0, SQLOCK_WAIT_FOREVER));
    assert_string_equal(said.sqlstate, "57014");
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
}

/* A manager whose role has no rights but those that sqlock needs. The number is told to everybody,
 * the rest of another role's session is its own. */
TEST_AFTER(set_row_stage, test_blocker_is_reported_by_number_to_a_role_without_rights)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_blocker b = {.size = sizeof b};
    char url[600];
    sqlock_conn *conn;
    sqlock *m = NULL;
    const char *schema = g.w->place.schema;

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
    let_go(conn);
    sqlock_close(m);
    pg_exec("DROP OWNED BY %s_modest; DROP ROLE %s_modest", schema, schema);
}

/* P18. A policy lets everybody read the row, and its owner alone lock it. */
TEST_AFTER(set_row_stage, test_row_that_a_policy_keeps_is_refused_and_not_called_busy)
{
    char role[80], sql[1000];
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_policy", &key, 1};

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

TEST_MAIN_ON(postgres)
