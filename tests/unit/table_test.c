/* Tables of the application's: what of the catalogue's answers lets a key be used. */
#include <stdio.h>
#include <string.h>

#include "core/transaction/table.h"
#include "tests/lib/check.h"

/* A catalogue's answer, a cell each: outcome, index, column, letters. NULL ends it. */
struct line {
    int outcome;
    const char *index, *column, *fits;
};

static struct stage {
    sqlock m;
    sqlock_conn conn;
    sqlock_driver driver;
    sqlock_adopter adopter;
    sqlock_dialect dialect;
    sqlock_script scripts[SQLOCK_STMT_COUNT];
    sqlock_step step;
    const struct line *answer;
    int asked; /* the catalogue */
    char sql[512];
    size_t n_values;
    sqlock_error err;
} s;

static void put(sqlock_rows *rows, const char *text)
{
    if (text != NULL)
        sqlock_rows_put_bytes(rows, text, strlen(text));
    else
        sqlock_rows_put_null(rows);
}

static int run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
               sqlock_rows *rows, sqlock_error *err)
{
    (void)conn, (void)stmt, (void)values, (void)deadline, (void)err;
    s.asked++;
    for (const struct line *l = s.answer; l->outcome != 0; l++) {
        sqlock_rows_add(rows, 0);
        sqlock_rows_put_int(rows, 0);
        sqlock_rows_put_int(rows, l->outcome);
        put(rows, l->index);
        put(rows, l->column);
        put(rows, l->fits);
        sqlock_rows_put_int(rows, 1);
    }
    return 0;
}

static int run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                      int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    (void)conn, (void)values, (void)deadline, (void)rows, (void)err;
    assert_true(strlen(script->steps[0].sql) < sizeof s.sql);
    strcpy(s.sql, script->steps[0].sql);
    s.n_values = script->n_params;
    return 0;
}

static sqlock_tx_state tx_state(void *conn)
{
    (void)conn;
    return SQLOCK_TX_ACTIVE;
}

static void make_stage(const struct line *answer)
{
    sqlock_script *texts = s.scripts;

    memset(&s, 0, sizeof s);
    s.step.sql = "look at {table} by {key} where {match}";
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++)
        texts[i] = (sqlock_script){.name = "x", .params = "", .n_steps = 1, .steps = &s.step};
    s.dialect = (sqlock_dialect){.size = sizeof s.dialect,
                                 .name = "test",
                                 .quote = '"',
                                 .default_schema = "",
                                 .scripts = texts,
                                 .n_scripts = SQLOCK_STMT_COUNT,
                                 .placeholder = '$'};
    s.adopter = (sqlock_adopter){
        .size = sizeof s.adopter, .run = run, .run_script = run_script, .tx_state = tx_state};
    s.driver =
        (sqlock_driver){.size = sizeof s.driver, .dialect = &s.dialect, .adopter = &s.adopter};
    s.m.driver = &s.driver;
    s.conn.m = &s.m;
    s.answer = answer;
    assert_ok(texts_render(&s.dialect, NULL, NULL, &s.m.texts, &s.err), &s.err);
    s.conn.texts = s.m.texts;
}

static void strike_stage(void)
{
    table_forget(&s.conn);
    texts_free(s.m.texts);
}

static const struct line simple[] = {{1, "pk", "id", "i"}, {0}};

static int open_row(const char *schema, const sqlock_column *key, size_t n, struct table *t)
{
    static sqlock_row row;

    row = (sqlock_row){sizeof row, schema, "t", key, n};
    return table_open(&s.conn, &row, 0, t, &s.err);
}

static int open_with(const struct line *answer, const sqlock_column *key, size_t n)
{
    struct table t;
    int rc;

    make_stage(answer);
    rc = open_row("s", key, n, &t);
    strike_stage();
    return rc;
}

#define COLUMN(n, v)                                                                               \
    {                                                                                              \
        .name = (n), .value = {(v), 0, "x", 1 }                                                    \
    }

TEST(test_key_is_all_columns_of_one_index)
{
    static const struct line two[] = {{1, "a", "x", "i"},  {1, "b", "y", "i"}, {1, "b", "z", "i"},
                                      {1, "c", NULL, "i"}, {1, "c", "w", "i"}, {0}};
    static const struct line none[] = {{1, NULL, NULL, NULL}, {0}};
    sqlock_column x[] = {COLUMN("x", SQLOCK_INT)};
    sqlock_column y[] = {COLUMN("y", SQLOCK_INT)};
    sqlock_column zy[] = {COLUMN("z", SQLOCK_INT), COLUMN("y", SQLOCK_INT)};
    sqlock_column yx[] = {COLUMN("y", SQLOCK_INT), COLUMN("x", SQLOCK_INT)};
    sqlock_column upper[] = {COLUMN("X", SQLOCK_INT)};
    sqlock_column w[] = {COLUMN("w", SQLOCK_INT)};

    assert_int_equal(open_with(two, x, 1), 0);
    assert_int_equal(open_with(two, zy, 2), 0);
    assert_int_equal(open_with(two, y, 1), SQLOCK_EREFUSED);  /* a part of one */
    assert_int_equal(open_with(two, yx, 2), SQLOCK_EREFUSED); /* parts of two */
    assert_int_equal(open_with(two, upper, 1), SQLOCK_EREFUSED);
    assert_int_equal(open_with(two, w, 1),
                     SQLOCK_EREFUSED); /* beside something that is no column */
    assert_int_equal(open_with(none, x, 1), SQLOCK_EREFUSED);
    assert_int_equal(open_with(none + 1, x, 1), SQLOCK_EREFUSED); /* no such table */
}

TEST(test_catalogue_is_requested_once_for_a_named_schema)
{
    sqlock_column id[] = {COLUMN("id", SQLOCK_INT)};
    struct table t;

    make_stage(simple);
    for (int i = 0; i < 3; i++)
        assert_ok(open_row("s", id, 1, &t), &s.err);
    assert_int_equal(s.asked, 1);
    assert_string_equal(t.key.name, "pk");
    assert_ok(open_row("s2", id, 1, &t), &s.err);
    assert_int_equal(s.asked, 2);
    id[0].value.type = SQLOCK_TEXT; /* it is remembered, and does not fit */
    assert_code(SQLOCK_EREFUSED, open_row("s", id, 1, &t), &s.err);
    assert_int_equal(s.asked, 2);
    strike_stage();
}

/* The search path may have changed, the table have got an index. */
TEST(test_what_may_change_is_sent_again)
{
    sqlock_column id[] = {COLUMN("id", SQLOCK_INT)}, other[] = {COLUMN("other", SQLOCK_INT)};
    struct table t;

    make_stage(simple);
    for (int i = 0; i < 2; i++)
        assert_ok(open_row(NULL, id, 1, &t), &s.err);
    assert_int_equal(s.asked, 2);
    for (int i = 0; i < 2; i++)
        assert_code(SQLOCK_EREFUSED, open_row("s", other, 1, &t), &s.err);
    assert_int_equal(s.asked, 4);
    strike_stage();
}

TEST(test_memory_of_tables_is_bounded)
{
    sqlock_column id[] = {COLUMN("id", SQLOCK_INT)};
    struct table t;
    char schema[8];

    make_stage(simple);
    for (int i = 0; i < 100; i++) {
        snprintf(schema, sizeof schema, "s%d", i);
        assert_ok(open_row(schema, id, 1, &t), &s.err);
    }
    assert_int_equal(s.asked, 100);
    assert_ok(open_row("s99", id, 1, &t), &s.err);
    assert_ok(open_row("s80", id, 1, &t), &s.err);
    assert_int_equal(s.asked, 100);
    assert_ok(open_row("s0", id, 1, &t), &s.err);
    assert_int_equal(s.asked, 101);
    strike_stage();
}

static int check(const char *schema, const char *table, const sqlock_column *key, size_t n)
{
    sqlock_row row = {sizeof row, schema, table, key, n};

    return table_check(&row, &s.err);
}

TEST(test_names_that_cannot_be_are_refused_before_anything_is_sent)
{
    static char long_name[65537];
    const char *const bad[] = {"", "a\nb", "\x7F", "\xC3", "\xFF", "\xED\xA0\x80", long_name};
    sqlock_column good[] = {COLUMN("id", SQLOCK_INT)};

    memset(long_name, 'a', sizeof long_name - 1);
    assert_ok(check("s", "t", good, 1), &s.err);
    assert_ok(check(NULL, "a\"; DROP TABLE t; --", good, 1), &s.err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sqlock_column named[] = {COLUMN(bad[i], SQLOCK_INT)};

        assert_code(SQLOCK_EINVAL, check(bad[i], "t", good, 1), &s.err);
        assert_code(SQLOCK_EINVAL, check("s", bad[i], good, 1), &s.err);
        assert_code(SQLOCK_EINVAL, check("s", "t", named, 1), &s.err);
    }
    assert_code(SQLOCK_EINVAL, check("s", NULL, good, 1), &s.err);
    long_name[256] = '\0';
    assert_ok(check("s", long_name, good, 1), &s.err);
    long_name[256] = 'a';
}

TEST(test_keys_that_cannot_be_are_refused)
{
    sqlock_column twice[] = {COLUMN("id", SQLOCK_INT), COLUMN("id", SQLOCK_INT)};
    sqlock_column null[] = {COLUMN("id", SQLOCK_NULL)}, odd[] = {COLUMN("id", (sqlock_type)9)};
    sqlock_column no_data[] = {{.name = "id", .value = sqlock_bytes(NULL, 0)}};
    sqlock_column sql[] = {{.name = "id", .value = sqlock_int(1), .expression = "1"}};
    sqlock_row unsized = {0, "s", "t", odd, 1};

    assert_code(SQLOCK_EINVAL, check("s", "t", twice, 2), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", null, 1), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", odd, 1), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", no_data, 1), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", sql, 1), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", NULL, 1), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", twice, 0), &s.err);
    assert_code(SQLOCK_EINVAL, check("s", "t", twice, SQLOCK_KEY_MAX + 1), &s.err);
    assert_code(SQLOCK_EINVAL, table_check(&unsized, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, table_check(NULL, &s.err), &s.err);
}

TEST_MAIN_EACH(NULL, NULL)
