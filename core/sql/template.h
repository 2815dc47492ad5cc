#ifndef SQLOCK_ENGINE_MADE_H
#define SQLOCK_ENGINE_MADE_H

#include <sqlock/driver.h>

enum { TEMPLATE_VALUES = 255 };

/* A statement that is made of one of the dialect's texts: words in braces are written out, names
 * quoted, and values left to placeholders. The first failure is kept; what comes after it does
 * nothing. */
struct template
{
    char quote, placeholder; /* the dialect's */
    char *sql;               /* ends with NUL */
    size_t len, size;
    sqlock_value values[TEMPLATE_VALUES]; /* borrowed, in the order of their placeholders */
    size_t n_values;
    int failed; /* 0, SQLOCK_ENOMEM, or SQLOCK_EINVAL: too many values */
};

/* What stands for a word, "{set}". */
struct template_word {
    const char *word;
    void (*put)(struct template *m, const void *arg);
    const void *arg;
};

void template_begin(struct template *m, const sqlock_dialect *d);
void template_end(struct template *m); /* frees */

void template_text(struct template *m, const char *sql);
/* An identifier: quoted, and quotes in it doubled, so that it ends where it ends. */
void template_name(struct template *m, const char *name);
/* table.column, by two names; without the table SQLite takes a column that is not there for a
 * text. */
void template_column(struct template *m, const char *table, const char *column);
void template_value(struct template *m, const sqlock_value *v);
/* The dialect's text; a word that is not among them stays as it is. What is put in for one is not
 * looked through again. */
void template_from(struct template *m, const char *text, const struct template_word *words,
                   size_t n);

#endif
