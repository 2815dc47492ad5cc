/* Requests for event loops: the same as the blocking calls are made of, driven by the worker. */
#include <sqlock/async.h>

#include "core/engine/arguments.h"
#include "core/leases/leases.h"

int async_go(sqlock_op *op, sqlock_op **out_op, sqlock_error *err)
{
    int rc = op_go_async(op, err);

    if (rc != 0) {
        op->err.code = rc;
        if (!op->done)
            op_done(op, rc);
        op_finish(op, NULL, NULL);
        *out_op = NULL;
        return rc;
    }
    *out_op = op;
    return 0;
}

int sqlock_op_fd(sqlock_op *op)
{
    return op->fd;
}

/* In a forked child nobody drives it, and its mutex may be held for ever (P17). */
static int is_parents(const sqlock_op *op)
{
    return check_alive(op->m, NULL) != 0;
}

int sqlock_op_step(sqlock_op *op)
{
    UNCANCELLED;
    int done;

    if (is_parents(op))
        return 1;
    mutex_lock(&op->m->mu);
    done = op->done;
    mutex_unlock(&op->m->mu);
    return done;
}

void sqlock_op_cancel(sqlock_op *op)
{
    UNCANCELLED;
    if (!is_parents(op))
        op_interrupt(op);
}

int sqlock_op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    UNCANCELLED;
    if (out_lock != NULL)
        *out_lock = NULL;
    if (is_parents(op))
        return check_alive(op->m, err);
    return op_finish(op, out_lock, err);
}
