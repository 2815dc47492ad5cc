#ifndef SQLOCK_TRANSACTION_CATALOGUE_H
#define SQLOCK_TRANSACTION_CATALOGUE_H

#include "core/transaction/adopted.h"

/* Make a request about the application's tables. Its first parameter is a schema (NULL: the one
 * where the connection finds them). It runs in the application's transaction. If it would fix the
 * transaction's snapshot there, it runs on a connection of the manager. Fails as adopted_rows(). */
int catalogue_send(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err);
/* Make one request on a connection of the manager. Its failures say nothing about the application's
 * connection. */
int catalogue_beside(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                     sqlock_rows *rows, sqlock_error *err);

#endif
