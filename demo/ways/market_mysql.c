/* The market on MariaDB or MySQL. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/mysql.h>

#include "../crew.h"
#include "market.h"

/* url: mysql://user@localhost/database?socket=PATH, as the demo's own server has it. */
static void *open_server(const char *url)
{
    char user[64] = "", database[64] = "", socket[256] = "";
    MYSQL *my = mysql_init(NULL);

    if (my == NULL ||
        sscanf(url, "mysql://%63[^@]@localhost/%63[^?]?socket=%255s", user, database, socket) != 3)
        die("%s: give it as mysql://user@localhost/database?socket=PATH", url);
    if (mysql_real_connect(my, NULL, user, NULL, database, 0, socket, 0) == NULL)
        die("%s", mysql_error(my));
    /* so that what is read behind a lock is not older than the lock */
    mysql_query(my, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    return my;
}

static void close_server(void *db)
{
    mysql_close(db);
}

/* A deadlock ends the transaction; one that waited too long for a row goes on, and is ended here.
 */
static int run(void *db, const char *sql)
{
    if (mysql_query(db, sql) == 0)
        return 1;
    if (mysql_errno(db) != 1213 && mysql_errno(db) != 1205)
        die("%s: %s", sql, mysql_error(db));
    mysql_query(db, "ROLLBACK");
    return 0;
}

static long number(void *db, const char *sql)
{
    MYSQL_RES *res = run(db, sql) ? mysql_store_result(db) : NULL;
    MYSQL_ROW row = res != NULL ? mysql_fetch_row(res) : NULL;
    long n = row != NULL && row[0] != NULL ? strtol(row[0], NULL, 10) : 0;

    mysql_free_result(res);
    return n;
}

static long changed(void *db)
{
    return (long)mysql_affected_rows(db);
}

static int adopt(sqlock *m, void *db, sqlock_conn **out_conn, sqlock_error *err)
{
    return sqlock_adopt_mysql(m, (MYSQL *)db, out_conn, err);
}

const struct market market = {
    .name = "MariaDB",
    .driver = sqlock_driver_mysql,
    .schema = "test",
    .begin = "START TRANSACTION",
    .open = open_server,
    .close = close_server,
    .run = run,
    .number = number,
    .changed = changed,
    .adopt = adopt,
};
