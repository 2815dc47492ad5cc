#include "shop.h"

#include <stdio.h>

#include "crew.h"

#define BUSY_MS 30000

static void check(sqlite3 *db, int ok, const char *sql)
{
    if (!ok)
        die("SQLite: %s, in: %s", sqlite3_errmsg(db), sql);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql, int64_t a, int64_t b)
{
    sqlite3_stmt *stmt = NULL;
    const int64_t values[] = {a, b};

    check(db, sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, sql);
    for (int i = 0; i < 2 && i < sqlite3_bind_parameter_count(stmt); i++)
        sqlite3_bind_int64(stmt, i + 1, values[i]);
    return stmt;
}

/* Run a statement that has no rows. Returns how many it changed. */
static int run(sqlite3 *db, const char *sql, int64_t a, int64_t b)
{
    sqlite3_stmt *stmt = prepare(db, sql, a, b);

    check(db, sqlite3_step(stmt) == SQLITE_DONE, sql);
    sqlite3_finalize(stmt);
    return sqlite3_changes(db);
}

static int number(sqlite3 *db, const char *sql, int64_t a)
{
    sqlite3_stmt *stmt = prepare(db, sql, a, 0);
    int value;

    check(db, sqlite3_step(stmt) == SQLITE_ROW, sql);
    value = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static void script(sqlite3 *db, const char *sql)
{
    check(db, sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

/* WAL lets readers read while one writes. NORMAL leaves the syncing of orders to the commits of the
 * lock, which are in the same file: a release syncs what was written under the lock. */
sqlite3 *shop_open(const char *path)
{
    sqlite3 *db = NULL;

    check(db, sqlite3_open(path, &db) == SQLITE_OK, path);
    sqlite3_busy_timeout(db, BUSY_MS);
    script(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    return db;
}

void shop_close(sqlite3 *db)
{
    sqlite3_close(db);
}

void shop_fill(sqlite3 *db, int stock)
{
    script(db, "CREATE TABLE IF NOT EXISTS item ("
               "    id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, fence INTEGER NOT NULL);"
               "CREATE TABLE IF NOT EXISTS item_order ("
               "    id INTEGER PRIMARY KEY, worker INTEGER NOT NULL, token INTEGER NOT NULL);"
               "DELETE FROM item_order; DELETE FROM item");
    run(db, "INSERT INTO item (id, stock, fence) VALUES (1, ?1, 0)", stock, 0);
}

int shop_stock(sqlite3 *db)
{
    return number(db, "SELECT stock FROM item WHERE id = 1", 0);
}

int shop_has_token(sqlite3 *db, int64_t token)
{
    return number(db, "SELECT count(*) FROM item_order WHERE token = ?1", token);
}

int shop_raise_fence(sqlite3 *db, int64_t token)
{
    return run(db, "UPDATE item SET fence = ?1 WHERE id = 1 AND fence < ?1", token, 0);
}

int shop_sell(sqlite3 *db, int stock_after, int worker, int64_t token)
{
    int done;

    script(db, "BEGIN IMMEDIATE");
    done = run(db, "UPDATE item SET stock = ?1 WHERE id = 1 AND fence = ?2", stock_after, token);
    if (done)
        run(db, "INSERT INTO item_order (worker, token) VALUES (?1, ?2)", worker, token);
    script(db, done ? "COMMIT" : "ROLLBACK");
    return done;
}

struct shop_books shop_count(sqlite3 *db)
{
    struct shop_books books = {.stock = shop_stock(db)};
    sqlite3_stmt *stmt = prepare(db, "SELECT token FROM item_order ORDER BY id", 0, 0);

    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const int64_t token = sqlite3_column_int64(stmt, 0);

        if (books.sold++ == 0)
            books.first = token;
        else if (token <= books.last)
            books.out_of_order++;
        books.last = token;
    }
    check(db, sqlite3_finalize(stmt) == SQLITE_OK, "reading the orders");
    stmt = prepare(db, "PRAGMA integrity_check(1)", 0, 0);
    check(db, sqlite3_step(stmt) == SQLITE_ROW, "integrity_check");
    snprintf(books.damage, sizeof books.damage, "%s", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return books;
}
