/* P13: compare and set on a row of the application's own table, in its own transaction. */
#include <sqlock/cas.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/drivers/suite_guest.h"

enum { REQUEST_MS = 400, BIG = 1000 };

/* A table of offers. Number 1 has the price 10 and the version 1000, number 2 no version. */
static struct stage {
    sqlock *m;
    sqlock_conn *conn;
    void *other; /* somebody else's connection */
    sqlock_row_version version;
    sqlock_error err;
} s;

static void set_stage(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    begin_app(state);
    o.request_ms = REQUEST_MS;
    app_exec(g.app, "CREATE TABLE app_offer (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, "
                    "note VARCHAR(99), version BIGINT, code INTEGER UNIQUE, small SMALLINT)");
    app_exec(g.app, "INSERT INTO app_offer (id, price, version, code) VALUES (1, 10, 1000, 7)");
    app_exec(g.app, "INSERT INTO app_offer (id, price, code) VALUES (2, 20, 9)");
    s.m = open_manager(g.w, &o);
    s.conn = adopted(s.m, g.app);
    s.other = app_connect_impatient();
}

static void strike_stage(void)
{
    sqlock_conn_free(s.conn);
    s.conn = NULL;
    end_guest();
}

static sqlock_row_version *expect(sqlock_value expected)
{
    s.version = (sqlock_row_version){sizeof s.version, 0, "version", expected, sqlock_null()};
    return &s.version;
}

static int set_price(sqlock_conn *conn, int64_t id, sqlock_value expected, int64_t price)
{
    sqlock_column key = {"id", sqlock_int(id), NULL};
    sqlock_column set = {"price", sqlock_int(price), NULL};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};

    return sqlock_cas_update(conn, &row, expect(expected), &set, 1, &s.err);
}

static int erase(int64_t id, sqlock_value expected)
{
    sqlock_column key = {"id", sqlock_int(id), NULL};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};

    return sqlock_cas_delete(s.conn, &row, expect(expected), &s.err);
}

static int insert(int64_t id, int64_t code)
{
    sqlock_column key = {"id", sqlock_int(id), NULL};
    sqlock_column set[] = {{"price", sqlock_int(77), NULL}, {"code", sqlock_int(code), NULL}};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};

    return sqlock_cas_insert(s.conn, &row, expect(sqlock_null()), set, 2, &s.err);
}

static int64_t price_of(void *app, int64_t id)
{
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT price FROM app_offer WHERE id = %d", (int)id);
    return app_number(app, sql);
}

static int64_t version_of(void *app, int64_t id)
{
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT version FROM app_offer WHERE id = %d", (int)id);
    return app_number(app, sql);
}

static void found(int64_t version)
{
    assert_int_equal(s.version.found.type, SQLOCK_INT);
    assert_true(s.version.found.i == version);
}

/* ---- what it says -----------------------------------------------------------------------------
 */

static void test_row_is_changed_only_from_its_expected_version(void **state)
{
    int64_t version = 1000;

    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++, version++) {
        go_in(g.app, way);
        s.err.code = 12345;
        assert_int_equal(set_price(s.conn, 1, sqlock_int(version - 1), 66), SQLOCK_CONFLICT);
        found(version);
        assert_int_equal(set_price(s.conn, 1, sqlock_null(), 66), SQLOCK_CONFLICT);
        assert_int_equal(set_price(s.conn, 9, sqlock_int(version), 66), SQLOCK_ABSENT);
        assert_int_equal(s.err.code, 12345); /* they are no errors */
        assert_int_equal(price_of(g.app, 1), 10);
        assert_ok(set_price(s.conn, 1, sqlock_int(version), 11), &s.err);
        found(version + 1);
        assert_int_equal(price_of(g.app, 1), 11);
        assert_int_equal(set_price(s.conn, 1, sqlock_int(version), 12), SQLOCK_CONFLICT);
        assert_ok(set_price(s.conn, 1, sqlock_int(version + 1), 10), &s.err); /* once more */
        go_out(g.app, way, "ROLLBACK");
        assert_int_equal(version_of(g.app, 1), version);
        go_in(g.app, way);
        assert_ok(set_price(s.conn, 1, sqlock_int(version), 10), &s.err); /* the same price */
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(version_of(s.other, 1), version + 1);
    }
    strike_stage();
}

/* Whatever the level: nobody is told to read again where reading shows the old version for ever. */
static void test_conflict_is_told_only_where_reading_again_helps(void **state)
{
    int conflicts = 0, restarts = 0;

    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        int64_t version, now;
        int rc;

        go_in(g.app, way);
        version = version_of(g.app, 1);
        if (!g.side->exec(s.other,
                          "UPDATE app_offer SET price = 5, version = version + 1 WHERE id = 1")) {
            assert_ok(set_price(s.conn, 1, sqlock_int(version), 11), &s.err);
            go_out(g.app, way, "ROLLBACK");
            continue;
        }
        rc = set_price(s.conn, 1, sqlock_int(version), 11);
        if (rc == SQLOCK_CONFLICT) {
            conflicts++;
            found(version + 1);
            assert_int_equal(version_of(g.app, 1), version + 1);
            assert_ok(set_price(s.conn, 1, sqlock_int(version + 1), 11), &s.err);
        } else {
            restarts++;
            assert_code(SQLOCK_ETXRESTART, rc, &s.err);
        }
        go_out(g.app, way, "ROLLBACK");
        now = version_of(s.other, 1);
        assert_int_equal(now, version + 1);
        go_in(g.app, way); /* begun again, it succeeds */
        assert_int_equal(set_price(s.conn, 1, sqlock_int(version), 11), SQLOCK_CONFLICT);
        assert_ok(set_price(s.conn, 1, s.version.found, 11), &s.err);
        go_out(g.app, way, "ROLLBACK");
    }
    assert_true(conflicts + restarts > 0 || (g.driver->caps & SQLOCK_CAP_ONE_WRITER));
    strike_stage();
}

/* The same for a row that came, or went, behind the snapshot's back. */
static void test_row_that_a_snapshot_does_not_know_of_is_no_conflict(void **state)
{
    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        int rc;

        go_in(g.app, way);
        version_of(g.app, 1);
        if (g.side->exec(s.other, "DELETE FROM app_offer WHERE id = 2") &&
            g.side->exec(s.other, "INSERT INTO app_offer (id, price, version) VALUES (3, 3, 3)")) {
            rc = set_price(s.conn, 2, sqlock_null(), 1);
            if (rc != SQLOCK_ABSENT)
                assert_code(SQLOCK_ETXRESTART, rc, &s.err);
            else
                assert_int_equal(price_of(g.app, 2), -1); /* it sees that, too */
            if (rc == SQLOCK_ABSENT) {                    /* else the transaction may have ended */
                rc = insert(3, 8);
                if (rc != SQLOCK_CONFLICT)
                    assert_code(SQLOCK_ETXRESTART, rc, &s.err);
                else
                    assert_int_equal(version_of(g.app, 3), 3);
            }
        }
        go_out(g.app, way, "ROLLBACK");
        app_exec(s.other, "DELETE FROM app_offer WHERE id IN (2, 3)");
        app_exec(s.other, "INSERT INTO app_offer (id, price) VALUES (2, 20)");
    }
    strike_stage();
}

static void test_missing_version_is_a_version(void **state)
{
    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    assert_int_equal(set_price(s.conn, 2, sqlock_int(0), 1), SQLOCK_CONFLICT);
    assert_int_equal(s.version.found.type, SQLOCK_NULL);
    assert_ok(set_price(s.conn, 2, sqlock_null(), 21), &s.err);
    assert_int_equal(s.version.found.type, SQLOCK_INT);
    assert_true(s.version.found.i > 0 && s.version.found.i <= INT64_C(1) << 52);
    assert_int_equal(set_price(s.conn, 2, sqlock_null(), 1), SQLOCK_CONFLICT);
    assert_ok(set_price(s.conn, 2, s.version.found, 22), &s.err);
    assert_int_equal(price_of(g.app, 2), 22);
    app_exec(g.app, "COMMIT");
    strike_stage();
}

/* Deleted and inserted, a row is another one: who read the first must not change the second. */
static void test_deleted_rows_versions_do_not_come_back(void **state)
{
    int64_t first;

    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        assert_int_equal(erase(1, sqlock_int(999)), SQLOCK_CONFLICT);
        assert_int_equal(erase(9, sqlock_int(1000)), SQLOCK_ABSENT);
        assert_ok(erase(1, sqlock_int(1000)), &s.err);
        found(1000);
        assert_int_equal(erase(1, sqlock_int(1000)), SQLOCK_ABSENT);
        assert_ok(insert(1, 70), &s.err);
        first = s.version.found.i;
        assert_int_equal(version_of(g.app, 1), first);
        assert_ok(erase(1, sqlock_int(first)), &s.err);
        assert_ok(insert(1, 70), &s.err);
        assert_true(first != s.version.found.i);
        assert_int_equal(set_price(s.conn, 1, sqlock_int(first), 1), SQLOCK_CONFLICT);
        go_out(g.app, way, "ROLLBACK");
    }
    strike_stage();
}

static void test_insert_meets_a_row_of_its_key_or_of_another(void **state)
{
    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        assert_int_equal(insert(1, 8), SQLOCK_CONFLICT);
        found(1000);
        assert_int_equal(insert(2, 8), SQLOCK_CONFLICT);
        assert_int_equal(s.version.found.type, SQLOCK_NULL);
        assert_code(SQLOCK_EDB, insert(3, 7), &s.err); /* code 7 is number 1's */
        assert_ok(insert(3, 8), &s.err);
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(price_of(s.other, 3), 77);
        app_exec(s.other, "DELETE FROM app_offer WHERE id = 3");
    }
    strike_stage();
}

/* ---- values, expressions, names ---------------------------------------------------------------
 */

static int assign_from(int64_t version, sqlock_column set)
{
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};

    return sqlock_cas_update(s.conn, &row, expect(sqlock_int(version)), &set, 1, &s.err);
}

static int assign(const char *column, sqlock_value value, const char *expression)
{
    return assign_from(version_of(g.app, 1), (sqlock_column){column, value, expression});
}

static void test_assignments_are_values_or_expressions(void **state)
{
    static const char hostile[] = "'); DROP TABLE app_offer; -- \\' \" ` ? $1 {table} {next}";
    char *note;

    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    assert_ok(assign("price", sqlock_null(), "price * 2 + 1"), &s.err);
    assert_int_equal(price_of(g.app, 1), 21);
    assert_ok(assign("note", sqlock_text(hostile), NULL), &s.err);
    note = g.side->ask(g.app, "SELECT note FROM app_offer WHERE id = 1");
    assert_string_equal(note, hostile);
    free(note);
    assert_ok(assign("note", sqlock_null(), NULL), &s.err);
    assert_null(g.side->ask(g.app, "SELECT note FROM app_offer WHERE id = 1"));
    assert_ok(assign("note", sqlock_text(""), NULL), &s.err);
    assert_int_equal(version_of(g.app, 1), 1004);
    app_exec(g.app, "COMMIT");
    strike_stage();
}

static void test_arguments_are_judged_before_anything_is_sent(void **state)
{
    static char long_name[65537];
    sqlock_column key = {"id", sqlock_int(1), NULL}, set = {"price", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};
    sqlock_row_version v, bad[5];
    const char *const names[] = {"", "\n", "\xFF", "a\xC3", long_name, NULL};

    set_stage(state);
    memset(long_name, 'x', sizeof long_name - 1);
    app_exec(g.app, g.side->begins[0]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        v = *expect(sqlock_int(1000));
        v.column = names[i];
        assert_code(SQLOCK_EINVAL, sqlock_cas_update(s.conn, &row, &v, NULL, 0, &s.err), &s.err);
        assert_code(SQLOCK_EINVAL, assign(names[i], sqlock_int(1), NULL), &s.err);
    }
    assert_code(SQLOCK_EINVAL, assign("version", sqlock_int(1), NULL), &s.err);
    assert_code(SQLOCK_EINVAL, assign("VERSION", sqlock_int(1), NULL), &s.err);
    assert_code(SQLOCK_EINVAL, assign("Id", sqlock_int(1), NULL), &s.err);
    assert_code(SQLOCK_EINVAL, assign("price", sqlock_null(), " "), &s.err);
    assert_code(SQLOCK_EINVAL, assign("price", sqlock_null(), "1; DROP TABLE app_offer"), &s.err);
    if (g.driver->dialect->placeholder == '?')
        assert_code(SQLOCK_EINVAL, assign("price", sqlock_null(), "?"), &s.err);
    assert_code(SQLOCK_EINVAL, assign("price", sqlock_bytes(NULL, 3), NULL), &s.err);
    assert_code(SQLOCK_EINVAL, assign("price", (sqlock_value){(sqlock_type)9, 0, "", 0}, NULL),
                &s.err);
    for (size_t i = 0; i < 5; i++)
        bad[i] = *expect(sqlock_int(1000));
    bad[0].size = 0;
    bad[1].flags = 2;
    bad[2].expected = sqlock_text("1000");
    bad[3].column = "id";
    bad[4].column = NULL;
    for (size_t i = 0; i < 5; i++)
        assert_code(SQLOCK_EINVAL, sqlock_cas_update(s.conn, &row, &bad[i], &set, 1, &s.err),
                    &s.err);
    v = *expect(sqlock_int(1000));
    assert_code(SQLOCK_EINVAL, sqlock_cas_update(s.conn, &row, &v, NULL, 1, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_cas_update(s.conn, &row, NULL, NULL, 0, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_cas_update(s.conn, NULL, &v, NULL, 0, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_cas_update(NULL, &row, &v, NULL, 0, &s.err), &s.err);
    assert_ok(sqlock_cas_update(s.conn, &row, &v, NULL, 0, NULL), &s.err); /* raise it only */
    assert_int_equal(version_of(g.app, 1), 1001);
    app_exec(g.app, "COMMIT");
    strike_stage();
}

/* As the dialect writes a name. */
static void quote(char *out, const char *name)
{
    char q = g.driver->dialect->quote;

    *out++ = q;
    for (; *name != '\0'; *out++ = *name++)
        if (*name == q)
            *out++ = q;
    *out++ = q;
    *out = '\0';
}

static void test_hostile_names_name_what_they_say_and_nothing_else(void **state)
{
    static const char *const names[] = {
        "select",  "a b",         "a\"b`c'd", "x; DROP TABLE app_offer; --", "why?", "$1", "{next}",
        "/* a */", "caf\xC3\xA9", "A.b"};
    char table[80], key_name[80], version_name[80], note_name[80], sql[512];

    set_stage(state);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char id[40], ver[40], note[40];

        snprintf(id, sizeof id, "%s id", names[i]);
        snprintf(ver, sizeof ver, "%s v", names[i]);
        snprintf(note, sizeof note, "%s n", names[i]);
        quote(table, names[i]);
        quote(key_name, id);
        quote(version_name, ver);
        quote(note_name, note);
        snprintf(sql, sizeof sql, "CREATE TABLE %s (%s INTEGER PRIMARY KEY, %s BIGINT, %s INTEGER)",
                 table, key_name, version_name, note_name);
        app_exec(g.app, sql);

        sqlock_column key = {id, sqlock_int(1), NULL}, set = {note, sqlock_int(4), NULL};
        sqlock_row row = {sizeof row, NULL, names[i], &key, 1};

        expect(sqlock_null());
        s.version.column = ver;
        app_exec(g.app, g.side->begins[0]);
        assert_ok(sqlock_cas_insert(s.conn, &row, &s.version, &set, 1, &s.err), &s.err);
        assert_int_equal(sqlock_cas_insert(s.conn, &row, &s.version, &set, 1, &s.err),
                         SQLOCK_CONFLICT);
        s.version.expected = s.version.found;
        assert_ok(sqlock_cas_update(s.conn, &row, &s.version, &set, 1, &s.err), &s.err);
        assert_int_equal(sqlock_cas_update(s.conn, &row, &s.version, &set, 1, &s.err),
                         SQLOCK_CONFLICT);
        s.version.expected = s.version.found;
        assert_ok(sqlock_cas_delete(s.conn, &row, &s.version, &s.err), &s.err);
        app_exec(g.app, "COMMIT");
    }
    assert_int_equal(price_of(s.other, 1), 10);
    strike_stage();
}

/* ---- columns that are no versions -------------------------------------------------------------
 */

static int raise_in(const char *column, unsigned flags, sqlock_value expected)
{
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};

    expect(expected);
    s.version.column = column;
    s.version.flags = flags;
    return sqlock_cas_update(s.conn, &row, &s.version, NULL, 0, &s.err);
}

static void test_columns_that_cannot_count_are_refused(void **state)
{
    sqlock_column code = {"price", sqlock_int(10), NULL};
    sqlock_row by_price = {sizeof by_price, NULL, "app_offer", &code, 1};
    sqlock_row nowhere = {sizeof nowhere, NULL, "no_such_table", &code, 1};

    set_stage(state);
    app_exec(g.app, "UPDATE app_offer SET version = 9223372036854775807 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    assert_code(SQLOCK_EREFUSED, raise_in("note", 0, sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EREFUSED, raise_in("absent", 0, sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EREFUSED, raise_in("Version", 0, sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EREFUSED, raise_in("version", SQLOCK_CAS_TIMESTAMP, sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EREFUSED, raise_in("version", 0, sqlock_int(INT64_MAX)), &s.err);
    if (!(g.driver->caps & SQLOCK_CAP_ONE_WRITER))
        assert_code(SQLOCK_EREFUSED, raise_in("small", 0, sqlock_null()), &s.err);
    expect(sqlock_int(1));
    assert_code(SQLOCK_EREFUSED, sqlock_cas_update(s.conn, &by_price, &s.version, NULL, 0, &s.err),
                &s.err);
    assert_code(SQLOCK_EREFUSED, sqlock_cas_delete(s.conn, &nowhere, &s.version, &s.err), &s.err);
    assert_ok(set_price(s.conn, 2, sqlock_null(), 5), &s.err); /* the transaction goes on */
    app_exec(g.app, "COMMIT");
    assert_int_equal(price_of(s.other, 2), 5);
    strike_stage();
}

static void test_timestamps_rise_whatever_the_clock_says(void **state)
{
    char sql[200];
    int64_t version, before = 0;

    set_stage(state);
    if (g.side->timestamp == NULL) {
        app_exec(g.app, "CREATE TABLE app_stamp (id INTEGER PRIMARY KEY, version TIMESTAMP)");
        app_exec(g.app, "INSERT INTO app_stamp VALUES (1, '2026-01-01')");
    } else {
        snprintf(sql, sizeof sql,
                 "CREATE TABLE app_stamp (id INTEGER PRIMARY KEY, version %s NULL)",
                 g.side->timestamp);
        app_exec(g.app, sql);
        app_exec(g.app, "INSERT INTO app_stamp VALUES (1, NULL)");
    }

    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_stamp", &key, 1};

    app_exec(g.app, g.side->begins[0]);
    expect(sqlock_null());
    assert_code(SQLOCK_EREFUSED, sqlock_cas_update(s.conn, &row, &s.version, NULL, 0, &s.err),
                &s.err);
    s.version.flags = SQLOCK_CAS_TIMESTAMP;
    if (g.side->timestamp == NULL) {
        assert_code(SQLOCK_EREFUSED, sqlock_cas_update(s.conn, &row, &s.version, NULL, 0, &s.err),
                    &s.err);
        app_exec(g.app, "ROLLBACK");
        strike_stage();
        return;
    }
    snprintf(sql, sizeof sql, "SELECT %s FROM app_stamp WHERE id = 1", g.side->timestamp_read);
    for (int i = 0; i < 6; i++) {
        assert_ok(sqlock_cas_update(s.conn, &row, &s.version, NULL, 0, &s.err), &s.err);
        version = s.version.found.i;
        assert_true(version > before);
        assert_int_equal(app_number(g.app, sql), version);
        before = version;
        assert_int_equal(sqlock_cas_update(s.conn, &row, &s.version, NULL, 0, &s.err),
                         SQLOCK_CONFLICT);
        found(version);
        if (i == 3) { /* a clock far ahead has been here */
            app_exec(g.app, "UPDATE app_stamp SET version = '2099-12-31 23:59:59.999999'");
            before = version = app_number(g.app, sql);
        }
        s.version.expected = sqlock_int(version);
    }
    assert_int_equal(before, app_number(g.app, sql));
    app_exec(g.app, "COMMIT");
    strike_stage();
}

/* ---- a guest ----------------------------------------------------------------------------------
 */

static void test_nothing_is_done_without_a_fit_transaction(void **state)
{
    set_stage(state);
    assert_code(SQLOCK_ESTATE, set_price(s.conn, 1, sqlock_int(1000), 1), &s.err);
    app_exec(g.app, g.side->begins[0]);
    if (g.side->fails_whole) {
        assert_false(g.side->exec(g.app, OUR_WRONG));
        assert_code(SQLOCK_ESTATE, set_price(s.conn, 1, sqlock_int(1000), 1), &s.err);
        app_exec(g.app, "ROLLBACK");
        app_exec(g.app, g.side->begins[0]);
    }
    if (g.side->one_answer) {
        g.side->start_reading(g.app);
        assert_code(SQLOCK_ESTATE, set_price(s.conn, 1, sqlock_int(1000), 1), &s.err);
        assert_int_equal(g.side->read_rest(g.app), APP_ROWS - 1);
    }
    assert_ok(set_price(s.conn, 1, sqlock_int(1000), 12), &s.err);
    app_exec(g.app, "COMMIT");
    assert_int_equal(price_of(s.other, 1), 12);
    strike_stage();
}

static void test_failure_leaves_the_transaction_as_it_was(void **state)
{
    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
        assert_code(SQLOCK_EDB, assign("code", sqlock_int(9), NULL), &s.err); /* number 2's */
        assert_true(assign("price", sqlock_null(), "no_such_function(1)") < 0);
        assert_true(assign("price", sqlock_null(), ")") < 0);
        assert_true(assign("no_such_column", sqlock_int(1), NULL) < 0);
        assert_true(s.err.code != SQLOCK_ETXRESTART && s.err.code != SQLOCK_ETXGONE);
        assert_ok(set_price(s.conn, 1, sqlock_int(version_of(g.app, 1)), 12), &s.err);
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(price_of(s.other, 1), 12);
    }
    assert_int_equal(version_of(s.other, 1), 1000 + seen_by(s.other) - 10);
    strike_stage();
}

static void test_application_finds_its_session_as_it_was(void **state)
{
    char *settings, *last, *now;

    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        go_in(g.app, way);
        settings = g.side->settings(g.app);
        app_exec(g.app, "SAVEPOINT a");
        app_exec(g.app, "INSERT INTO app_row VALUES (2, 20), (3, 30)");
        last = g.side->last(g.app);
        assert_ok(insert(5, 50), &s.err);
        assert_int_equal(insert(5, 51), SQLOCK_CONFLICT);
        assert_ok(set_price(s.conn, 5, s.version.found, 1), &s.err);
        assert_int_equal(set_price(s.conn, 5, sqlock_int(0), 1), SQLOCK_CONFLICT);
        assert_code(SQLOCK_EDB, assign_from(1000, (sqlock_column){"code", sqlock_int(9), NULL}),
                    &s.err);
        now = g.side->last(g.app);
        app_exec(g.app, "ROLLBACK TO SAVEPOINT a");
        assert_string_equal(last, now);
        free(now);
        assert_int_equal(price_of(g.app, 5), -1);
        app_exec(g.app, "RELEASE SAVEPOINT a");
        now = g.side->settings(g.app);
        assert_string_equal(settings, now);
        free(settings);
        free(last);
        free(now);
        assert_true(go_out(g.app, way, "COMMIT"));
    }
    assert_int_equal(seen_by(s.other), 10);
    strike_stage();
}

/* ---- others at the same row -------------------------------------------------------------------
 */

static void *commit_soon(void *app)
{
    sleep_ms(REQUEST_MS / 4);
    app_exec(app, "COMMIT");
    return NULL;
}

/* It waits for whoever is changing the row, and then sees what they made of it. */
static void test_change_under_way_is_waited_for_and_then_compared(void **state)
{
    pthread_t t;
    int rc;

    set_stage(state);
    app_exec(s.other, g.side->begins[0]);
    app_exec(s.other, "UPDATE app_offer SET price = 5, version = version + 1 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    assert_int_equal(pthread_create(&t, NULL, commit_soon, s.other), 0);
    rc = set_price(s.conn, 1, sqlock_int(1000), 11);
    pthread_join(t, NULL);
    assert_int_equal(rc, SQLOCK_CONFLICT);
    found(1001);
    app_exec(g.app, "COMMIT");
    assert_int_equal(price_of(s.other, 1), 5);
    strike_stage();
}

static void test_row_that_stays_locked_is_given_up_in_time(void **state)
{
    int64_t before;

    set_stage(state);
    app_exec(s.other, g.side->begins[0]);
    app_exec(s.other, "UPDATE app_offer SET price = 5 WHERE id = 1");
    for (const struct way *way = g.side->ways; way->name; way++) {
        if (way->begin && strcmp(way->begin, "BEGIN IMMEDIATE") == 0)
            continue;
        go_in(g.app, way);
        before = sqlock_now_us();
        assert_code(SQLOCK_ETIMEOUT, set_price(s.conn, 1, sqlock_int(1000), 11), &s.err);
        assert_true(sqlock_now_us() - before >= REQUEST_MS * 1000 / 2);
        assert_true(sqlock_now_us() - before < (REQUEST_MS + patience_ms(2000)) * 1000);
        assert_int_equal(seen_by(g.app), 10); /* it goes on */
        go_out(g.app, way, "COMMIT");
    }
    app_exec(s.other, "ROLLBACK");
    strike_stage();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_row_is_changed_only_from_its_expected_version),
    cmocka_unit_test(test_conflict_is_told_only_where_reading_again_helps),
    cmocka_unit_test(test_row_that_a_snapshot_does_not_know_of_is_no_conflict),
    cmocka_unit_test(test_missing_version_is_a_version),
    cmocka_unit_test(test_deleted_rows_versions_do_not_come_back),
    cmocka_unit_test(test_insert_meets_a_row_of_its_key_or_of_another),
    cmocka_unit_test(test_assignments_are_values_or_expressions),
    cmocka_unit_test(test_arguments_are_judged_before_anything_is_sent),
    cmocka_unit_test(test_hostile_names_name_what_they_say_and_nothing_else),
    cmocka_unit_test(test_columns_that_cannot_count_are_refused),
    cmocka_unit_test(test_timestamps_rise_whatever_the_clock_says),
    cmocka_unit_test(test_nothing_is_done_without_a_fit_transaction),
    cmocka_unit_test(test_failure_leaves_the_transaction_as_it_was),
    cmocka_unit_test(test_application_finds_its_session_as_it_was),
    cmocka_unit_test(test_change_under_way_is_waited_for_and_then_compared),
    cmocka_unit_test(test_row_that_stays_locked_is_given_up_in_time),
};
PART(suite_cas, tests);
