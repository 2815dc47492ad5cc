#ifndef SQLOCK_ENGINE_HELLO_H
#define SQLOCK_ENGINE_HELLO_H

#include "core/engine/manager.h"

/* Look at a new connection's server and schema; refuse what no promise can be kept on (P16, P20).
 * When the server is not the one that the schema knew, its incarnation is raised (P2). op, if not
 * NULL, may be cancelled meanwhile. */
int hello(sqlock *m, struct conn *c, sqlock_op *op, int64_t deadline, sqlock_error *err);

/* 0, or SQLOCK_ESCHEMA: the connection's schema is older than this request needs. Leases never ask
 * more than hello() did. */
int hello_serves(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, int64_t deadline,
                 sqlock_error *err);

/* The newest schema that this library knows: that of its newest migration. */
int hello_schema_version(const sqlock_driver *driver);

#endif
