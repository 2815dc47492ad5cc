/* A release that passes the lock on to who waits for it. */
#include <assert.h>
#include <string.h>

#include "core/engine/leavers.h"
#include "core/engine/lines.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"
#include "core/leases/passing.h"
#include "core/sql/texts.h"

/* So long a waiter of this manager leaves it to the answer to say that it has the lock. */
#define ANSWER_US INT64_C(20000)

/* NULL: no one. What is sent points into its lock, and its op may end meanwhile. */
static sqlock_lock *passing_next(sqlock_op *op, int64_t now)
{
    struct place *p = queue_is_alive(op->m, now) ? line_next(op->lock, now) : NULL;

    assert(op->pass.next == NULL);
    if (p == NULL)
        return NULL;
    p->sent = 1;
    op->pass.next = p->op->lock;
    op->pass.next->refs++;
    return op->pass.next;
}

static int passing_send_release(sqlock_op *op, int64_t token)
{
    const sqlock_lock *lock = op->lock;

    return OP_SEND(op, SQLOCK_STMT_RELEASE, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->key_len),
                   value_bytes(lock->owner, sizeof lock->owner), value_int(token),
                   value_int(lock->seat >= 0));
}

/* Others wait, or may. None waits for a seat's own row. */
static int passing_is_due(const sqlock_op *op)
{
    return op->lock->seat < 0 &&
           (op->pass.passes || op->lock->contended || op->m->queue.owners.n > 0) &&
           texts_has(op->m->texts, SQLOCK_STMT_PASS, NULL) == 0;
}

int passing_send(sqlock_op *op, int64_t token, int64_t now)
{
    const sqlock_lock *lock = op->lock, *gets = lock;
    const sqlock *m = op->m;
    int due = passing_is_due(op);
    sqlock_lock *next = due ? passing_next(op, now) : NULL;
    const sqlock_value no_one = {.type = SQLOCK_NULL};
    const char *label;
    int64_t not_after;

    if (!due || (next == NULL && !op->pass.passes && !lock->contended))
        return passing_send_release(op, token);
    if (next != NULL)
        gets = next;
    not_after = verb_not_after(op, gets, now);
    if (next != NULL)
        next->lost_until = time_max(next->lost_until, not_after);
    line_passes(lock, now + ANSWER_US);
    label = lock_label(gets);
    return OP_SEND(
        op, SQLOCK_STMT_PASS, value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->name_len), value_bytes(lock->owner, sizeof lock->owner),
        value_int(token), next != NULL ? value_bytes(next->owner, sizeof next->owner) : no_one,
        value_int(lock_turn_us(gets)), value_int(m->grace_us), value_bytes(label, strlen(label)),
        value_bytes(m->queue.client, sizeof m->queue.client), value_int(not_after),
        value_int(gets->mode));
}

static int passing_names(const struct answer *a, const sqlock_lock *next)
{
    return a->has_next && memcmp(a->next_owner, next->owner, sizeof next->owner) == 0;
}

/* Without a request of its own. Where others have seats, it only has the turn. */
static int passing_granted(const struct answer *a, const sqlock_lock *next)
{
    return passing_names(a, next) && a->next_token > 0;
}

/* It has sent nothing itself. If its last try comes to nothing, the lock was busy all the same: the
 * answer of the pass has shown it (P18). */
static void passing_note_busy(sqlock_op *op, int64_t place)
{
    sqlock_error err;

    op_note_no_holder(op, place);
    sqlock_error_set(&err, SQLOCK_EBUSY, SQLOCK_RETRY,
                     "passed on to one that came before, place %lld in the queue",
                     (long long)place);
    error_keep(&op->refusal, &err);
    op->refused = op->unsure ? 0 : SQLOCK_EBUSY;
}

/* The lock went to another waiter of this manager, and no other manager waits: so no one queued the
 * one that waits alone, and it waits on. */
static int passing_leaves_alone(const sqlock *m, const struct answer *a, const struct place *p)
{
    return a->place == 0 && a->has_next && a->next_token > 0 && !list_is_empty(&p->in_line) &&
           memcmp(a->next_client, m->queue.client, sizeof a->next_client) == 0;
}

/* What the answer says of the one that waited alone. It may have ended meanwhile: it gave up, or
 * has looked and found its grant before this answer came. Where it is not granted the lock and not
 * in the queue, it has to look. */
static void passing_tell(sqlock_op *op, const struct answer *a, const sqlock_lock *next)
{
    struct place *p = queue_find_for(next, next->owner);
    int granted = passing_granted(a, next);

    if (p == NULL) {
        if (next->gave_up && (passing_names(a, next) || a->place > 0))
            leavers_give_back(next);
    } else if (!granted && passing_leaves_alone(op->m, a, p)) {
        p->sent = 0;
    } else if (!granted) {
        line_queue(p);
        line_number(p, a->place);
        p->since = a->place > 0 ? a->received : 0;
        if (a->place == 0)
            place_call(p);
        else if (p->op->tries == 0)
            passing_note_busy(p->op, a->place);
    }
}

int passing_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_lock *next = op->pass.next;

    line_passes(op->lock, 0);
    op->pass.next = NULL;
    if (next != NULL) {
        passing_tell(op, a, next);
        lock_unref_locked(next);
    }
    if (a->outcome != SQLOCK_OUT_QUEUED)
        return 0;
    op->pass.passes = 1;
    op_again(op, now);
    return 1;
}

void passing_failed(sqlock_op *op)
{
    sqlock_lock *next = op->pass.next;
    struct place *p = next != NULL ? queue_find_for(next, next->owner) : NULL;

    line_passes(op->lock, 0);
    op->pass.next = NULL;
    if (next == NULL)
        return;
    if (p != NULL) {
        line_queue(p);
        place_call(p);
    } else if (next->gave_up) {
        leavers_give_back(next); /* what it may have been granted */
    }
    lock_unref_locked(next);
}
