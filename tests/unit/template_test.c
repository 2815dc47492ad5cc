/* Names in statements, of the library's tables and of the application's: a name stays a name. */
#include <string.h>

#include "core/sql/template.h"
#include "core/sql/texts.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

static const sqlock_dialect numbered = {.quote = '"', .placeholder = '$'};
static const sqlock_dialect positional = {.quote = '`', .placeholder = '?'};

/* What a server reads between the quotes, or -1 where it ends early. */
static int unquoted(const char *sql, char quote, char *out)
{
    size_t len = strlen(sql);

    if (len < 2 || sql[0] != quote || sql[len - 1] != quote)
        return -1;
    for (size_t i = 1; i < len - 1; i++) {
        if (sql[i] == quote && (i + 1 >= len - 1 || sql[++i] != quote))
            return -1;
        *out++ = sql[i];
    }
    *out = '\0';
    return 0;
}

TEST(test_any_name_is_read_back_as_it_was)
{
    static const char letters[] = "\"`'\\;{}?$-/* ab";
    struct dice d = dice_new("names");

    for (int i = 0; i < 20000; i++) {
        const sqlock_dialect *dialect = i % 2 ? &numbered : &positional;
        char name[24], back[24];
        size_t n = dice_below(&d, sizeof name - 1);
        struct template m;

        for (size_t k = 0; k < n; k++)
            name[k] = letters[dice_below(&d, sizeof letters - 1)];
        name[n] = '\0';
        template_begin(&m, dialect);
        template_name(&m, name);
        assert_int_equal(unquoted(m.sql, dialect->quote, back), 0);
        assert_string_equal(back, name);
        template_end(&m);
    }
}

static void put_hostile(struct template *m, const void *arg)
{
    template_name(m, arg);
}

static void put_seven(struct template *m, const void *arg)
{
    sqlock_value v = sqlock_int(7);

    (void)arg;
    template_value(m, &v);
}

static const struct template_word words[] = {{"{table}", put_hostile, "{seven} {table} ?"},
                                             {"{seven}", put_seven, NULL}};

TEST(test_words_are_written_out_once)
{
    struct template m;

    template_begin(&m, &numbered);
    template_from(&m, "{table} {seven}{seven} {other} { {seve", words, 2);
    assert_string_equal(m.sql, "\"{seven} {table} ?\" $1$2 {other} { {seve");
    assert_int_equal(m.n_values, 2);
    assert_int_equal(m.values[1].i, 7);
    template_end(&m);

    template_begin(&m, &positional);
    template_from(&m, "{seven} {table}", words, 2);
    assert_string_equal(m.sql, "? `{seven} {table} ?`");
    template_end(&m);
}

TEST(test_longest_texts_are_not_cut)
{
    char name[4001];
    struct template m;

    memset(name, '"', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    template_begin(&m, &numbered);
    for (int i = 0; i < 20; i++)
        template_column(&m, name, name);
    assert_int_equal(m.failed, 0);
    assert_int_equal(strlen(m.sql), 20 * (2 * (2 * 4000 + 2) + 1));
    assert_int_equal(strspn(m.sql, "\"."), strlen(m.sql));
    template_end(&m);
}

TEST(test_too_many_values_are_reported)
{
    struct template m;

    template_begin(&m, &numbered);
    for (int i = 0; i < TEMPLATE_VALUES; i++)
        put_seven(&m, NULL);
    assert_int_equal(m.failed, 0);
    put_seven(&m, NULL);
    assert_int_equal(m.failed, SQLOCK_EINVAL);
    template_end(&m);
}

/* ---- the library's own tables ---------------------------------------------------------------- */

static sqlock_dialect with_quote(char quote)
{
    return (sqlock_dialect){.size = sizeof(sqlock_dialect),
                            .name = "test",
                            .quote = quote,
                            .default_schema = quote == '"' ? "main" : "",
                            .fixed_schema = 0};
}

#define LONGEST_PREFIX "abcdefghijklmnopqrstuvwx"
#define LONGEST_SCHEMA "sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"

/* Without a schema the names are left to the default, or to the connection. What looks like a word
 * in one is not looked into again. */
TEST(test_names_of_our_tables_are_quoted_and_qualified)
{
    static const struct {
        char quote;
        const char *schema, *prefix, *text, *expected;
    } rows[] = {
        {'"', NULL, NULL, "{lock} {meta}", "\"main\".\"sqlock_lock\" \"main\".\"sqlock_meta\""},
        {'"', "My App", "app_", "{schema} {prefix} {row}",
         "\"My App\" app_ \"My App\".\"app_row\""},
        {'"', "s", "p", "{register:text} {migration}",
         "'\"s\".\"pregister\"' \"s\".\"pmigration\""},
        {'"', "{prefix}", "p", "{schema}.{lock}", "\"{prefix}\".\"{prefix}\".\"plock\""},
        {'"', LONGEST_SCHEMA, LONGEST_PREFIX, "{migration} {lock:text}",
         "\"" LONGEST_SCHEMA "\".\"" LONGEST_PREFIX "migration\" '\"" LONGEST_SCHEMA
         "\".\"" LONGEST_PREFIX "lock\"'"},
        {'`', "s", "p", "{lock} {schema}{lock:text}", "`s`.`plock` `s`'`s`.`plock`'"},
        {'`', NULL, "p", "{lock} {meta:text}", "`plock` '`pmeta`'"},
        {'"', "s", "p", "{}{{{loc{locks}{LOCK}'{1,2}'::int[]{ lock}", NULL},
        {'"', "s", "p", "{{prefix}}{prefix}{", "{p}p{"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sqlock_dialect d = with_quote(rows[i].quote);
        struct texts *r = NULL;
        sqlock_error err = {0};
        char *sql;

        assert_ok(texts_render(&d, rows[i].schema, rows[i].prefix, &r, &err), &err);
        assert_non_null(sql = texts_more(r, rows[i].text));
        assert_string_equal(sql, rows[i].expected ? rows[i].expected : rows[i].text);
        sqlock_mem_free(sql);
        texts_free(r);
    }
}

static void check_refused(const sqlock_dialect *d, const char *schema, const char *prefix)
{
    struct texts *r = NULL;
    sqlock_error err = {0};

    assert_code(SQLOCK_EINVAL, texts_render(d, schema, prefix, &r, &err), &err);
    assert_true(err.text[0] != '\0');
    assert_null(r);
    for (const char *p = err.text; *p != '\0'; p++)
        assert_true((unsigned char)*p >= 0x20);
}

TEST(test_names_of_our_tables_that_could_be_sql_are_refused)
{
    static const char *const schemas[] = {"",     "a\"b", "a'b",  "a`b",  "a;b",
                                          "a\\b", "a\nb", "\x7F", "\xC3", "a\"; DROP TABLE x; --"};
    static const char *const prefixes[] = {
        "", "A", "_a", "1a", "a-b", "a b", "a\"", "a\n", LONGEST_PREFIX "y"};
    sqlock_dialect d = with_quote('"');

    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        check_refused(&d, schemas[i], NULL);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        check_refused(&d, NULL, prefixes[i]);
    d.fixed_schema = 1;
    check_refused(&d, "elsewhere", NULL);
}

TEST_MAIN_EACH(NULL, NULL)
