#ifndef SQLOCK_ENGINE_POOL_H
#define SQLOCK_ENGINE_POOL_H

#include "core/engine/manager.h"

/* Take an open connection that has made the handshake (again, if op is to greet), waiting and
 * connecting until deadline. op, if not NULL, may be cancelled meanwhile. */
int pool_take(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline, struct conn **out,
              sqlock_error *err);
/* Before the first grant that will be renewed by itself (m->kept is 0): have the kept connection
 * open, so that who cannot have it is told now, and not by the loss of the lock. Later the renewals
 * see to it. */
int pool_keep(sqlock *m, sqlock_op *op, int64_t deadline, sqlock_error *err);
/* Give it back; broken, or cut: close it first. */
void pool_give(sqlock *m, struct conn *c, int broken);
/* What is under way on it, a call or the opening, ends soon. m->mu is held. */
void pool_cancel_call(sqlock *m, struct conn *c);
void pool_close_all(sqlock *m);

/* Open a connection without looking at the schema (migrations), to a host as sqlock_conn_opts says
 * it. wake_fd cuts it, unless -1. */
int pool_connect(sqlock *m, int wake_fd, uint32_t host, int64_t deadline, void **out_native,
                 sqlock_error *err);

#endif
