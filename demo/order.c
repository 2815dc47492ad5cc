/* The part to copy: an order under a lease, and what it does with the fencing token. */
#include "order.h"

#include <stdio.h>

#include "crew.h"
#include "shop.h"

/* A process that dies in here stops no one for longer than the lease. */
enum order_result order_under_lock(sqlock *m, sqlite3 *db, int worker)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    enum order_result result;

    opts.lease_ms = ORDER_LEASE_MS; /* renewed by the library for as long as we hold the lock */
    opts.wait_ms = 30000;
    if (sqlock_acquire(m, ORDER_LOCK, &opts, &lock, &err) != 0) {
        sqlock_scope_end(&lock); /* gives back what may have been granted; NULL: nothing */
        die("%s", err.text);
    }
    result = order_make(db, worker, sqlock_lock_token(lock));
    if (sqlock_lock_end(&lock, &err) != 0) /* no harm to the data: the token has decided */
        fprintf(stderr, "demo: %s\n", err.text);
    return result;
}

/* With a token, the item learns it before the stock is read. From then on a holder whose lease has
 * run out, and who does not know it yet, can write nothing. To compare tokens when writing is not
 * enough: he could still write after we have read and before we write, and we would undo it. */
enum order_result order_make(sqlite3 *db, int worker, int64_t token)
{
    int stock;

    if (token != 0 && !shop_raise_fence(db, token))
        return ORDER_TOO_LATE;
    stock = shop_stock(db);
    if (stock <= 0)
        return ORDER_SOLD_OUT;
    order_think(stock, worker); /* ask the bank: whatever does not fit into a transaction */
    return shop_sell(db, stock - 1, worker, token) ? ORDER_SOLD : ORDER_TOO_LATE;
}
