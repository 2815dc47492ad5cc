/* Values of columns, and rows of the application's own tables: for calls about them (sqlock/rows.h)
 * and for drivers. */
#ifndef SQLOCK_VALUE_H
#define SQLOCK_VALUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sqlock_type {
    SQLOCK_NULL = 0,
    SQLOCK_INT = 1,
    SQLOCK_BYTES = 2,
    SQLOCK_TEXT = 3 /* the application's text, in the encoding of its connection */
} sqlock_type;

typedef struct sqlock_value {
    sqlock_type type;
    int64_t i;        /* SQLOCK_INT */
    const void *data; /* SQLOCK_BYTES, SQLOCK_TEXT: not NULL, also when len is 0 */
    size_t len;
} sqlock_value;

/* Values to pass on at once: bytes are borrowed. */
static inline sqlock_value sqlock_null(void)
{
    sqlock_value v = {SQLOCK_NULL, 0, NULL, 0};
    return v;
}
static inline sqlock_value sqlock_int(int64_t i)
{
    sqlock_value v = {SQLOCK_INT, 0, NULL, 0};
    v.i = i;
    return v;
}
static inline sqlock_value sqlock_bytes(const void *data, size_t len)
{
    sqlock_value v = {SQLOCK_BYTES, 0, NULL, 0};
    v.data = data;
    v.len = len;
    return v;
}
static inline sqlock_value sqlock_text(const char *text) /* ends with NUL */
{
    sqlock_value v = {SQLOCK_TEXT, 0, NULL, 0};
    v.data = text;
    v.len = text != NULL ? strlen(text) : 0;
    return v;
}

#define SQLOCK_KEY_MAX 16 /* columns of a key */

/* A column, and its value or the one to put there. */
typedef struct sqlock_column {
    const char *name; /* exactly as in the table, unquoted: UTF-8, 1 to 256 bytes, no control
                         characters */
    sqlock_value value;
    const char *expression; /* only for assignments, instead of value: SQL. Never put input from
                               outside into it */
} sqlock_column;

/* One row of an application's table. All columns of a unique key name it. */
typedef struct sqlock_row {
    uint32_t size;      /* sizeof(sqlock_row) */
    const char *schema; /* MySQL: the database. NULL: where the connection finds the table. That may
                           change at any time, so each call looks it up in the catalogue */
    const char *table;  /* a name, written as that of a column */
    const sqlock_column *key; /* in any order; none NULL */
    size_t n_key;             /* 1 to SQLOCK_KEY_MAX */
} sqlock_row;

#ifdef __cplusplus
}
#endif
#endif
