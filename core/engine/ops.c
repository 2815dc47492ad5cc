/* The requests of event loops. The worker drives one at a time; without threads, each is driven on
 * a coroutine of its own. The timer ends those that run out
 * of time while the worker hangs in a call (P8, P19). */
#include <assert.h>

#include "core/engine/op.h"

/* The worker's call is cancelled for other requests only after this part of request_us. Otherwise a
 * stream of requests would cancel it again and again, and it would never be done. */
#define SHARE_PART 4

static int64_t ops_half(const sqlock_op *op)
{
    return op->deadline == TIME_NEVER ? TIME_NEVER : op->next_at + (op->deadline - op->next_at) / 2;
}

static struct heap *ops_starts(sqlock *m, bool urgent)
{
    return urgent ? &m->op_urgent : &m->op_starts;
}

/* An op that is driven is due for nothing else. One that its caller drives never is. */
void ops_plan(sqlock_op *op)
{
    sqlock *m = op->m;
    bool waits, urgent;
    int64_t start;

    if (!op->async)
        return;
    assert(mutex_is_mine(&m->mu));
    waits = !op->done && op->driven_by == NULL;
    urgent = op->lock->pending != PENDING_ACQUIRE || op->settle;
    start = !waits ? TIME_NEVER : op->cancelled ? 0 : op->next_at;
    if (op->urgent != urgent)
        heap_set(ops_starts(m, op->urgent), &op->start, TIME_NEVER);
    op->urgent = urgent;
    heap_set(ops_starts(m, urgent), &op->start, start);
    heap_set(&m->op_halves, &op->half, waits ? ops_half(op) : TIME_NEVER);
    heap_set(&m->op_ends, &op->end, waits ? op->deadline : TIME_NEVER);
}

/* When the worker's request has to make way: half of another request's time is gone, and this one
 * has had its share. m->mu is held. */
static int64_t ops_cancel_at(const sqlock *m)
{
    assert(mutex_is_mine(&m->mu));
    if (m->driving == NULL || m->driving->end_attempt)
        return TIME_NEVER;
    return time_max(heap_due(&m->op_halves), m->driving_since + m->request_us / SHARE_PART);
}

void ops_add(sqlock_op *op)
{
    sqlock *m = op->m;

    assert(mutex_is_mine(&m->mu) && !op->async);
    op->async = 1;
    list_append(&m->ops, &op->in_manager);
    ops_plan(op);
    worker_wake(m, 0);
    timer_wake(m, time_min(op->deadline, ops_cancel_at(m)));
}

int op_go_async(sqlock_op *op, sqlock_error *err)
{
    sqlock *m = op->m;
    int rc;

    assert(!op->async);
    mutex_lock(&m->mu);
    if ((rc = manager_start_threads(m)) == 0)
        ops_add(op);
    mutex_unlock(&m->mu);
    return rc == 0
               ? 0
               : sqlock_error_set(err, rc, SQLOCK_RETRY, "no thread or file descriptor available");
}

int64_t ops_due(const sqlock *m)
{
    return time_min(heap_due(&m->op_starts), heap_due(&m->op_urgent));
}

int64_t ops_urgent_due(const sqlock *m)
{
    return heap_due(&m->op_urgent);
}

sqlock_op *ops_take(sqlock *m, sqlock_op **place)
{
    bool urgent = heap_due(&m->op_urgent) <= sqlock_now_us();
    sqlock_op *op = HEAP_FIRST(ops_starts(m, urgent), sqlock_op, start);

    assert(ops_due(m) <= sqlock_now_us() && op->async && op->driven_by == NULL);
    op->driven_by = place;
    *place = op;
    ops_plan(op);
    return op;
}

/* No one else ends an op while it is driven. Once it has ended, the finisher may free it before
 * this thread has the mutex again. So its end clears the place. */
void ops_drive(sqlock_op *op, sqlock_op **place)
{
    sqlock *m = op->m;
    int64_t now = sqlock_now_us();
    cond wake;

    assert(mutex_is_mine(&m->mu) && *place == op && op->driven_by == place);
    if (op_end_if_over(op, now))
        return;
    op->end_attempt = op->cancelled;
    timer_wake(m, ops_cancel_at(m));
    cond_init(&wake);
    op->wake = &wake;
    op_step(op, now);
    cond_free(&wake);
    assert(*place == NULL || *place == op);
    if (*place == NULL)
        return;
    *place = NULL;
    op->wake = NULL;
    op->driven_by = NULL;
    ops_plan(op);
    timer_wake(m, op->deadline);
}

void ops_tick(sqlock *m)
{
    int64_t now = sqlock_now_us();

    while (heap_due(&m->op_ends) <= now)
        op_end_if_over(HEAP_FIRST(&m->op_ends, sqlock_op, end), now);
    if (ops_cancel_at(m) <= now)
        op_cancel_call(m->driving);
}

int64_t ops_tick_due(const sqlock *m)
{
    return time_min(heap_due(&m->op_ends), ops_cancel_at(m));
}
