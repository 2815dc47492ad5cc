/* The application's database: one item, its stock, and the sales. What differs between the client
 * libraries stands in a table of functions, of which the program is linked with one. */
#ifndef DEMO_WAYS_MARKET_H
#define DEMO_WAYS_MARKET_H

#include <sqlock/transaction.h>

#include <sqlock/driver.h>

#define MARKET_STRIPES 8

struct market {
    const char *name;
    const sqlock_driver *(*driver)(void);
    const char *schema; /* of the tables */
    const char *begin;  /* a transaction that writes */
    void *(*open)(const char *url);
    void (*close)(void *db);
    /* 1: done; 0: others were in the way, and nothing is left of the transaction. Anything else
     * ends the program. */
    int (*run)(void *db, const char *sql);
    long (*number)(void *db, const char *sql); /* one number; 0: no row */
    long (*changed)(void *db);                 /* rows, by the last run() */
    int (*adopt)(sqlock *m, void *db, sqlock_conn **out_conn, sqlock_error *err);
};
extern const struct market market; /* in market_<database>.c */

/* market.c: the same for all. */
void market_make(void *db); /* the tables */
void market_fill(void *db, int stock);
long market_sold(void *db);
int market_runf(void *db, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
