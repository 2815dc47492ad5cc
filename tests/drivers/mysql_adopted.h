/* What the tests of a guest share that are MariaDB's and MySQL's own. */
#ifndef SQLOCK_TESTS_DRIVERS_MYSQL_GUEST_H
#define SQLOCK_TESTS_DRIVERS_MYSQL_GUEST_H

#ifdef TEST_HAVE_MYSQL
#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/mysql_app.h"

/* The client library's handle of an application's connection. */
MYSQL *native(void *app);
/* As begin_adopted(); app_row has a second row, and there is a table app_new with keys that count.
 */
void begin_mysql(struct world *w);
/* The same, on a connection that has these flags; or on a handle that is not connected yet, of
 * which mysql_close() frees nothing but what is in it. By way of a socket, NULL: the server's. */
void begin_mysql_as(struct world *w, MYSQL *my, unsigned long flags, const char *socket);
void connect_native(MYSQL *my, unsigned long flags, const char *socket);
sqlock_tx_state tx(void);

#endif
#endif
