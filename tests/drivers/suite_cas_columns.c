/* P13: which columns, values and names compare and set takes, and what it makes of them. */
#define SUITE_NEEDS ADOPTION
#include "tests/drivers/suite_cas.h"

TEST_AFTER(set_cas_stage, test_assignments_are_values_or_expressions)
{
    static const char hostile[] = "'); DROP TABLE app_offer; -- \\' \" ` ? $1 {table} {next}";
    char *note;

    app_exec(g.app, g.side->begins[0]);
    ok(assign("price", sqlock_null(), "price * 2 + 1"));
    assert_int_equal(price_of(g.app, 1), 21);
    ok(assign("note", sqlock_text(hostile), NULL));
    note = g.side->ask(g.app, "SELECT note FROM app_offer WHERE id = 1");
    assert_string_equal(note, hostile);
    free(note);
    ok(assign("note", sqlock_null(), NULL));
    assert_null(g.side->ask(g.app, "SELECT note FROM app_offer WHERE id = 1"));
    ok(assign("note", sqlock_text(""), NULL));
    assert_int_equal(version_of(g.app, 1), 1004);
    app_exec(g.app, "COMMIT");
}

TEST_AFTER(set_cas_stage, test_arguments_are_judged_before_anything_is_sent)
{
    static char long_name[65537];
    sqlock_column key = {"id", sqlock_int(1), NULL}, set = {"price", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_offer", &key, 1};
    sqlock_row_version v, bad[5];
    const char *const names[] = {"", "\n", "\xFF", "a\xC3", long_name, NULL};

    memset(long_name, 'x', sizeof long_name - 1);
    app_exec(g.app, g.side->begins[0]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        v = *expect_version(sqlock_int(1000));
        v.column = names[i];
        says(SQLOCK_EINVAL, sqlock_cas_update(cas.conn, &row, &v, NULL, 0, &said));
        says(SQLOCK_EINVAL, assign(names[i], sqlock_int(1), NULL));
    }
    says(SQLOCK_EINVAL, assign("version", sqlock_int(1), NULL));
    says(SQLOCK_EINVAL, assign("VERSION", sqlock_int(1), NULL));
    says(SQLOCK_EINVAL, assign("Id", sqlock_int(1), NULL));
    says(SQLOCK_EINVAL, assign("price", sqlock_null(), " "));
    says(SQLOCK_EINVAL, assign("price", sqlock_null(), "1; DROP TABLE app_offer"));
    /* a parameter would be given the value of another one */
    if (g.driver->dialect->placeholder == '?')
        says(SQLOCK_EINVAL, assign("price", sqlock_null(), "?"));
    else
        says(SQLOCK_EINVAL, assign("price", sqlock_null(), "$2 + 1"));
    if (strcmp(g.driver->name, "sqlite") == 0)
        says(SQLOCK_EINVAL, assign("price", sqlock_null(), ":n + 1"));
    /* what hides the rest of the statement changes all rows, on MySQL and SQLite */
    says(SQLOCK_EINVAL, assign("price", sqlock_null(), "price + 1 -- "));
    says(SQLOCK_EINVAL, assign("price", sqlock_null(), "price + 1 /*"));
    if (g.driver->dialect->quote == '`')
        says(SQLOCK_EINVAL, assign("price", sqlock_null(), "price + 1 #"));
    says(SQLOCK_EINVAL, assign("price", sqlock_bytes(NULL, 3), NULL));
    says(SQLOCK_EINVAL, assign("price", (sqlock_value){(sqlock_type)9, 0, "", 0}, NULL));
    for (size_t i = 0; i < 5; i++)
        bad[i] = *expect_version(sqlock_int(1000));
    bad[0].size = 0;
    bad[1].flags = 2;
    bad[2].expected = sqlock_text("1000");
    bad[3].column = "id";
    bad[4].column = NULL;
    for (size_t i = 0; i < 5; i++)
        says(SQLOCK_EINVAL, sqlock_cas_update(cas.conn, &row, &bad[i], &set, 1, &said));
    v = *expect_version(sqlock_int(1000));
    says(SQLOCK_EINVAL, sqlock_cas_update(cas.conn, &row, &v, NULL, 1, &said));
    says(SQLOCK_EINVAL, sqlock_cas_update(cas.conn, &row, NULL, NULL, 0, &said));
    says(SQLOCK_EINVAL, sqlock_cas_update(cas.conn, NULL, &v, NULL, 0, &said));
    says(SQLOCK_EINVAL, sqlock_cas_update(NULL, &row, &v, NULL, 0, &said));
    ok(sqlock_cas_update(cas.conn, &row, &v, NULL, 0, NULL)); /* raise it only */
    assert_int_equal(version_of(g.app, 1), 1001);
    app_exec(g.app, "COMMIT");
}

TEST_AFTER(set_cas_stage, test_hostile_names_name_what_they_say_and_nothing_else)
{
    static const char *const names[] = {
        "select",  "a b",         "a\"b`c'd", "x; DROP TABLE app_offer; --", "why?", "$1", "{next}",
        "/* a */", "caf\xC3\xA9", "A.b"};
    char table[80], key_name[80], version_name[80], note_name[80], sql[512];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char id[40], ver[40], note[40];

        snprintf(id, sizeof id, "%s id", names[i]);
        snprintf(ver, sizeof ver, "%s v", names[i]);
        snprintf(note, sizeof note, "%s n", names[i]);
        quote_name(table, names[i]);
        quote_name(key_name, id);
        quote_name(version_name, ver);
        quote_name(note_name, note);
        snprintf(sql, sizeof sql, "CREATE TABLE %s (%s INTEGER PRIMARY KEY, %s BIGINT, %s INTEGER)",
                 table, key_name, version_name, note_name);
        app_exec(g.app, sql);

        sqlock_column key = {id, sqlock_int(1), NULL}, set = {note, sqlock_int(4), NULL};
        sqlock_row row = {sizeof row, NULL, names[i], &key, 1};

        expect_version(sqlock_null());
        cas.version.column = ver;
        app_exec(g.app, g.side->begins[0]);
        ok(sqlock_cas_insert(cas.conn, &row, &cas.version, &set, 1, &said));
        assert_int_equal(sqlock_cas_insert(cas.conn, &row, &cas.version, &set, 1, &said),
                         SQLOCK_CONFLICT);
        cas.version.expected = cas.version.found;
        ok(sqlock_cas_update(cas.conn, &row, &cas.version, &set, 1, &said));
        assert_int_equal(sqlock_cas_update(cas.conn, &row, &cas.version, &set, 1, &said),
                         SQLOCK_CONFLICT);
        cas.version.expected = cas.version.found;
        ok(sqlock_cas_delete(cas.conn, &row, &cas.version, &said));
        app_exec(g.app, "COMMIT");
    }
    assert_int_equal(price_of(cas.other, 1), 10);
}

/* ---- columns of versions --------------------------------------------------------------------- */

static int raise_in(const char *column, unsigned flags, sqlock_value expected)
{
    expect_version(expected);
    cas.version.column = column;
    cas.version.flags = flags;
    return sqlock_cas_update(cas.conn, ROW("app_offer", 1), &cas.version, NULL, 0, &said);
}

TEST_AFTER(set_cas_stage, test_columns_that_cannot_count_are_refused)
{
    sqlock_column code = {"price", sqlock_int(10), NULL};
    sqlock_row by_price = {sizeof by_price, NULL, "app_offer", &code, 1};
    sqlock_row nowhere = {sizeof nowhere, NULL, "no_such_table", &code, 1};

    app_exec(g.app, "UPDATE app_offer SET version = 9223372036854775807 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    says(SQLOCK_EREFUSED, raise_in("note", 0, sqlock_int(1)));
    says(SQLOCK_EREFUSED, raise_in("absent", 0, sqlock_int(1)));
    says(SQLOCK_EREFUSED, raise_in("Version", 0, sqlock_int(1)));
    says(SQLOCK_EREFUSED, raise_in("version", SQLOCK_CAS_TIMESTAMP, sqlock_int(1)));
    says(SQLOCK_EREFUSED, raise_in("version", 0, sqlock_int(INT64_MAX)));
    if (!(g.driver->caps & SQLOCK_CAP_ONE_WRITER))
        says(SQLOCK_EREFUSED, raise_in("small", 0, sqlock_null()));
    expect_version(sqlock_int(1));
    says(SQLOCK_EREFUSED, sqlock_cas_update(cas.conn, &by_price, &cas.version, NULL, 0, &said));
    says(SQLOCK_EREFUSED, sqlock_cas_delete(cas.conn, &nowhere, &cas.version, &said));
    ok(set_price(cas.conn, 2, sqlock_null(), 5)); /* the transaction goes on */
    app_exec(g.app, "COMMIT");
    assert_int_equal(price_of(cas.other, 2), 5);
}

TEST_AFTER(set_cas_stage, test_timestamps_rise_whatever_the_clock_says)
{
    char sql[200];
    int64_t version, before = 0;

    if (g.side->timestamp == NULL) {
        app_exec(g.app, "CREATE TABLE app_stamp (id INTEGER PRIMARY KEY, version TIMESTAMP)");
        app_exec(g.app, "INSERT INTO app_stamp VALUES (1, '2026-01-01')");
    } else {
        snprintf(sql, sizeof sql,
                 "CREATE TABLE app_stamp (id INTEGER PRIMARY KEY, version %s NULL)",
                 g.side->timestamp);
        app_exec(g.app, sql, "INSERT INTO app_stamp VALUES (1, NULL)");
    }

    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_stamp", &key, 1};

    app_exec(g.app, g.side->begins[0]);
    expect_version(sqlock_null());
    says(SQLOCK_EREFUSED, sqlock_cas_update(cas.conn, &row, &cas.version, NULL, 0, &said));
    cas.version.flags = SQLOCK_CAS_TIMESTAMP;
    if (g.side->timestamp == NULL) {
        says(SQLOCK_EREFUSED, sqlock_cas_update(cas.conn, &row, &cas.version, NULL, 0, &said));
        app_exec(g.app, "ROLLBACK");
        return;
    }
    snprintf(sql, sizeof sql, "SELECT %s FROM app_stamp WHERE id = 1", g.side->timestamp_read);
    for (int i = 0; i < 6; i++) {
        ok(sqlock_cas_update(cas.conn, &row, &cas.version, NULL, 0, &said));
        version = cas.version.found.i;
        assert_true(version > before);
        assert_int_equal(app_number(g.app, sql), version);
        before = version;
        assert_int_equal(sqlock_cas_update(cas.conn, &row, &cas.version, NULL, 0, &said),
                         SQLOCK_CONFLICT);
        found_version(version);
        if (i == 3) { /* a clock far ahead has been here */
            app_exec(g.app, "UPDATE app_stamp SET version = '2099-12-31 23:59:59.999999'");
            before = version = app_number(g.app, sql);
        }
        cas.version.expected = sqlock_int(version);
    }
    assert_int_equal(before, app_number(g.app, sql));
    app_exec(g.app, "COMMIT");
}
