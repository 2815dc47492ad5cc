#include "ways.h"

#include <signal.h>

long stock_of(struct seller *s)
{
    return market.number(s->db, "SELECT stock FROM item WHERE id = 1");
}

void think(void)
{
    pause_ms(3);
}

int put_sale(struct seller *s, long stock)
{
    return market_runf(s->db, "UPDATE item SET stock = %ld WHERE id = 1", stock) &&
           market_runf(s->db, "INSERT INTO sale VALUES (%d)", s->me);
}

int write_sale(struct seller *s, long stock)
{
    return market.run(s->db, market.begin) && put_sale(s, stock) && market.run(s->db, "COMMIT");
}

sqlock_lock *take_lock(struct seller *s)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};

    opts.wait_ms = SQLOCK_WAIT_FOREVER;
    opts.lease_ms = LEASE_MS;
    if (sqlock_acquire(s->m, ITEM_LOCK, &opts, &lock, &err) != 0)
        die("%s", err.text);
    return lock;
}

/* Lost before: the guard says so, or nothing does. */
void drop_lock(sqlock_lock *lock)
{
    sqlock_scope_end(&lock);
}

void stand_still_once(struct seller *s)
{
    int no_one = 0;

    if (s->sales > 2 && atomic_compare_exchange_strong(s->crew->stuck, &no_one, 1 + s->me))
        raise(SIGSTOP);
}
