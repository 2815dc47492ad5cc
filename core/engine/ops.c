/* The requests of event loops. The worker drives one at a time. The timer ends those that run out
 * of time while the worker hangs in a call (P8, P19). */
#include <assert.h>

#include "core/engine/op.h"

/* The worker's call is cancelled for other requests only after this part of request_us. Otherwise a
 * stream of requests would cancel it again and again, and it would never be done. */
#define SHARE_PART 4

/* When the worker's request has to make way: half of another request's time is gone, and this one
 * has had its share. m->mu is held. */
static int64_t ops_cancel_at(const sqlock *m)
{
    int64_t first = TIME_NEVER, share = m->driving_since + m->request_us / SHARE_PART;

    assert(mutex_is_mine(&m->mu));
    if (m->driving == NULL || m->driving->end_attempt)
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

    assert(!op->async && op->fd < 0);
    if ((op->fd = sqlock_wake_make()) < 0)
        return sqlock_error_set(err, SQLOCK_ESYS, SQLOCK_RETRY, "no file descriptor available");
    mutex_lock(&m->mu);
    op->async = 1;
    list_append(&m->ops, &op->in_manager);
    if (op->done) /* no request was needed */
        sqlock_wake_set(op->fd);
    worker_wake(m, 0);
    timer_wake(m, time_min(op->deadline, ops_cancel_at(m)));
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

    assert(mutex_is_mine(&m->mu));
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

/* No other thread ends an op while the worker drives it. Once it has ended, the finisher may free
 * it before this thread has the mutex again. So its end clears m->driving. */
void ops_drive(sqlock *m, sqlock_op *op)
{
    assert(thread_is_me(m->worker) && m->driving == NULL && op->async);
    if (op_end_if_over(op))
        return;
    m->driving = op;
    m->driving_since = sqlock_now_us();
    op->end_attempt = op->cancelled;
    timer_wake(m, ops_cancel_at(m));
    op_step(op);
    assert(m->driving == NULL || m->driving == op);
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
    if (ops_cancel_at(m) <= sqlock_now_us())
        op_cancel_call(m->driving);
    return time_min(next, ops_cancel_at(m));
}
