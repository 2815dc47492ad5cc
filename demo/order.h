/* One order: read the stock, check, think, write. */
#ifndef DEMO_ORDER_H
#define DEMO_ORDER_H

#include <sqlite3.h>
#include <stdint.h>

#include <sqlock/sqlock.h>

#define ORDER_LOCK     "item 1"
#define ORDER_LEASE_MS 1000

enum order_result {
    ORDER_SOLD,
    ORDER_SOLD_OUT,
    ORDER_TOO_LATE /* the lease ran out, and somebody else had the lock: nothing was written */
};

enum order_result order_under_lock(sqlock *m, sqlite3 *db, int worker);
/* token 0: without a lock. */
enum order_result order_make(sqlite3 *db, int worker, int64_t token);

/* What takes time between reading and writing. The caller's. */
void order_think(int stock, int worker);

#endif
