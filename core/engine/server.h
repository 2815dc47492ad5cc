#ifndef SQLOCK_ENGINE_SERVER_H
#define SQLOCK_ENGINE_SERVER_H

#include "core/engine/manager.h"

/* c is on the server of this identity, as handshake found. If that is not the manager's, it is from
 * now on: the other connections are closed, what is under way on them ends, and no lease is certain
 * before this server has confirmed it. SQLOCK_EUNREACH, to be tried again: another connection has
 * found another server since this one began to be opened, so this one may be the older. */
int server_note(sqlock *m, struct conn *c, const void *id, size_t len, sqlock_error *err);
/* c is on the manager's server, as far as is known. m->mu is held. */
int server_is_ours(const sqlock *m, const struct conn *c);
/* Close the connections to c's host that nobody uses. */
void server_leave(sqlock *m, const struct conn *c);

#endif
