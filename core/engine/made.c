/* Statements about the application's tables. What a caller passes gets into their text by
 * made_name() alone. */
#include <stdio.h>
#include <string.h>

#include "core/engine/made.h"

void made_begin(struct made *m, const sqlock_dialect *d)
{
    memset(m, 0, sizeof *m);
    m->quote = d->quote;
    m->placeholder = d->placeholder;
    made_text(m, "");
}

void made_end(struct made *m)
{
    sqlock_mem_free(m->sql);
    m->sql = NULL;
}

static void put(struct made *m, const char *text, size_t len)
{
    size_t want = m->size < 256 ? 256 : m->size;
    char *grown;

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

void made_text(struct made *m, const char *sql)
{
    put(m, sql, strlen(sql));
}

void made_name(struct made *m, const char *name)
{
    put(m, &m->quote, 1);
    for (const char *q; (q = strchr(name, m->quote)) != NULL; name = q + 1) {
        put(m, name, (size_t)(q - name) + 1);
        put(m, q, 1);
    }
    made_text(m, name);
    put(m, &m->quote, 1);
}

void made_column(struct made *m, const char *table, const char *column)
{
    made_name(m, table);
    made_text(m, ".");
    made_name(m, column);
}

void made_value(struct made *m, const sqlock_value *v)
{
    char numbered[8];

    if (m->n_values == MADE_VALUES) {
        m->failed = m->failed ? m->failed : SQLOCK_EINVAL;
        return;
    }
    m->values[m->n_values++] = *v;
    snprintf(numbered, sizeof numbered, "$%zu", m->n_values);
    made_text(m, m->placeholder == '$' ? numbered : "?");
}

static const struct made_word *word_at(const char *p, const struct made_word *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(p, words[i].word, strlen(words[i].word)) == 0)
            return &words[i];
    return NULL;
}

void made_from(struct made *m, const char *text, const struct made_word *words, size_t n)
{
    const char *brace = text, *from = text;

    while ((brace = strchr(brace, '{')) != NULL) {
        const struct made_word *w = word_at(brace, words, n);

        if (w == NULL) {
            brace++;
            continue;
        }
        put(m, from, (size_t)(brace - from));
        w->put(m, w->arg);
        from = brace += strlen(w->word);
    }
    made_text(m, from);
}
