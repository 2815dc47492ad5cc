#ifndef SQLOCK_ENGINE_SERVER_H
#define SQLOCK_ENGINE_SERVER_H

#include <assert.h>

#include "core/engine/manager.h"

/* The handshake on c found a server of this identity. If it is not the manager's server, it becomes
 * that. Then the other connections are closed, calls on them end, and each lease is in doubt until
 * this server confirms it.
 *
 * SQLOCK_EUNREACH, to be tried again: another connection has found another server since this one
 * began to open. So this connection may be to the older server. */
int server_note(sqlock *m, struct conn *c, const void *id, size_t len, sqlock_error *err);
/* c is to the manager's server, as far as is known. m->mu is held. */
static inline int server_is_ours(const sqlock *m, const struct conn *c)
{
    assert(mutex_is_mine(&m->mu));
    return c->server == m->server;
}

/* Close the idle connections to c's host. */
void server_leave(sqlock *m, const struct conn *c);

#endif
