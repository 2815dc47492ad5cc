/* Statements about the application's tables. What a caller passes enters their text only through
 * template_name(). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/sql/template.h"

void template_begin(struct template *m, const sqlock_dialect *d)
{
    memset(m, 0, sizeof *m);
    m->quote = d->quote;
    m->placeholder = d->placeholder;
    template_text(m, "");
}

void template_end(struct template *m)
{
    sqlock_mem_free(m->sql);
    m->sql = NULL;
}

static void template_put(struct template *m, const char *text, size_t len)
{
    size_t want = m->size < 256 ? 256 : m->size;
    char *grown;

    assert(m->sql == NULL ? m->len == 0 : m->len < m->size);
    if (m->failed)
        return;
    while (want - m->len <= len)
        want *= 2;
    if (want > m->size) {
        if ((grown = sqlock_mem_resize(m->sql, want)) == NULL) {
            m->failed = SQLOCK_ENOMEM;
            return;
        }
        m->sql = grown;
        m->size = want;
    }
    memcpy(m->sql + m->len, text, len);
    m->sql[m->len += len] = '\0';
}

void template_text(struct template *m, const char *sql)
{
    template_put(m, sql, strlen(sql));
}

void template_name(struct template *m, const char *name)
{
    template_put(m, &m->quote, 1);
    for (const char *q; (q = strchr(name, m->quote)) != NULL; name = q + 1) {
        template_put(m, name, (size_t)(q - name) + 1);
        template_put(m, q, 1);
    }
    template_text(m, name);
    template_put(m, &m->quote, 1);
}

void template_column(struct template *m, const char *table, const char *column)
{
    template_name(m, table);
    template_text(m, ".");
    template_name(m, column);
}

void template_value(struct template *m, const sqlock_value *v)
{
    char numbered[8];

    assert(m->n_values <= TEMPLATE_VALUES);
    if (m->n_values == TEMPLATE_VALUES) {
        m->failed = m->failed ? m->failed : SQLOCK_EINVAL;
        return;
    }
    m->values[m->n_values++] = *v;
    snprintf(numbered, sizeof numbered, "$%zu", m->n_values);
    template_text(m, m->placeholder == '$' ? numbered : "?");
}

static const struct template_word *template_word_at(const char *p,
                                                    const struct template_word *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(p, words[i].word, strlen(words[i].word)) == 0)
            return &words[i];
    return NULL;
}

void template_from(struct template *m, const char *text, const struct template_word *words,
                   size_t n)
{
    const char *brace = text, *from = text;

    while ((brace = strchr(brace, '{')) != NULL) {
        const struct template_word *w = template_word_at(brace, words, n);

        if (w == NULL) {
            brace++;
            continue;
        }
        template_put(m, from, (size_t)(brace - from));
        w->put(m, w->arg);
        from = brace += strlen(w->word);
    }
    template_text(m, from);
}
