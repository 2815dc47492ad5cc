/* The application's own tables: one item with a stock, and the orders for it. */
#ifndef DEMO_SHOP_H
#define DEMO_SHOP_H

#include <sqlite3.h>
#include <stdint.h>

/* What the tables say when a sale is over. */
struct shop_books {
    int stock;        /* units left, as the item says */
    int sold;         /* rows in the table of orders */
    int64_t first;    /* fencing token of the first order, */
    int64_t last;     /* and of the last one */
    int out_of_order; /* orders whose token is not larger than that of the order before */
    char damage[128]; /* what SQLite's own check found; "ok" if nothing */
};

/* All of these end the program when the database fails. */
sqlite3 *shop_open(const char *path);
void shop_close(sqlite3 *db);
void shop_fill(sqlite3 *db, int stock); /* makes the tables if needed; no orders */
int shop_stock(sqlite3 *db);
int shop_has_token(sqlite3 *db, int64_t token); /* how many orders carry it */
struct shop_books shop_count(sqlite3 *db);

/* Let the item know that the lock is held with this token. From then on no one with a smaller one
 * can sell. 1: done; 0: it has seen this token or a larger one before, so we are too late. */
int shop_raise_fence(sqlite3 *db, int64_t token);

/* Write the stock and the order, both or neither. 1: done; 0: somebody with a larger token has been
 * here, nothing was written. */
int shop_sell(sqlite3 *db, int stock_after, int worker, int64_t token);

#endif
