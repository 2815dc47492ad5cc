/* The dialects' texts, and the names that are put into them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sql/texts.h"
#include "tests/lib/check.h"

#ifdef TEST_HAVE_FAKE
extern const sqlock_dialect sqlock_fake_dialect;
#endif
#ifdef TEST_HAVE_SQLITE
extern const sqlock_dialect sqlock_sqlite_dialect;
#endif
#ifdef TEST_HAVE_POSTGRES
extern const sqlock_dialect sqlock_postgres_dialect;
#endif
#ifdef TEST_HAVE_MYSQL
extern const sqlock_dialect sqlock_mysql_dialect;
#endif

static const sqlock_dialect *const dialects[] = {
#ifdef TEST_HAVE_FAKE
    &sqlock_fake_dialect,
#endif
#ifdef TEST_HAVE_SQLITE
    &sqlock_sqlite_dialect,
#endif
#ifdef TEST_HAVE_POSTGRES
    &sqlock_postgres_dialect,
#endif
#ifdef TEST_HAVE_MYSQL
    &sqlock_mysql_dialect,
#endif
    NULL,
};
#define EACH_DIALECT(d)                                                                            \
    for (const sqlock_dialect *const *at_##d = dialects, *d; (d = *at_##d) != NULL; at_##d++)

/* What every dialect must have, by the list in driver.h. */
static const struct {
    const char *name, *params;
} blocks[] = {
#define BLOCK_ROW(id, block, params) {block, params},
    SQLOCK_STMTS(BLOCK_ROW)
#undef BLOCK_ROW
};

static struct texts *render(const sqlock_dialect *d, const char *schema, const char *prefix)
{
    struct texts *r = NULL;
    sqlock_error err = {0};

    assert_ok(texts_render(d, schema, prefix, &r, &err), &err);
    assert_non_null(r);
    return r;
}

static size_t count_words(const char *params)
{
    size_t n = *params != '\0';

    for (; *params != '\0'; params++)
        n += *params == ' ';
    return n;
}

/* ---- what the build made ----------------------------------------------------------------------
 */

TEST(test_every_dialect_has_every_request_of_driver_h)
{
    assert_non_null(dialects[0]);
    EACH_DIALECT(d)
    for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++) {
        const sqlock_script *s = &d->scripts[i];

        assert_string_equal(s->name, blocks[i].name);
        assert_string_equal(s->params, blocks[i].params);
        assert_int_equal(s->n_params, count_words(blocks[i].params));
        assert_true(s->n_steps > 0);
        assert_non_null(s->steps);
        assert_int_equal(s->array_steps != NULL, s->n_array_steps > 0);
    }
}

static void check_steps(const sqlock_script *s, const sqlock_step *steps, size_t n)
{
    unsigned write = 0;

    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(steps[i].sql);

        if (len == 0 || isspace((unsigned char)steps[i].sql[0]) ||
            isspace((unsigned char)steps[i].sql[len - 1]) || steps[i].sql[len - 1] == ';')
            fail_msg("%s, step %zu: empty, or with something around it", s->name, i + 1);
        /* a transaction that began goes on to the end of the script */
        if (write && !(steps[i].flags & SQLOCK_STEP_WRITE))
            fail_msg("%s, step %zu is outside of the transaction of those before", s->name, i + 1);
        write |= steps[i].flags & SQLOCK_STEP_WRITE;
        for (size_t k = 0; k < steps[i].n_order; k++)
            assert_true(steps[i].order[k] < s->n_params ||
                        (steps == s->array_steps && steps[i].order[k] == SQLOCK_ORDER_INDEX));
    }
}

TEST(test_steps_are_whole_and_writes_come_last)
{
    EACH_DIALECT(d)
    for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++) {
        check_steps(&d->scripts[i], d->scripts[i].steps, d->scripts[i].n_steps);
        check_steps(&d->scripts[i], d->scripts[i].array_steps, d->scripts[i].n_array_steps);
    }
}

/* Marks the parameters that a step uses, by number ($2, ?2) or by order. */
static void mark_params(const sqlock_script *s, const sqlock_step *step, bool *used)
{
    for (size_t i = 0; i < step->n_order; i++)
        used[step->order[i]] = true;
    if (step->order != NULL)
        return;
    for (const char *p = step->sql; *p != '\0'; p++) {
        unsigned long n;

        if ((*p != '$' && *p != '?') || !isdigit((unsigned char)p[1]))
            continue;
        n = strtoul(p + 1, NULL, 10);
        if (n < 1 || n > s->n_params)
            fail_msg("%s has no parameter number %lu", s->name, n);
        used[n - 1] = true;
    }
}

static void check_params(const sqlock_dialect *d, const sqlock_script *s, const sqlock_step *steps,
                         size_t n)
{
    bool used[SQLOCK_ORDER_INDEX + 1] = {false};

    assert_true(s->n_params < SQLOCK_ORDER_INDEX);
    for (size_t i = 0; i < n; i++)
        mark_params(s, &steps[i], used);
    for (size_t i = 0; n > 0 && i < s->n_params; i++)
        if (!used[i])
            fail_msg("%s: block %s does not use parameter %zu of \"%s\"", d->name, s->name, i + 1,
                     s->params);
}

TEST(test_every_block_uses_all_of_its_parameters)
{
    EACH_DIALECT(d)
    for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++) {
        check_params(d, &d->scripts[i], d->scripts[i].steps, d->scripts[i].n_steps);
        check_params(d, &d->scripts[i], d->scripts[i].array_steps, d->scripts[i].n_array_steps);
    }
}

TEST(test_migrations_rise_from_one_and_can_be_taken_back)
{
    EACH_DIALECT(d)
    {
        assert_int_equal(d->size, sizeof *d);
        assert_true(d->n_migrations > 0);
        for (size_t i = 0; i < d->n_migrations; i++) {
            const sqlock_migration *m = &d->migrations[i];

            assert_int_equal(m->version, i + 1);
            assert_true(m->name[0] != '\0');
            assert_int_equal(strspn(m->checksum, "0123456789abcdef"), 16);
            assert_int_equal(strlen(m->checksum), 16);
            assert_true(m->n_up > 0 && m->n_down > 0);
        }
    }
}

/* ---- rendering --------------------------------------------------------------------------------
 */

/* What is written out when it is asked for, about a table of the application's. */
static const char *const made[] = {"{table}",    "{match}",  "{key}",   "{name}", "{version}",
                                   "{expected}", "{next}",   "{first}", "{set}",  "{names}",
                                   "{arbiter}",  "{values}", "{there}", "{seen}", "{token}",
                                   "{column}",   "{start}"};

/* "{word}" or "{word:word}" at p. */
static bool is_template(const char *p)
{
    size_t n = 1 + strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_:");

    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (strncmp(p, made[i], strlen(made[i])) == 0)
            return false;
    return n > 1 && p[n] == '}';
}

static void check_rendered(const sqlock_dialect *d, const char *what, const char *sql)
{
    for (const char *p = sql; (p = strchr(p, '{')) != NULL; p++)
        if (is_template(p))
            fail_msg("%s, %s: a word is left: %.20s", d->name, what, p);
}

static void check_scripts(const sqlock_dialect *d, const struct texts *r)
{
    const sqlock_script *scripts = texts_scripts(r);

    for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++) {
        const sqlock_script *s = &scripts[i], *from = &d->scripts[i];

        assert_string_equal(s->name, from->name);
        assert_int_equal(s->n_params, from->n_params);
        assert_int_equal(s->n_steps, from->n_steps);
        assert_int_equal(s->n_array_steps, from->n_array_steps);
        for (size_t k = 0; k < s->n_steps; k++) {
            check_rendered(d, s->name, s->steps[k].sql);
            assert_int_equal(s->steps[k].flags, from->steps[k].flags);
            assert_ptr_equal(s->steps[k].order, from->steps[k].order);
        }
        for (size_t k = 0; k < s->n_array_steps; k++) {
            check_rendered(d, s->name, s->array_steps[k].sql);
            assert_int_equal(s->array_steps[k].flags, from->array_steps[k].flags);
        }
    }
}

static void check_migration(const sqlock_dialect *d, const struct texts *r,
                            const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *sql = texts_more(r, texts[i]);

        assert_non_null(sql);
        check_rendered(d, "migration", sql);
        sqlock_mem_free(sql);
    }
}

TEST(test_no_word_in_braces_is_left)
{
    EACH_DIALECT(d)
    {
        struct texts *r = render(d, NULL, NULL);

        check_scripts(d, r);
        for (size_t i = 0; i < d->n_migrations; i++) {
            check_migration(d, r, d->migrations[i].up, d->migrations[i].n_up);
            check_migration(d, r, d->migrations[i].down, d->migrations[i].n_down);
        }
        texts_free(r);
    }
}

static void check_text(const sqlock_dialect *d, const char *schema, const char *prefix,
                       const char *text, const char *expected)
{
    struct texts *r = render(d, schema, prefix);
    char *sql = texts_more(r, text);

    assert_non_null(sql);
    assert_string_equal(sql, expected);
    sqlock_mem_free(sql);
    texts_free(r);
}

static sqlock_dialect with_quote(char quote)
{
    sqlock_dialect d = *dialects[0];

    d.quote = quote;
    d.default_schema = "main";
    d.fixed_schema = 0;
    return d;
}

TEST(test_names_are_quoted_and_qualified)
{
    sqlock_dialect d = with_quote('"');

    check_text(&d, NULL, NULL, "{lock} {meta} {migration}",
               "\"main\".\"sqlock_lock\" \"main\".\"sqlock_meta\" \"main\".\"sqlock_migration\"");
    check_text(&d, "My App", "app_", "{schema} {prefix} {lock}",
               "\"My App\" app_ \"My App\".\"app_lock\"");
    check_text(&d, "s", "p", "{row} {register}", "\"s\".\"prow\" \"s\".\"pregister\"");
    check_text(&d, "s", "p", "{lock:text} {meta:text}", "'\"s\".\"plock\"' '\"s\".\"pmeta\"'");
    check_text(&d, "s", "p", "{row:text}{register:text}", "'\"s\".\"prow\"''\"s\".\"pregister\"'");
    d = with_quote('`');
    check_text(&d, "s", "p", "{lock} {schema}{lock:text}", "`s`.`plock` `s`'`s`.`plock`'");
}

TEST(test_texts_without_known_words_stay_as_they_are)
{
    sqlock_dialect d = with_quote('"');
    static const char *const texts[] = {
        "", "{", "}", "{}", "{{", "{loc", "{locks}", "{LOCK}", "'{1,2}'::int[]", "{ lock}"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(&d, "s", "p", texts[i], texts[i]);
    check_text(&d, "s", "p", "{{prefix}}{prefix}{", "{p}p{");
}

/* A schema may hold what looks like a word: it is a name, and is not looked into again. */
TEST(test_schema_that_looks_like_a_word_is_only_a_name)
{
    sqlock_dialect d = with_quote('"');

    check_text(&d, "{prefix}", "p", "{schema}.{lock}", "\"{prefix}\".\"{prefix}\".\"plock\"");
}

TEST(test_longest_names_are_not_cut)
{
    sqlock_dialect d = with_quote('"');
    const char *prefix = "abcdefghijklmnopqrstuvwx";
    char schema[64], expected[400];

    memset(schema, 's', sizeof schema - 1);
    schema[sizeof schema - 1] = '\0';
    snprintf(expected, sizeof expected, "\"%s\".\"%smigration\" '\"%s\".\"%slock\"'", schema,
             prefix, schema, prefix);
    check_text(&d, schema, prefix, "{migration} {lock:text}", expected);
}

TEST(test_default_schema_may_be_named)
{
    EACH_DIALECT(d)
    {
        const char *schema = d->default_schema[0] != '\0' ? d->default_schema : NULL;
        struct texts *by_default = render(d, NULL, NULL);
        struct texts *by_name = render(d, schema, "sqlock_");

        for (size_t i = 0; i < SQLOCK_STMT_COUNT; i++)
            for (size_t k = 0; k < texts_scripts(by_name)[i].n_steps; k++)
                assert_string_equal(texts_scripts(by_default)[i].steps[k].sql,
                                    texts_scripts(by_name)[i].steps[k].sql);
        texts_free(by_default);
        texts_free(by_name);
    }
    texts_free(NULL);
}

TEST(test_names_without_a_schema_are_left_to_the_connection)
{
    sqlock_dialect d = with_quote('`');

    d.default_schema = "";
    check_text(&d, NULL, "p", "{lock} {meta:text}", "`plock` '`pmeta`'");
    check_text(&d, "s", "p", "{lock} {meta:text}", "`s`.`plock` '`s`.`pmeta`'");
}

/* ---- refusal ----------------------------------------------------------------------------------
 */

static void check_refused(const sqlock_dialect *d, const char *schema, const char *prefix)
{
    struct texts *r = NULL;
    sqlock_error err = {0};

    assert_code(SQLOCK_EINVAL, texts_render(d, schema, prefix, &r, &err), &err);
    assert_int_equal(err.code, SQLOCK_EINVAL);
    assert_true(err.text[0] != '\0');
    assert_null(r);
    for (const char *p = err.text; *p != '\0'; p++)
        assert_true((unsigned char)*p >= 0x20);
    assert_int_equal(texts_render(d, schema, prefix, &r, NULL), SQLOCK_EINVAL);
}

TEST(test_names_that_could_be_sql_are_refused)
{
    static const char *const schemas[] = {"",     "a\"b", "a'b",  "a`b",  "a;b",
                                          "a\\b", "a\nb", "\x7F", "\xC3", "a\"; DROP TABLE x; --"};
    static const char *const prefixes[] = {
        "", "A", "_a", "1a", "a-b", "a b", "a\"", "a\n", "abcdefghijklmnopqrstuvwxy"};
    sqlock_dialect d = with_quote('"');

    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        check_refused(&d, schemas[i], NULL);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        check_refused(&d, NULL, prefixes[i]);
}

TEST(test_other_schema_is_refused_where_there_is_only_one)
{
    EACH_DIALECT(d)
    if (d->fixed_schema)
        check_refused(d, "elsewhere", NULL);
    else
        texts_free(render(d, "elsewhere", NULL));
}

TEST_MAIN_EACH(NULL, NULL)
