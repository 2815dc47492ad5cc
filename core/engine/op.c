/* Ops, which make requests until they are done: their life, their deadline, their retries. */
#include <assert.h>
#include <string.h>

#include "core/engine/leavers.h"
#include "core/engine/locks.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/party.h"
#include "core/engine/pool.h"
#include "core/engine/queue.h"
#include "core/model/backoff.h"

#define RETRY_SLEEP_US 2000
#define LOOK_AGAIN_US  10000

static void op_listener_fires(struct cancel_listener *listener)
{
    op_interrupt((sqlock_op *)(void *)listener - 1);
}

int op_start(sqlock *m, sqlock_lock *lock, const struct verb *verb, int32_t wait_ms,
             sqlock_cancel *cancel, sqlock_op **out, sqlock_error *err)
{
    sqlock_op *op =
        sqlock_mem_alloc(sizeof *op + (cancel != NULL ? sizeof(struct cancel_listener) : 0));
    int64_t now = sqlock_now_us();
    int rc;

    if (op == NULL)
        return error_nomem(err);
    assert(lock->m == m && verb != NULL);
    mutex_lock(&m->mu);
    rc = lock_needs_threads(lock) ? manager_start_threads(m) : 0;
    if (rc == 0)
        lock->refs++; /* until op_finish(), even if the handle is freed before */
    mutex_unlock(&m->mu);
    if (rc != 0) {
        sqlock_mem_free(op);
        return sqlock_error_set(err, rc, SQLOCK_RETRY, "no thread or file descriptor available");
    }
    op->m = m;
    op->lock = lock;
    op->verb = verb;
    op->begun = op->next_at = now;
    op->once = wait_ms == 0;
    op->deadline = wait_ms == SQLOCK_WAIT_FOREVER ? TIME_NEVER
                   : wait_ms == 0                 ? now + m->request_us
                                                  : now + wait_ms * INT64_C(1000);
    op->fd = -1;
    list_init(&op->in_manager);
    list_init(&op->in_party);
    if (cancel != NULL) {
        op->listener = (struct cancel_listener *)(void *)(op + 1);
        cancel_listen(op->listener, cancel, op_listener_fires);
    }
    *out = op;
    return 0;
}

void op_leave_to_steps(sqlock_op *op)
{
    sqlock *m = op->m;

    assert(mutex_is_mine(&m->mu));
    if (!op->done && loop_is_mine(m))
        op_done_locked(op, op_error_set(op, SQLOCK_ESTATE, 0,
                                        "a callback may not wait for the manager that calls "
                                        "it"));
    else if (!op->done)
        ops_add(op);
}

static void op_wake_driver(sqlock_op *op)
{
    if (op->wake != NULL)
        cond_wake_all(op->wake);
}

void op_cancel_call(sqlock_op *op)
{
    sqlock *m = op->m;

    assert(mutex_is_mine(&m->mu));
    op->end_attempt = 1;
    if (op->running != NULL)
        pool_cancel_call(m, op->running);
    if (op->connecting != NULL)
        pool_cancel_call(m, op->connecting);
    op_wake_driver(op);
}

void op_interrupt(sqlock_op *op)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    op->cancelled = 1;
    ops_plan(op);
    if (op->async && op->driven_by == NULL) /* the worker may hang in another op's call */
        op_end_if_over(op, sqlock_now_us());
    else
        op_cancel_call(op);
    mutex_unlock(&m->mu);
}

int op_descriptor(sqlock_op *op)
{
    assert(mutex_is_mine(&op->m->mu));
    if (op->fd < 0)
        op->fd = sqlock_wake_make();
    if (op->fd >= 0 && op->done)
        sqlock_wake_set(op->fd);
    return op->fd;
}

/* Without threads, a caller that blocks steps the manager itself, so that renewals go on. */
static void op_await(sqlock_op *op)
{
    cond done;
    int fd;

    if (op->m->loop == NULL || loop_is_mine(op->m)) {
        cond_init(&done);
        op->awaited = &done;
        cond_wait_until(&done, &op->m->mu, TIME_NEVER);
        op->awaited = NULL;
        cond_free(&done);
        return;
    }
    /* Without a descriptor, look again and again. */
    fd = op_descriptor(op);
    loop_pump(op->m, fd, fd >= 0 ? TIME_NEVER : sqlock_now_us() + LOOK_AGAIN_US);
}

/* op is done. m->mu is held, and released here. */
static int op_take_result(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock *m = op->m;
    int code;

    assert(op->driven_by == NULL && op->running == NULL && op->connecting == NULL);
    if (op->listener != NULL) { /* before the last reference to the manager may go */
        mutex_unlock(&m->mu);
        cancel_unlisten(op->listener);
        mutex_lock(&m->mu);
    }
    list_remove(&op->in_manager);
    m->refs++; /* op's lock may hold the last reference to the manager */
    if (op->pass.next != NULL)
        lock_unref_locked(op->pass.next);
    if (op->former != NULL)
        lock_unref_locked(op->former);
    lock_unref_locked(op->lock);
    code = op->code;
    if (code != 0)
        op_give_error(err, op);
    error_forget(&op->err);
    error_forget(&op->refusal);
    manager_unref_locked(m);
    if (code != 0 && op->refused && op->out_holder != NULL)
        op_give_holder(op->out_holder, op);
    if (op->hides_lock)
        lock_free(op->lock);
    else if (op->gives_lock && (code == 0 || code == SQLOCK_EUNSURE) && out_lock != NULL)
        *out_lock = op->lock;
    else if (op->gives_lock)
        lock_free(op->lock);
    if (op->fd >= 0)
        sqlock_wake_close(op->fd);
    sqlock_mem_free(op->holder);
    sqlock_mem_free(op);
    return code;
}

int op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    mutex_lock(&op->m->mu);
    while (!op->done)
        op_await(op);
    return op_take_result(op, out_lock, err);
}

void op_drive_alone(sqlock_op *op)
{
    int64_t now = op->begun;
    cond wake;

    assert(!op->async); /* the worker drives those */
    cond_init(&wake);
    op->wake = &wake;
    while (!op->done && !op_end_if_over(op, now)) {
        op_step(op, now);
        while (!op->done && !op->cancelled && (now = sqlock_now_us()) < op->next_at)
            cond_wait_until(&wake, &op->m->mu, op->next_at);
    }
    op->wake = NULL; /* it may have been done before, and be cancelled later */
    cond_free(&wake);
}

int op_drive(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    mutex_lock(&op->m->mu);
    if (op->m->loop != NULL)
        op_leave_to_steps(op);
    else
        op_drive_alone(op);
    while (!op->done)
        op_await(op);
    return op_take_result(op, out_lock, err);
}

void op_replace(sqlock_op *op, sqlock_lock *former)
{
    assert(mutex_is_mine(&op->m->mu) && op->tries == 0 && !former->changes);
    op->former = former;
    former->refs++;
    former->changes = 1;
}

void op_done_locked(sqlock_op *op, int code)
{
    assert(!op->done);
    assert(code == 0 || op->err.code == code);
    if (op->verb->on_end != NULL)
        code = op->verb->on_end(op, code);
    if (op->driven_by != NULL)
        *op->driven_by = NULL; /* and no one drives it */
    op->driven_by = NULL;
    op->code = code;
    op->done = 1;
    if (op->in_queue != NULL)
        queue_end(op, code);
    if (op->m->queue.end != QUEUE_LASTS)
        leavers_end_op(op);
    party_ends(op);
    ops_plan(op);
    if (op->fd >= 0)
        sqlock_wake_set(op->fd);
    op_wake_driver(op);
    op->wake = NULL;
    if (op->awaited != NULL)
        cond_wake_all(op->awaited);
}

/* Its thread sleeps, or the worker does, until a time that may be too late now. */
static void op_rouse(sqlock_op *op)
{
    ops_plan(op);
    if (op->async)
        worker_wake(op->m, op->next_at);
    else
        op_wake_driver(op);
}

/* Who sleeps until an earlier time finds out then, and sleeps on. */
void op_wake(sqlock_op *op, int64_t at)
{
    const int sooner = at < op->next_at;

    assert(mutex_is_mine(&op->m->mu) && !op->done);
    op_again(op, at);
    if (sooner)
        op_rouse(op);
    else
        ops_plan(op);
}

void op_end(sqlock_op *op, int code)
{
    mutex_lock(&op->m->mu);
    op_done_locked(op, code);
    mutex_unlock(&op->m->mu);
}

/* What the verb decided takes effect. As soon as the mutex is released, another thread may free an
 * op that is done. */
static void op_act(sqlock_op *op)
{
    lock_act(op->lock);
    if (op->former != NULL)
        lock_act(op->former);
    if (op->decided)
        op_done_locked(op, op->code);
}

static void op_attempt_begins(sqlock_op *op, struct attempt *at)
{
    assert(!op->decided && op->attempt == NULL);
    at->op = op;
    at->taken_along = 0;
    at->waiter = NULL;
    at->batch = NULL;
    list_init(&at->in_company);
    op->attempt = at;
}

int op_choose(sqlock_op *op, int64_t now, struct attempt *at)
{
    op_attempt_begins(op, at);
    if (op->verb->next(op, now)) {
        if (op->former != NULL)
            lock_act(op->former);
        party_sends(op, now);
        return 1;
    }
    op->attempt = NULL;
    op_act(op);
    return 0;
}

int op_request(sqlock_op *op, int64_t now)
{
    sqlock_rows rows;
    int rc;

    rows_init(&rows);
    rc = op_attempt(op, now, &rows);
    if (rc == 0)
        op->verb->on_answer(op, &op->attempt->answer, sqlock_now_us());
    else if (op->verb->on_failure != NULL)
        op->verb->on_failure(op, sqlock_now_us());
    else
        op_failed(op, sqlock_now_us());
    rows_end(&rows);
    op->attempt = NULL;
    op_act(op);
    return rc == 0;
}

void op_take_answer(sqlock_op *op, const struct answer *a, int64_t now)
{
    assert(op->parked && op->attempt == NULL);
    op->parked = 0;
    op->server = a->server;
    op_again(op, now);
    op->verb->on_answer(op, a, now);
    op_act(op);
    if (!op->done)
        op_rouse(op);
}

void op_step(sqlock_op *op, int64_t now)
{
    struct attempt at;

    if (op_choose(op, now, &at))
        op_request(op, now);
}

void op_abandon(sqlock_op *op)
{
    assert(mutex_is_mine(&op->m->mu) && op->m->stopping);
    if (op->done)
        return;
    if (op->succeeded)
        op_done_locked(op, 0);
    else if (op->unsure)
        op_done_locked(op, op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                        "the manager was closed before an answer came"));
    else
        op_done_locked(op, op_error_set(op, SQLOCK_ECANCELLED, 0, "the manager was closed"));
}

int op_send(sqlock_op *op, sqlock_stmt stmt)
{
    struct request *r = &op->attempt->request;

    r->stmt = stmt;
    r->values = r->few.v;
    r->n = 1;
    r->rows = NULL;
    r->flags = 0;
    return 1;
}

void op_done(sqlock_op *op, int code)
{
    assert(!op->decided);
    op->decided = 1;
    op->code = code;
}

void op_again(sqlock_op *op, int64_t at)
{
    assert(op->running == NULL && op->connecting == NULL && !op->decided);
    op->next_at = time_min(at, op->deadline); /* a pause never delays the op's end (P8) */
}

void op_retry_at_once(sqlock_op *op, int64_t now)
{
    op_again(op, op->retries_at_once++ % RETRIES_AT_ONCE < RETRIES_AT_ONCE - 1
                     ? now
                     : now + RETRY_SLEEP_US);
}

int64_t op_pause(sqlock_op *op)
{
    int64_t half = backoff_span(op->refusals++) / 2;

    return half + sqlock_random_below((uint32_t)half);
}

void op_handshake(sqlock_op *op, int64_t now)
{
    op->needs_handshake = 1;
    op_retry_at_once(op, now);
}

/* A thread that got no CPU time still makes one attempt. Of a list only the first name does. */
int op_is_over(const sqlock_op *op, int64_t now)
{
    return op->cancelled || (now >= op->deadline && (op->tries > 0 || op->async || op->behind));
}

int op_end_if_over(sqlock_op *op, int64_t now)
{
    assert(mutex_is_mine(&op->m->mu));
    if (op->done)
        return 1;
    if (!op_is_over(op, now))
        return 0;
    if (op->succeeded)
        op_done_locked(op, 0);
    else if (op->unsure)
        op_done_locked(op, op_unsure(op));
    else if (op->cancelled)
        op_done_locked(op, op_error_set(op, SQLOCK_ECANCELLED, 0, "cancelled"));
    else if (op->refused) { /* the last answer stands, even if later attempts failed */
        assert(op->refusal.code == op->refused);
        error_share(&op->err, &op->refusal);
        op_done_locked(op, op->refused);
    } else if (op->err.code != 0)
        op_done_locked(op, op->err.code);
    else
        op_done_locked(op, op_error_set(op, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                        "the database did not answer in time"));
    return 1;
}
