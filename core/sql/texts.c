/* Puts schema and prefix into a dialect's texts. Identifiers are checked first and then quoted, so
 * that nothing a caller passes can become SQL. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/sql/texts.h"

/* Words in braces in a dialect's texts: the tables as names and as string literals, and what those
 * names are made of. */
static const char *const tables[] = {"lock",     "meta",   "migration", "row",
                                     "register", "broken", "waiter",    "client"};
enum {
    TABLES = sizeof tables / sizeof *tables,
    WORD_TEXT = TABLES, /* where the tables as literals begin */
    WORD_SCHEMA = 2 * TABLES,
    WORD_PREFIX,
    WORDS
};
static const char *const words[WORDS] = {
    "{lock}",           "{meta}",     "{migration}",     "{row}",         "{register}",
    "{broken}",         "{waiter}",   "{client}",        "{lock:text}",   "{meta:text}",
    "{migration:text}", "{row:text}", "{register:text}", "{broken:text}", "{waiter:text}",
    "{client:text}",    "{schema}",   "{prefix}"};

struct texts {
    sqlock_script scripts[SQLOCK_STMT_COUNT];
    /* Room for two quoted identifiers of 63 and 34 bytes, even if each quote is doubled. */
    char word[WORDS][208];
    char schema[64];
};

static void texts_make_words(struct texts *r, const sqlock_dialect *d, const char *schema,
                             const char *prefix)
{
    char q = d->quote;
    char in[80] = ""; /* the schema and a dot; empty: the connection's own schema */

    snprintf(r->schema, sizeof r->schema, "%s", schema);
    if (schema[0] != '\0')
        snprintf(in, sizeof in, "%c%s%c.", q, schema, q);
    for (int i = 0; i < TABLES; i++) {
        char name[sizeof r->word[0] - 2]; /* room for two quotes */

        snprintf(name, sizeof name, "%s%c%s%s%c", in, q, prefix, tables[i], q);
        snprintf(r->word[i], sizeof r->word[i], "%s", name);
        snprintf(r->word[WORD_TEXT + i], sizeof r->word[0], "'%s'", name);
    }
    snprintf(r->word[WORD_SCHEMA], sizeof r->word[0], "%c%s%c", q, schema, q);
    snprintf(r->word[WORD_PREFIX], sizeof r->word[0], "%s", prefix);
}

/* The number of the word that stands at p, or -1. */
static int texts_word_at(const char *p)
{
    for (int i = 0; i < WORDS; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0)
            return i;
    return -1;
}

/* Write sql to out, with its words replaced. With out NULL it only counts. Returns the length. */
static size_t texts_replace(const struct texts *r, const char *sql, char *out)
{
    size_t n = 0;

    while (*sql != '\0') {
        int w = *sql == '{' ? texts_word_at(sql) : -1;
        const char *from = w < 0 ? sql : r->word[w];
        size_t len = w < 0 ? 1 : strlen(from);

        if (out != NULL)
            memcpy(out + n, from, len);
        n += len;
        sql += w < 0 ? 1 : strlen(words[w]);
    }
    if (out != NULL)
        out[n] = '\0';
    return n;
}

char *texts_more(const struct texts *r, const char *sql)
{
    const size_t len = texts_replace(r, sql, NULL);
    char *out = sqlock_mem_alloc(len + 1);

    if (out == NULL)
        return NULL;
    texts_replace(r, sql, out);
    assert(out[len] == '\0');
    return out;
}

static sqlock_step *texts_render_steps(const struct texts *r, const sqlock_step *steps, size_t n)
{
    sqlock_step *out = sqlock_mem_alloc((n + 1) * sizeof *out);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        out[i] = steps[i];
        if ((out[i].sql = texts_more(r, steps[i].sql)) == NULL) {
            while (i-- > 0)
                sqlock_mem_free((void *)out[i].sql);
            sqlock_mem_free(out);
            return NULL;
        }
    }
    return out;
}

static void texts_free_steps(const sqlock_step *steps, size_t n)
{
    for (size_t i = 0; steps != NULL && i < n; i++)
        sqlock_mem_free((void *)steps[i].sql);
    sqlock_mem_free((void *)steps);
}

void texts_free(struct texts *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        texts_free_steps(r->scripts[i].steps, r->scripts[i].n_steps);
        texts_free_steps(r->scripts[i].array_steps, r->scripts[i].n_array_steps);
    }
    sqlock_mem_free(r);
}

const sqlock_script *texts_scripts(const struct texts *r)
{
    return r->scripts;
}

const char *texts_schema(const struct texts *r)
{
    return r->schema[0] != '\0' ? r->schema : NULL;
}

const char *texts_table(const struct texts *r, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s%s", r->word[WORD_PREFIX], name);
    return out;
}

int texts_has(const struct texts *r, sqlock_stmt stmt, sqlock_error *err)
{
    assert(stmt < SQLOCK_STMT_COUNT);
    if (r->scripts[stmt].n_steps > 0)
        return 0;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "the driver lacks this request: it does without, or is older than the "
                            "library");
}

static int texts_check_names(const sqlock_dialect *d, const char *schema, const char *prefix,
                             sqlock_error *err)
{
    char shown[80];

    if (schema != NULL && !text_is_schema(schema))
        return sqlock_error_set(
            err, SQLOCK_EINVAL, 0,
            "invalid schema name \"%s\" (use 1 to 63 bytes without quotes or control characters)",
            text_show(shown, sizeof shown, schema, strlen(schema)));
    if (schema != NULL && d->fixed_schema && strcmp(schema, d->default_schema) != 0)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "%s has only the schema \"%s\"", d->name,
                                d->default_schema);
    if (!text_is_prefix(prefix))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "invalid table prefix \"%s\" (use [a-z][a-z0-9_]{0,23})",
                                text_show(shown, sizeof shown, prefix, strlen(prefix)));
    return 0;
}

int texts_render(const sqlock_dialect *d, const char *schema, const char *prefix,
                 struct texts **out, sqlock_error *err)
{
    struct texts *r;
    int rc;

    prefix = prefix != NULL ? prefix : "sqlock_";
    if ((rc = texts_check_names(d, schema, prefix, err)) != 0)
        return rc;
    if ((r = sqlock_mem_alloc(sizeof *r)) == NULL)
        return error_nomem(err);
    texts_make_words(r, d, schema != NULL ? schema : d->default_schema, prefix);
    for (size_t i = 0; i < SQLOCK_STMT_COUNT && i < d->n_scripts; i++) {
        sqlock_script *s = &r->scripts[i];

        *s = d->scripts[i];
        s->steps = texts_render_steps(r, s->steps, s->n_steps);
        s->array_steps = texts_render_steps(r, s->array_steps, s->n_array_steps);
        if (s->steps == NULL || s->array_steps == NULL) {
            texts_free(r);
            return error_nomem(err);
        }
    }
    *out = r;
    return 0;
}

int texts_within(const struct texts *r, const sqlock_dialect *d, const char *schema,
                 struct texts **out, sqlock_error *err)
{
    *out = NULL;
    if (r->schema[0] != '\0' || !text_is_schema(schema))
        return 0;
    return texts_render(d, schema, r->word[WORD_PREFIX], out, err);
}
