#ifndef SQLOCK_ENGINE_CATALOGUE_H
#define SQLOCK_ENGINE_CATALOGUE_H

#include "core/transaction/adopted.h"

/* Ask a request about the application's tables, whose first parameter is a schema (NULL: where the
 * connection finds them): in its transaction, or where that would make the transaction's snapshot,
 * on a connection of the manager's. Fails as adopted_rows(). */
int catalogue_ask(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                  int64_t deadline, sqlock_rows *rows, sqlock_error *err);
/* One request on a connection of the manager's. Its failures say nothing of the application's. */
int catalogue_beside(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                     sqlock_rows *rows, sqlock_error *err);

#endif
