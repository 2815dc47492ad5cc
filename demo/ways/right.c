/* How each unit is sold once. These are to be copied. */
#include "ways.h"

#include <sqlock/cas.h>
#include <sqlock/rows.h>
#include <stdlib.h>

/* A lease: for work that does not fit into one transaction. It asks now and then whether it still
 * is held. */
enum sold sell_under_lease(struct seller *s)
{
    sqlock_lock *lock = take_lock(s);
    long stock = stock_of(s);
    enum sold out = SOLD_OUT;

    if (stock > 0) {
        think();
        out = sqlock_is_held(lock) && write_sale(s, stock - 1) ? SOLD : AGAIN;
    }
    drop_lock(lock);
    return out;
}

/* A lease that is proved in the transaction: from the guard to the commit no one else is granted
 * the name, however long this one stands still; and one that stood still before it cannot commit.
 */
enum sold sell_behind_guard(struct seller *s)
{
    sqlock_lock *lock = take_lock(s);
    sqlock_error err;
    enum sold out = AGAIN;
    long stock;

    stand_still_once(s);
    if (market.run(s->db, market.begin)) {
        if (sqlock_guard(lock, s->conn, &err) != 0) {
            market.run(s->db, "ROLLBACK"); /* the lock was lost: nothing was read yet */
            out = CONFLICT;
        } else if ((stock = stock_of(s)) <= 0) {
            market.run(s->db, "ROLLBACK");
            out = SOLD_OUT;
        } else {
            think();
            out = put_sale(s, stock - 1) && market.run(s->db, "COMMIT") ? SOLD : AGAIN;
        }
    }
    drop_lock(lock);
    return out;
}

/* SELECT ... FOR UPDATE, on the item itself: the lock ends with the transaction, and so whoever
 * waited for it reads what was committed. Under SQLite it is the lock of BEGIN IMMEDIATE. */
enum sold sell_behind_row_lock(struct seller *s)
{
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row item = {sizeof item, market.schema, "item", &key, 1};
    sqlock_row_opts opts = SQLOCK_ROW_OPTS_INIT;
    sqlock_error err;
    enum sold out = AGAIN;
    long stock;

    opts.wait_ms = SQLOCK_WAIT_FOREVER;
    if (!market.run(s->db, market.begin))
        return AGAIN;
    if (sqlock_row_lock(s->conn, &item, 1, &opts, &err) != 0) {
        if (err.code != SQLOCK_ETXRESTART && err.code != SQLOCK_ETXGONE)
            die("%s", err.text);
        market.run(s->db, "ROLLBACK");
    } else if ((stock = stock_of(s)) <= 0) {
        market.run(s->db, "ROLLBACK");
        out = SOLD_OUT;
    } else {
        think();
        out = put_sale(s, stock - 1) && market.run(s->db, "COMMIT") ? SOLD : AGAIN;
    }
    return out;
}

/* Compare and set: no one waits. The version is read first; who comes to write and finds another
 * one has lost nothing but his time. */
enum sold sell_by_version(struct seller *s)
{
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row item = {sizeof item, market.schema, "item", &key, 1};
    sqlock_row_version version = {.size = sizeof version, .column = "version"};
    sqlock_column stock = {.name = "stock"};
    sqlock_error err;
    long left;
    int rc;

    version.expected = sqlock_int(market.number(s->db, "SELECT version FROM item WHERE id = 1"));
    if ((left = stock_of(s)) <= 0)
        return SOLD_OUT;
    think();
    stock.value = sqlock_int(left - 1);
    if (!market.run(s->db, market.begin))
        return AGAIN;
    rc = sqlock_cas_update(s->conn, &item, &version, &stock, 1, &err);
    if (rc < 0 && rc != SQLOCK_ETXRESTART && rc != SQLOCK_ETXGONE)
        die("%s", err.text);
    if (rc != 0)
        market.run(s->db, "ROLLBACK");
    else if (!market_runf(s->db, "INSERT INTO sale VALUES (%d)", s->me) ||
             !market.run(s->db, "COMMIT"))
        rc = SQLOCK_ETXGONE;
    return rc == 0 ? SOLD : rc == SQLOCK_CONFLICT ? CONFLICT : AGAIN;
}

/* Striped stock: the units lie on several rows, so that sellers seldom want the same one; each
 * takes from a row that still has some, and the database says whether it had. No lock at all. */
enum sold sell_from_stripe(struct seller *s)
{
    int first = rand() % MARKET_STRIPES;

    think();
    for (int i = 0; i < MARKET_STRIPES; i++) {
        if (!market.run(s->db, market.begin) ||
            !market_runf(s->db, "UPDATE stripe SET stock = stock - 1 WHERE id = %d AND stock > 0",
                         (first + i) % MARKET_STRIPES))
            return AGAIN;
        if (market.changed(s->db) == 1)
            return market_runf(s->db, "INSERT INTO sale VALUES (%d)", s->me) &&
                           market.run(s->db, "COMMIT")
                       ? SOLD
                       : AGAIN;
        market.run(s->db, "ROLLBACK"); /* this one is empty */
    }
    return SOLD_OUT;
}
