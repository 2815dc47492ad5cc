/* Statements about the application's tables: whatever a name is, it stays a name. */
#include <string.h>

#include "core/sql/template.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

static const sqlock_dialect numbered = {.quote = '"', .placeholder = '$'};
static const sqlock_dialect positional = {.quote = '`', .placeholder = '?'};

static void check_name(const sqlock_dialect *d, const char *name, const char *expected)
{
    struct template m;

    template_begin(&m, d);
    template_name(&m, name);
    assert_int_equal(m.failed, 0);
    assert_string_equal(m.sql, expected);
    template_end(&m);
}

TEST(test_names_are_quoted_and_quotes_doubled)
{
    check_name(&numbered, "a", "\"a\"");
    check_name(&numbered, "select", "\"select\"");
    check_name(&numbered, "a\"; DROP TABLE x; --", "\"a\"\"; DROP TABLE x; --\"");
    check_name(&numbered, "\"", "\"\"\"\"");
    check_name(&numbered, "\"\"", "\"\"\"\"\"\"");
    check_name(&numbered, "a`b'c\\", "\"a`b'c\\\"");
    check_name(&positional, "a`b\"c", "`a``b\"c`");
    check_name(&positional, "`", "````");
}

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

TEST(test_too_many_values_are_told)
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

TEST_MAIN_EACH(NULL, NULL)
