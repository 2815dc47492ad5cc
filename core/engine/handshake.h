#ifndef SQLOCK_ENGINE_HANDSHAKE_H
#define SQLOCK_ENGINE_HANDSHAKE_H

#include "core/engine/manager.h"

/* Check a new connection's server and schema. Refuse a server on which no promise can be kept (P16,
 * P20). If the schema does not know this server, or the server was restarted, the lowest next token
 * is raised to the server's clock (P2). op, if not NULL, may cancel it.
 *
 * Without last_resort, a server that another one has overtaken gives HOST_OVERTAKEN, and nothing
 * was written. */
int handshake(sqlock *m, struct conn *c, sqlock_op *op, int last_resort, int64_t deadline,
              sqlock_error *err);

/* 0, or SQLOCK_ESCHEMA: the connection's schema is older than this request needs. Leases need no
 * more than handshake() has checked. m->mu is held, and is released meanwhile. */
int handshake_serves(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, int64_t deadline,
                     sqlock_error *err);

/* 0, or SQLOCK_ESCHEMA: libraries of this generation may not use such a schema. */
int handshake_generation(int version, int needs, sqlock_error *err);
/* 0, or why the handshake would refuse this server, whatever schema it has. */
int handshake_server(sqlock *m, struct conn *c, int64_t deadline, sqlock_error *err);

/* The newest schema that this library knows, which is that of its newest migration. */
int handshake_schema_version(const sqlock_driver *driver);

#endif
