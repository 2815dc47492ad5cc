/* How stock is sold twice. Do not copy these. */
#include "ways.h"

/* Two read the same stock, and both write it less one. */
enum sold sell_from_memory(struct seller *s)
{
    long stock = stock_of(s);

    if (stock <= 0)
        return SOLD_OUT;
    think();
    return write_sale(s, stock - 1) ? SOLD : AGAIN;
}

/* The database counts right, but both have seen the last unit. */
enum sold sell_after_a_look(struct seller *s)
{
    if (stock_of(s) <= 0)
        return SOLD_OUT;
    think();
    if (market.run(s->db, market.begin) &&
        market.run(s->db, "UPDATE item SET stock = stock - 1 WHERE id = 1") &&
        market_runf(s->db, "INSERT INTO sale VALUES (%d)", s->me) && market.run(s->db, "COMMIT"))
        return SOLD;
    return AGAIN;
}

/* The next one reads while this one has not committed yet. */
enum sold sell_after_the_release(struct seller *s)
{
    sqlock_lock *lock = take_lock(s);
    long stock = stock_of(s);

    drop_lock(lock);
    if (stock <= 0)
        return SOLD_OUT;
    think();
    return write_sale(s, stock - 1) ? SOLD : AGAIN;
}

/* Right as long as no one stands still: a lease cannot stop a program that works on after it ran
 * out. Compare sell_behind_guard(). */
enum sold sell_under_lease_alone(struct seller *s)
{
    sqlock_lock *lock = take_lock(s);
    long stock = stock_of(s);
    enum sold out = SOLD_OUT;

    stand_still_once(s);
    if (stock > 0) {
        think();
        out = write_sale(s, stock - 1) ? SOLD : AGAIN;
    }
    drop_lock(lock);
    return out;
}
