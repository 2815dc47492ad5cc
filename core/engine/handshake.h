#ifndef SQLOCK_ENGINE_HELLO_H
#define SQLOCK_ENGINE_HELLO_H

#include "core/engine/manager.h"

/* Look at a new connection's server and schema; refuse what no promise can be kept on (P16, P20).
 * When the server is not the one that the schema knew, or was started anew, the floor of tokens is
 * raised to its clock (P2). op, if not NULL, may be cancelled meanwhile.
 * Without last_resort a server that another one has overtaken is HOST_OVERTAKEN, and nothing was
 * written. */
int handshake(sqlock *m, struct conn *c, sqlock_op *op, int last_resort, int64_t deadline,
              sqlock_error *err);

/* 0, or SQLOCK_ESCHEMA: the connection's schema is older than this request needs. Leases never ask
 * more than handshake() did. */
int handshake_serves(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, int64_t deadline,
                     sqlock_error *err);

/* SQLOCK_ESCHEMA unless libraries like this one may use such a schema. */
int handshake_generation(int version, int needs, sqlock_error *err);
/* What handshake would refuse of a server, whatever schema it has: 0, or why. */
int handshake_server(sqlock *m, void *native, int64_t deadline, sqlock_error *err);

/* The newest schema that this library knows: that of its newest migration. */
int handshake_schema_version(const sqlock_driver *driver);

#endif
