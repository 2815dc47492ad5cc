/* The requests of event loops: the worker works them off one at a time, and the timer ends those
 * that run out of time behind a call that hangs (P8, P19). */
#include "core/engine/op.h"

/* A call is cut for the sake of others only when it had so much of request_us for itself: they may
 * come one after the other, and it would never be done. */
#define SHARE_PART 4

/* When the worker's request has to make room: half of another one's time is gone, and it has had
 * its share. m->mu is held. */
static int64_t cut_at(const sqlock *m)
{
    int64_t first = TIME_NEVER, share = m->driving_since + m->request_us / SHARE_PART;

    if (m->driving == NULL || m->driving->cut)
        return TIME_NEVER;
    LIST_EACH(at, &m->ops)
    {
        const sqlock_op *op = LIST_MEMBER(at, sqlock_op, in_manager);

        if (op != m->driving && !op->done && op->deadline != TIME_NEVER)
            first = time_min(first, op->next_at + (op->deadline - op->next_at) / 2);
    }
    return first > share ? first : share;
}

int op_go_async(sqlock_op *op, sqlock_error *err)
{
    sqlock *m = op->m;

    if ((op->fd = sqlock_wake_make()) < 0)
        return sqlock_error_set(err, SQLOCK_ESYS, SQLOCK_RETRY, "no descriptor to be had");
    mutex_lock(&m->mu);
    op->async = 1;
    list_append(&m->ops, &op->in_manager);
    if (op->done) /* there was nothing to ask */
        sqlock_wake_set(op->fd);
    worker_wake(m, 0);
    timer_wake(m, time_min(op->deadline, cut_at(m)));
    mutex_unlock(&m->mu);
    return 0;
}

static int64_t ops_due(const sqlock_op *op)
{
    return op->done ? TIME_NEVER : op->cancelled ? 0 : op->next_at;
}

sqlock_op *ops_first(sqlock *m, int64_t *out_due)
{
    sqlock_op *first = NULL;

    *out_due = TIME_NEVER;
    LIST_EACH(at, &m->ops)
    {
        sqlock_op *op = LIST_MEMBER(at, sqlock_op, in_manager);

        if (ops_due(op) < *out_due) {
            first = op;
            *out_due = ops_due(op);
        }
    }
    return first;
}

/* While it is driven nobody else ends it. When it ends, whoever finishes it may free it before this
 * thread has the mutex again: its end takes it out of m->driving. */
void ops_drive(sqlock *m, sqlock_op *op)
{
    if (op_end_if_over(op))
        return;
    m->driving = op;
    m->driving_since = sqlock_now_us();
    op->cut = op->cancelled;
    timer_wake(m, cut_at(m));
    mutex_unlock(&m->mu);
    op->advance(op);
    mutex_lock(&m->mu);
    if (m->driving != NULL)
        timer_wake(m, m->driving->deadline);
    m->driving = NULL;
}

int64_t ops_tick(sqlock *m)
{
    int64_t next = TIME_NEVER;

    LIST_EACH(at, &m->ops)
    {
        sqlock_op *op = LIST_MEMBER(at, sqlock_op, in_manager);

        if (op != m->driving && !op_end_if_over(op))
            next = time_min(next, op->deadline);
    }
    if (cut_at(m) <= sqlock_now_us())
        op_cancel_call(m->driving);
    return time_min(next, cut_at(m));
}
