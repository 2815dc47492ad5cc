#ifndef SQLOCK_ENGINE_TABLE_H
#define SQLOCK_ENGINE_TABLE_H

#include "core/sql/template.h"
#include "core/transaction/adopted.h"

/* What the catalogue says of a key: the unique index on it, by its name; whether the server can
 * tell that a row is locked without waiting for it; and for each column, in the row's order, which
 * values can be looked up (the letters of SQLOCK_COL_FITS). */
struct table_key {
    char name[264];
    char schema[264]; /* where the table was found; "": not told */
    int instant;      /* SQLOCK_COL_INSTANT */
    char fits[SQLOCK_KEY_MAX][8];
    char compares[SQLOCK_KEY_MAX][64]; /* the collation to be named; "": the column's own */
    char equals[SQLOCK_KEY_MAX][224];  /* the operator to be named; "": `=` */
};

/* What the catalogue says of a version's column. */
struct table_version {
    int is_timestamp;
    int64_t most; /* the largest integer that it can hold */
};

/* A row of the application's, its table having been looked up. Good for one call: another session
 * may change the table, and the application its search path. */
struct table {
    sqlock_conn *conn;
    const sqlock_row *row;
    const char *version; /* a column of versions; NULL: none is asked about */
    struct table_key key;
    struct table_version kind; /* of that column */
    int hurried;               /* what waits may be cancelled, and is to hear of it soon */
};

/* What can be told without I/O: names that cannot be quoted, values that no key has. */
int table_check(const sqlock_row *row, sqlock_error *err);
/* The same for one name. */
int table_check_name(const char *name, const char *what, sqlock_error *err);

/* Ask the catalogue: SQLOCK_EREFUSED, with the reason, unless the columns are exactly those of a
 * unique index that finds these values. The catalogue's yes is remembered for a row with a schema.
 * The transaction has been checked (adopted_check), and the row (table_check). conn and row are
 * kept.
 */
int table_open(sqlock_conn *conn, const sqlock_row *row, int64_t deadline, struct table *out,
               sqlock_error *err);
/* The same with a column of versions, which has to be there: SQLOCK_EREFUSED unless it is a kind of
 * column that can be one. */
int table_open_version(sqlock_conn *conn, const sqlock_row *row, const char *version,
                       int64_t deadline, struct table *out, sqlock_error *err);
/* table_look.c, for the two above: ask the catalogue about t->row and t->version, and fill in what
 * it says; then whether the key's values are of a kind that its index finds. */
int table_look_up(struct table *t, int64_t deadline, sqlock_error *err);
int table_check_fit(const struct table *t, sqlock_error *err);
/* Forget all; the connection is let go of. */
void table_forget(sqlock_conn *conn);

/* Ask with one step of a block of templates. {table}, {match} and {key} are written out (the table,
 * the condition on the row, the index), and at most TABLE_WORDS words that are given; a failure
 * is that of adopted_script(). */
enum { TABLE_WORDS = 12 };
int table_ask(const struct table *t, sqlock_stmt block, size_t step,
              const struct template_word *words, size_t n_words, int64_t deadline,
              sqlock_rows *rows, sqlock_error *err);

#endif
