/* How an acquire waits: in the queue of the database, where a release passes the lock on. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/engine/leavers.h"
#include "core/engine/lines.h"
#include "core/engine/locks.h"
#include "core/engine/party.h"
#include "core/leases/acquire.h"
#include "core/leases/leases.h"
#include "core/sql/texts.h"

#define WORTH_US   INT64_C(50000)
#define GUARDED_US INT64_C(75000)

/* A place costs others two requests that write: one to come, and one to leave. Whoever will not
 * wait for long tries again and again instead, and overtakes no one either. */
static int waiting_is_worth_a_place(const sqlock_op *op)
{
    return !op->once && !op->settle && op->deadline - op->begun >= WORTH_US;
}

/* The others have been refused, or have the turn, and the database has answered a moment ago. If
 * it ends before it has sent anything itself, the lock was busy all the same (P18). */
static void waiting_note_behind(sqlock_op *op)
{
    sqlock_error err;

    if (op->refused || !queue_is_alive(op->m, sqlock_now_us()))
        return;
    op_note_no_holder(op, 0);
    sqlock_error_set(&err, SQLOCK_EBUSY, SQLOCK_RETRY, "others of this program wait for it");
    error_keep(&op->refusal, &err);
    op->refused = op->unsure ? 0 : SQLOCK_EBUSY;
}

/* Behind others of this manager. They pass the lock on among themselves, or, if they cannot, each
 * needs a place. Shared holders and those of slots go together, and pass nothing on. */
static int waiting_joins(sqlock_op *op)
{
    if (line_of(op->lock) == NULL)
        return 0;
    if (op->lock->mode != SQLOCK_EXCLUSIVE ||
        texts_has(op->m->texts, SQLOCK_STMT_PASS, NULL) != 0) {
        op->phase = ACQUIRE_QUEUE;
        return queue_enter(op, 0);
    }
    if (!queue_enter(op, 1))
        return 0;
    waiting_note_behind(op);
    op->parked = 1;
    op_again(op, op_last_try(op));
    return 1;
}

int waiting_may_queue(const sqlock_op *op)
{
    return queue_serves(op->m) && waiting_is_worth_a_place(op) && !change_must_not_wait(op);
}

void waiting_begins(sqlock_op *op)
{
    if (op->m->queue.names.n > 0 && waiting_is_worth_a_place(op))
        waiting_joins(op);
}

void waiting_found(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (change_must_not_wait(op)) {
        acquire_refused(op, SQLOCK_EBUSY, a, now);
        return;
    }
    if (waiting_is_worth_a_place(op))
        queue_enter(op, 0);
    op->phase = ACQUIRE_QUEUE;
    op_again(op, now);
}

int waiting_send(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;
    sqlock *m = op->m;
    const char *label = lock_label(lock);
    const int again = op->in_queue != NULL && op->in_queue->sent;

    if (op->in_queue != NULL && !queue_is_alive(m, now)) {
        op->phase = ACQUIRE_BEAT;
        return OP_SEND(op, SQLOCK_STMT_BEAT, value_bytes(m->queue.client, sizeof m->queue.client),
                       value_int(QUEUE_ALIVE_US), value_int(0)); /* it may not be the connection
                                                                    that listens */
    }
    op->acquire.not_after = verb_not_after(op, lock, now);
    if (op->in_queue != NULL) {
        line_queue(op->in_queue);
        op->in_queue->called = 0;
        op->in_queue->sent = 1;
    }
    return OP_SEND(
        op, SQLOCK_STMT_QUEUE, value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->name_len), value_bytes(lock->owner, sizeof lock->owner),
        value_int(lock_turn_us(lock)), value_int(op->acquire.not_after), value_int(m->grace_us),
        value_bytes(label, strlen(label)), value_bytes(m->queue.client, sizeof m->queue.client),
        value_int(op->in_queue != NULL), value_int(lock->mode), value_int(again));
}

/* What it was granted meanwhile it keeps: the next look shows that. */
int waiting_send_leave(sqlock_op *op)
{
    const sqlock_lock *lock = op->lock;

    return OP_SEND(op, SQLOCK_STMT_LEAVE, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->name_len),
                   value_bytes(lock->owner, sizeof lock->owner), value_int(GIVES_NOTHING));
}

/* It was not granted, but its place may still be granted the lock. So it leaves first, and then
 * the same request shows what became of it. */
void waiting_leaves(sqlock_op *op, int64_t now)
{
    op->refused = 0;
    op->unsure = 1;
    op->phase = ACQUIRE_LEAVE;
    op_again(op, now);
}

/* As long as another transaction has the row, it has not left. */
void waiting_left(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (a->outcome == SQLOCK_OUT_SKIPPED) {
        verb_locked(op, now);
        return;
    }
    op->lock->queued = false;
    op->phase = ACQUIRE_GRANT;
    op_again(op, now);
}

void waiting_lives(sqlock_op *op, const struct answer *a)
{
    queue_lives(op->m, a->sent);
    op->phase = ACQUIRE_QUEUE;
}

void waiting_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    struct place *p = op->in_queue;

    queue_call(op->lock, a, now);
    if (p == NULL)
        return;
    line_number(p, a->place);
    p->since = a->place > 0 ? a->received : 0;
    if (a->place > 0)
        op->acquire.unlike_at = 0;
}

/* A transaction is in the way, whose end no one notifies. */
static int waiting_looks_later(sqlock_op *op, int64_t last, int64_t now)
{
    op_again(op, time_min(now + time_min(op_pause(op), GUARDED_US), last));
    return 1;
}

/* The next in line looks when the lease in the way ends, and some behind it a moment later. Others
 * are called, or find out at a beat. */
int waiting_in_queue(sqlock_op *op, int64_t left, int queued, int64_t last, int64_t now)
{
    struct place *p = op->in_queue;
    int next;

    if (!queue_serves(op->m) || !waiting_is_worth_a_place(op))
        return 0;
    if (p == NULL && !queued && waiting_joins(op)) {
        if (!op->parked)
            op_again(op, now);
        return 1;
    }
    if (!queued || p == NULL) {
        if (queued || !queue_enter(op, 0))
            return 0;
        op->phase = ACQUIRE_QUEUE;
        if (left < 0 && op->in_queue->sent)
            return waiting_looks_later(op, last, now);
        op_again(op, now);
        return 1;
    }
    if (p->number == 0)
        return 0; /* it has just left: look again */
    next = p->number == 1;
    if (next && left < 0)
        return waiting_looks_later(op, last, now);
    if (p->called) {
        op_again(op, now);
        return 1;
    }
    op->parked = 1;
    op_again(op, left < 0 ? last : place_due(p, now + left, last));
    return 1;
}

int64_t waiting_number(const sqlock_op *op)
{
    return op->in_queue != NULL ? op->in_queue->number : 0;
}

const char *waiting_place(int64_t place, char *out, size_t size)
{
    out[0] = '\0';
    if (place > 0)
        snprintf(out, size, ", place %lld in the queue", (long long)place);
    return out;
}

/* The last try is not about a place. Who was called may have been granted the lock, unless it
 * waited alone. Where nothing calls it, its own look has: then QUEUE does both, and waits for a
 * newcomer that has just locked the row. But a request for a place takes no other names along. */
void waiting_ends(sqlock_op *op, int64_t now)
{
    struct place *p = op->in_queue;
    int granted = p->called && p->sent && (op->m->queue.hears || party_takes_along(op));

    op->parked = 0;
    if (op->tries == 0 && !queue_is_alive(op->m, now))
        op->refused = 0;
    if (seats_wait_ends(op))
        return;
    op->phase = granted || now >= op_last_try(op) ? ACQUIRE_GRANT : ACQUIRE_QUEUE;
    op->acquire.called = granted;
    p->called = 0;
}

/* What it may have been granted it takes up, or settles, first. The next look finds the circle
 * again. */
int waiting_gives_up(sqlock_op *op)
{
    struct place *p = op->in_queue;
    int gives_up;

    if (p == NULL || p->circle == NULL)
        return 0;
    gives_up = op->refused && !p->called && !op->unsure && op->lock->given_back == 0;
    if (gives_up)
        op_done(op, op_error_set(op, SQLOCK_EDEADLOCK, SQLOCK_RETRY, "%s", p->circle));
    sqlock_mem_free(p->circle);
    p->circle = NULL;
    return gives_up;
}
