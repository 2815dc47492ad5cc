/* The application's side of a client: its own connection, on which it runs its own transactions and
 * sqlock is a guest. What databases do not have in common stands here. */
#ifndef SQLOCK_TESTS_TORTURE_CLIENT_APP_H
#define SQLOCK_TESTS_TORTURE_CLIENT_APP_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlock/transaction.h>

enum { APP_TEXT = 256 }; /* room for what a database says of a failure */

/* How long a connection is waited for, and an answer: a link may be silent for ever. busy_ms:
 * whoever keeps SQLite's file. Cells have more of it than clients. */
extern struct app_patience {
    int32_t connect_s, answer_s, busy_ms;
} app_patience;

/* Codes are those of sqlock: 0; SQLOCK_EUNREACH: the connection is gone, or hangs, and must be made
 * anew; SQLOCK_ETXGONE: the database has ended the transaction; SQLOCK_EBUSY: it was locked for too
 * long; SQLOCK_EFULL; else SQLOCK_EDB. */
struct app {
    const char *scheme; /* of URLs, with its colon */
    const sqlock_driver *(*driver)(void);
    void *(*connect)(const char *url); /* NULL: not to be had now */
    void (*close)(void *native);
    int (*adopt)(sqlock *m, void *native, sqlock_conn **out_conn, sqlock_error *err);
    /* One statement. *out, unless NULL, is the first number of the first row; none: it is left. */
    int (*exec)(void *native, const char *sql, int64_t *out);
    /* 0: it was answered that it is done. SQLOCK_EUNSURE: no answer, or one that does not tell. Any
     * other code: it was rolled back, or can be. */
    int (*commit)(void *native);
    /* What the database said of the last failure, on one line. */
    void (*said)(void *native, char out[APP_TEXT]);
    const char *schema; /* of the tables */
    const char *begin;
    const char *begin_strict; /* a stricter level, or an older snapshot */
    const char *strict_read;  /* behind a SELECT in such a one, of a row that was locked in it */
    bool one_writer;          /* a transaction keeps everybody out, also releases */
    const char *big, *engine; /* of tables: the type of 64 bits; what comes behind the columns */
};

extern const struct app client_app_sqlite, client_app_postgres, client_app_mysql;

/* The one of this URL, or NULL: it was not built, or nobody knows such a scheme. */
const struct app *app_of(const char *url);

#endif
