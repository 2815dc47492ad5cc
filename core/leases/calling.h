#ifndef SQLOCK_LEASES_CALLING_H
#define SQLOCK_LEASES_CALLING_H

#include "core/engine/op.h"

/* This database keeps a queue, and can call those who wait in it. */
int calling_can(const sqlock_op *op);
/* Who waits first for op's lock? Returns 1. */
int calling_send_look(sqlock_op *op);
/* The answer to that. Returns 1 if the waiter is another client's: send it the call. One of this
 * manager is called at once. */
int calling_found(sqlock_op *op, const struct answer *a, int64_t now);
/* The same for an answer that names the next one itself. */
int calling_is_due(sqlock_op *op, const struct answer *a, int64_t now);
int calling_send(sqlock_op *op);

#endif
