/* The ways to sell one unit: three that are wrong, one that is wrong when a holder stands still,
 * and those that are right. Each is one function, to be read and copied. */
#ifndef DEMO_WAYS_WAYS_H
#define DEMO_WAYS_WAYS_H

#include "../crew.h"
#include "market.h"

enum sold {
    SOLD,
    SOLD_OUT,
    CONFLICT, /* somebody was quicker, and this way has noticed: nothing was sold, all begins anew
               */
    AGAIN     /* the same, by the database's word: a deadlock, a lock that was not to be had */
};

/* Who sells. */
struct seller {
    int me;
    void *db;          /* the application's own connection, */
    sqlock_conn *conn; /* adopted by sqlock */
    sqlock *m;
    struct crew *crew;
    long sales;
};

typedef enum sold sell_fn(struct seller *s);

sell_fn sell_from_memory, sell_after_a_look, sell_after_the_release, sell_under_lease_alone;
sell_fn sell_under_lease, sell_behind_guard, sell_behind_row_lock, sell_by_version,
    sell_from_stripe;

/* ways.c: small steps that they have in common. */
#define ITEM_LOCK "item 1"
#define LEASE_MS  600

long stock_of(struct seller *s);
void think(void); /* what takes time between reading and writing */
/* Write the stock and the sale, both or neither. 0: others were in the way. */
int write_sale(struct seller *s, long stock);
/* Those two statements, within a transaction that the caller began. */
int put_sale(struct seller *s, long stock);
sqlock_lock *take_lock(struct seller *s); /* waits for it */
void drop_lock(sqlock_lock *lock);
/* Of one seller, once in a sale in which somebody shall: stand still for longer than a lease. */
void stand_still_once(struct seller *s);

#endif
