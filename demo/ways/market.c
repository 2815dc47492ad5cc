#include "market.h"

#include <stdarg.h>
#include <stdio.h>

#include "../crew.h"

static void must(void *db, const char *sql)
{
    if (!market.run(db, sql))
        die("%s: others were in the way", sql);
}

int market_runf(void *db, const char *format, ...)
{
    char sql[256];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    return market.run(db, sql);
}

void market_make(void *db)
{
    must(db, "CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, stock INTEGER NOT NULL, "
             "version BIGINT NOT NULL)");
    must(db, "CREATE TABLE stripe (id INTEGER NOT NULL PRIMARY KEY, stock INTEGER NOT NULL)");
    must(db, "CREATE TABLE sale (worker INTEGER NOT NULL)");
    must(db, "INSERT INTO item VALUES (1, 0, 1)");
    for (int i = 0; i < MARKET_STRIPES; i++)
        if (!market_runf(db, "INSERT INTO stripe VALUES (%d, 0)", i))
            die("the stripes cannot be made");
}

void market_fill(void *db, int stock)
{
    must(db, "DELETE FROM sale");
    if (!market_runf(db, "UPDATE item SET stock = %d, version = version + 1 WHERE id = 1", stock) ||
        !market_runf(db, "UPDATE stripe SET stock = %d", stock / MARKET_STRIPES))
        die("the stock cannot be filled");
}

long market_sold(void *db)
{
    return market.number(db, "SELECT count(*) FROM sale");
}
