#ifndef SQLOCK_ENGINE_MADE_H
#define SQLOCK_ENGINE_MADE_H

#include <sqlock/driver.h>

enum { MADE_VALUES = 255 };

/* A statement that is made of one of the dialect's texts: words in braces are written out, names
 * quoted, and values left to placeholders. The first failure is kept; what comes after it does
 * nothing. */
struct made {
    char quote, placeholder; /* the dialect's */
    char *sql;               /* ends with NUL */
    size_t len, size;
    sqlock_value values[MADE_VALUES]; /* borrowed, in the order of their placeholders */
    size_t n_values;
    int failed; /* 0, SQLOCK_ENOMEM, or SQLOCK_EINVAL: too many values */
};

/* What stands for a word, "{set}". */
struct made_word {
    const char *word;
    void (*put)(struct made *m, const void *arg);
    const void *arg;
};

void made_begin(struct made *m, const sqlock_dialect *d);
void made_end(struct made *m); /* frees */

void made_text(struct made *m, const char *sql);
/* An identifier: quoted, and quotes in it doubled, so that it ends where it ends. */
void made_name(struct made *m, const char *name);
/* table.column, by two names; without the table SQLite takes a column that is not there for a
 * text. */
void made_column(struct made *m, const char *table, const char *column);
void made_value(struct made *m, const sqlock_value *v);
/* The dialect's text; a word that is not among them stays as it is. What is put in for one is not
 * looked through again. */
void made_from(struct made *m, const char *text, const struct made_word *words, size_t n);

#endif
