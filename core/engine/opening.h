#ifndef SQLOCK_ENGINE_OPENING_H
#define SQLOCK_ENGINE_OPENING_H

#include "core/engine/manager.h"

/* Open the connection of the place c, which is the caller's, and make the handshake. op, if not
 * NULL, may cancel it. */
int opening_run(sqlock *m, struct conn *c, sqlock_op *op, int64_t deadline, sqlock_error *err);
/* Until when an opening for this use may last, whose caller has until the deadline. */
int64_t opening_by(const sqlock *m, enum pool_use use, int64_t deadline);

/* Open a connection without a look at the schema (for migrations). host is as in sqlock_conn_opts.
 * wake_fd cancels the opening, unless it is -1. */
int opening_connect(sqlock *m, int wake_fd, uint32_t host, int64_t deadline, void **out_native,
                    sqlock_error *err);

#endif
