#ifndef SQLOCK_SQL_TEMPLATE_H
#define SQLOCK_SQL_TEMPLATE_H

#include <sqlock/driver.h>

enum { TEMPLATE_VALUES = 255 };

/* A statement that is made of one of the dialect's texts. Words in braces are replaced, names
 * quoted, and values become placeholders. The first failure is kept, and later calls do nothing. */
struct template
{
    char quote, placeholder; /* the dialect's */
    char *sql;               /* ends with NUL */
    size_t len, size;
    sqlock_value values[TEMPLATE_VALUES]; /* borrowed; in the order of their placeholders */
    size_t n_values;
    int failed; /* 0, SQLOCK_ENOMEM, or SQLOCK_EINVAL: too many values */
};

/* What replaces a word such as "{set}". */
struct template_word {
    const char *word;
    void (*put)(struct template *m, const void *arg);
    const void *arg;
};

void template_begin(struct template *m, const sqlock_dialect *d);
void template_end(struct template *m); /* frees the text */

void template_text(struct template *m, const char *sql);
/* An identifier. It is quoted, and quotes in it are doubled, so that the name cannot end it. */
void template_name(struct template *m, const char *name);
/* table.column, with both names quoted. Without the table, SQLite takes a column that does not
 * exist for a string. */
void template_column(struct template *m, const char *table, const char *column);
void template_value(struct template *m, const sqlock_value *v);
/* The dialect's text. A word that is not in `words` stays as it is. What replaces a word is not
 * searched again. */
void template_from(struct template *m, const char *text, const struct template_word *words,
                   size_t n);

#endif
