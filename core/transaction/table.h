#ifndef SQLOCK_TRANSACTION_TABLE_H
#define SQLOCK_TRANSACTION_TABLE_H

#include "core/sql/template.h"
#include "core/transaction/adopted.h"

/* What the catalogue says about a key. It names the unique index. It says whether the server can
 * report a locked row without waiting for it. For each column, in the row's order, it also says
 * which values can be looked up (the letters of SQLOCK_COL_FITS). */
struct table_key {
    char name[264];
    char schema[264]; /* where the table was found; "": not known */
    int instant;      /* SQLOCK_COL_INSTANT */
    char fits[SQLOCK_KEY_MAX][8];
    char compares[SQLOCK_KEY_MAX][64]; /* the collation to name; "": the column's own */
    char equals[SQLOCK_KEY_MAX][224];  /* the operator to name; "": `=` */
};

/* What the catalogue says about a version's column. */
struct table_version {
    int is_timestamp;
    int64_t most; /* the largest integer that it can hold */
};

/* A row of the application, after a look at its table. It is good for one call only. Another
 * session may change the table, and the application may change its search path. */
struct table {
    sqlock_conn *conn;
    const sqlock_row *row;
    const char *version; /* the version's column; NULL: none is needed */
    struct table_key key;
    struct table_version kind; /* of that column */
    int cancellable;           /* a cancel may end a wait, which must notice it soon */
};

/* Check without I/O: names must be fit to quote, and values fit for a key. */
int table_check(const sqlock_row *row, sqlock_error *err);
/* The same for one name. */
int table_check_name(const char *name, const char *what, sqlock_error *err);

/* Look at the catalogue. SQLOCK_EREFUSED, with the reason, unless the columns are exactly those of
 * a unique index that finds these values. A positive answer is remembered if the row names its
 * schema. The caller has checked the transaction (adopted_check) and the row (table_check). conn
 * and row must outlive *out. */
int table_open(sqlock_conn *conn, const sqlock_row *row, int64_t deadline, struct table *out,
               sqlock_error *err);
/* The same with a column of versions. SQLOCK_EREFUSED unless it exists, and can hold versions. */
int table_open_version(sqlock_conn *conn, const sqlock_row *row, const char *version,
                       int64_t deadline, struct table *out, sqlock_error *err);
/* table_look.c, for the two functions above. The first reads what the catalogue says about t->row
 * and t->version. The second checks that the key's values are of a kind that its index finds. */
int table_look_up(struct table *t, int64_t deadline, sqlock_error *err);
int table_check_fit(const struct table *t, sqlock_error *err);
/* Forget all that is remembered, because the connection is freed. */
void table_forget(sqlock_conn *conn);

/* Run one step of a block of templates. {table}, {match} and {key} become the table, the condition
 * on the row, and the index. The caller may add TABLE_WORDS words at most. Fails as
 * adopted_script(). */
enum { TABLE_WORDS = 12 };
int table_run(const struct table *t, sqlock_stmt block, size_t step,
              const struct template_word *words, size_t n_words, int64_t deadline,
              sqlock_rows *rows, sqlock_error *err);

#endif
