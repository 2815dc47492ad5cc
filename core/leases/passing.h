#ifndef SQLOCK_LEASES_PASSING_H
#define SQLOCK_LEASES_PASSING_H

#include "core/engine/op.h"

/* The request that gives back op's lock with this token. If others wait, or may, it passes the lock
 * on: best to one of this manager that waits alone, which then needs no request at all. Returns
 * 1. */
int passing_send(sqlock_op *op, int64_t token, int64_t now);
/* It was answered. Returns 1 if it has to be sent again, because others wait. */
int passing_answered(sqlock_op *op, const struct answer *a, int64_t now);
/* It failed. */
void passing_failed(sqlock_op *op);

#endif
