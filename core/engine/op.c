/* Requests made of attempts: their life, their deadline, their retries. */
#include <assert.h>
#include <string.h>

#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/model/backoff.h"

#define SERIALIZATION_FAILURE "40001" /* SQLSTATE */
#define HURRY_SLEEP_US        2000

static void op_listener_fires(struct cancel_listener *cut)
{
    op_interrupt(LIST_MEMBER(cut, sqlock_op, listener));
}

int op_start(sqlock *m, sqlock_lock *lock, void (*advance)(sqlock_op *), int32_t wait_ms,
             sqlock_cancel *cancel, sqlock_op **out, sqlock_error *err)
{
    sqlock_op *op = sqlock_mem_alloc(sizeof *op);
    int64_t now = sqlock_now_us();
    int rc;

    if (op == NULL)
        return error_nomem(err);
    mutex_lock(&m->mu);
    rc = manager_start_threads(m);
    if (rc == 0)
        lock->refs++; /* until it is finished, whatever becomes of the handle */
    mutex_unlock(&m->mu);
    if (rc != 0) {
        sqlock_mem_free(op);
        return sqlock_error_set(err, rc, SQLOCK_RETRY, "no thread or descriptor to be had");
    }
    op->m = m;
    op->lock = lock;
    op->advance = advance;
    op->begun = op->next_at = now;
    op->once = wait_ms == 0;
    op->deadline = wait_ms == SQLOCK_WAIT_FOREVER ? TIME_NEVER
                   : wait_ms == 0                 ? now + m->request_us
                                                  : now + wait_ms * INT64_C(1000);
    op->fd = -1;
    list_init(&op->in_manager);
    cond_init(&op->wake);
    cancel_listen(&op->listener, cancel, op_listener_fires);
    *out = op;
    return 0;
}

void op_drive(sqlock_op *op)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    while (!op_end_if_over(op)) {
        mutex_unlock(&m->mu);
        op->advance(op);
        mutex_lock(&m->mu);
        while (!op->done && !op->cancelled && sqlock_now_us() < op->next_at)
            cond_wait_until(&op->wake, &m->mu, op->next_at);
    }
    mutex_unlock(&m->mu);
}

void op_cancel_call(sqlock_op *op)
{
    sqlock *m = op->m;

    op->cut = 1;
    if (op->running != NULL)
        pool_cancel_call(m, op->running);
    if (op->connecting != NULL)
        pool_cancel_call(m, op->connecting);
    cond_wake_all(&m->conn_free);
}

void op_interrupt(sqlock_op *op)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    op->cancelled = 1;
    if (op->async && op != m->driving) /* the worker may be kept by a call of another one */
        op_end_if_over(op);
    else
        op_cancel_call(op);
    cond_wake_all(&op->wake);
    mutex_unlock(&m->mu);
}

/* As much as an older caller's struct has room for. */
static void op_give_holder(sqlock_holder *out, const sqlock_holder *holder)
{
    uint32_t size = out->size;

    memcpy(out, holder, size < sizeof *holder ? size : sizeof *holder);
    out->size = size;
}

int op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock *m = op->m;
    int code;

    mutex_lock(&m->mu);
    while (!op->done)
        cond_wait_until(&op->wake, &m->mu, TIME_NEVER);
    list_remove(&op->in_manager);
    m->refs++; /* the lock's may be the last one */
    lock_unref_locked(op->lock);
    manager_unref_locked(m);
    cancel_unlisten(&op->listener);
    code = op->code;
    if (code != 0)
        error_give(err, &op->err);
    if (op->refused && op->out_holder != NULL)
        op_give_holder(op->out_holder, &op->holder);
    if (op->gives_lock && (code == 0 || code == SQLOCK_EUNSURE) && out_lock != NULL)
        *out_lock = op->lock;
    else if (op->gives_lock)
        lock_free(op->lock);
    sqlock_wake_close(op->fd);
    cond_free(&op->wake);
    sqlock_mem_free(op);
    return code;
}

static void op_done_locked(sqlock_op *op, int code)
{
    if (op->m->driving == op)
        op->m->driving = NULL;
    op->code = code;
    op->done = 1;
    if (op->fd >= 0)
        sqlock_wake_set(op->fd);
    cond_wake_all(&op->wake);
}

/* The finisher may free op as soon as the mutex is let go. */
void op_done(sqlock_op *op, int code)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    op_done_locked(op, code);
    mutex_unlock(&m->mu);
}

void op_abandon(sqlock_op *op)
{
    if (op->done)
        return;
    if (op->unsure)
        op_done_locked(op, sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                            "the manager was closed before an answer came"));
    else
        op_done_locked(op,
                       sqlock_error_set(&op->err, SQLOCK_ECANCELLED, 0, "the manager was closed"));
}

void op_again(sqlock_op *op, int64_t at)
{
    mutex_lock(&op->m->mu);
    op->next_at = time_min(at, op->deadline); /* no pause makes it end late (P8) */
    mutex_unlock(&op->m->mu);
}

void op_retry_at_once(sqlock_op *op)
{
    int64_t now = sqlock_now_us();

    op_again(op, op->retries_at_once++ % HURRIES < HURRIES - 1 ? now : now + HURRY_SLEEP_US);
}

int64_t op_pause(sqlock_op *op)
{
    int64_t half = backoff_span(op->refusals++) / 2;

    return half + sqlock_random_below((uint32_t)half);
}

void op_handshake(sqlock_op *op)
{
    op->greet = 1;
    op_retry_at_once(op);
}

static int op_unsure(sqlock_op *op)
{
    char last[sizeof op->err.text];

    memcpy(last, op->err.text, sizeof last);
    return sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE, "the reply was lost: %.200s",
                            last);
}

int op_end_if_over(sqlock_op *op)
{
    if (op->done)
        return 1;
    if (!op->cancelled && (sqlock_now_us() < op->deadline || (op->tries == 0 && !op->async)))
        return 0; /* a thread that was kept from running asks once all the same */
    if (op->unsure)
        op_done_locked(op, op_unsure(op));
    else if (op->cancelled)
        op_done_locked(op, sqlock_error_set(&op->err, SQLOCK_ECANCELLED, 0, "cancelled"));
    else if (op->refused) { /* the last answer stands, whatever was tried after it in vain */
        op->err = op->refusal;
        op_done_locked(op, op->refused);
    } else if (op->err.code != 0)
        op_done_locked(op, op->err.code);
    else
        op_done_locked(op, sqlock_error_set(&op->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                            "the database did not answer in time"));
    return 1;
}

void op_unknown_kind(sqlock_op *op)
{
    op_done(op, sqlock_error_set(&op->err, SQLOCK_ESCHEMA, 0,
                                 "the name's row is of a kind that this version does not know"));
}

int op_is_over(sqlock_op *op)
{
    sqlock *m = op->m;
    int over;

    mutex_lock(&m->mu);
    over = op_end_if_over(op);
    mutex_unlock(&m->mu);
    return over;
}

/* A server that cannot be reached; or of several none that can be written to. */
static int op_is_unreachable(const sqlock_op *op)
{
    return op->err.code == SQLOCK_EUNREACH ||
           (op->err.code == SQLOCK_EREADONLY && (op->err.flags & SQLOCK_RETRY));
}

/* Can another attempt help? A connection that broke under a request is opened again even for a try;
 * a server that cannot be reached is waited for only by those who wait. */
static int op_is_worth_again(const sqlock_op *op)
{
    if (op->err.code == SQLOCK_ECANCELLED)
        return 1; /* an earlier call's, which came late; not ours */
    if (!(op->err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)))
        return 0;
    if (op_is_unreachable(op))
        return !op->once || op->tries == 1 || op->stale || op->unsure;
    return op->err.code == SQLOCK_EDB || op->err.code == SQLOCK_EGUARDED ||
           op->err.code == SQLOCK_ETIMEOUT;
}

static int op_was_not_sent(const sqlock_op *op)
{
    if (op->err.flags & SQLOCK_MAYBE)
        return 0;
    return op->err.code == SQLOCK_ETIMEOUT ||
           (op_is_unreachable(op) &&
            (op->stale || sqlock_now_us() >= op_last_try(op))); /* opening took too long */
}

/* What is locked is tried again as long as there is time. Of a file that is locked nobody knows
 * whether it is a guard; a holder that was told of before has the lock for as long as its lease was
 * to last. */
static void op_note_locked(sqlock_op *op)
{
    if (error_contention(&op->err) != SQLOCK_EGUARDED)
        return;
    if ((op->err.flags & SQLOCK_MAYBE) || op->unsure)
        return;
    if (op->refused == SQLOCK_EBUSY && sqlock_now_us() < op->held_until)
        return;
    memset(&op->holder, 0, sizeof op->holder);
    op->holder.size = sizeof op->holder;
    op->refusal = op->err;
    op->refused = SQLOCK_EGUARDED;
}

void op_failed(sqlock_op *op)
{
    assert(op->err.code != 0); /* it would end as a success */
    op_note_locked(op);
    /* Time ran out before the attempt was sent, or its connection had died in the pool: the word of
     * the one before stands (P18), and another connection is asked for while there is time. */
    if (op->refused && op_was_not_sent(op)) {
        int64_t now = sqlock_now_us();
        int died = op_is_unreachable(op);

        op->err = op->refusal;
        op_again(op, now >= op_last_try(op) ? op->deadline : died ? now : now + op_pause(op));
        return;
    }
    if (op->err.code != SQLOCK_EGUARDED)
        op->refused = 0;
    if (op->err.flags & SQLOCK_MAYBE)
        op->unsure = 1;
    /* Sessions that we set up fail so in lost races alone. A pooler's may have been put to another
     * isolation since their handshake, which is to be refused, not tried for long. */
    if ((op->m->flags & SQLOCK_OPEN_UNPREPARED) &&
        strcmp(op->err.sqlstate, SERIALIZATION_FAILURE) == 0)
        op->greet = 1;
    if (op_is_over(op))
        return;
    if (!op_is_worth_again(op)) {
        op_done(op, op->unsure ? op_unsure(op) : op->err.code);
        return;
    }
    op_again(op, sqlock_now_us() + (op->tries == 1 ? 0 : op_pause(op)));
}
