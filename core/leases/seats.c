/* Locks with several holders: shared ones, and those of slots. Each has a seat, a row beside the
 * lock's own. Whoever has that row has the turn: to take a seat, or to wait until all seats are
 * empty, and then to hold the lock alone. The queue is for the turn, so a waiting exclusive holder
 * keeps later shared ones behind it (P21). After the fair read-write locks that let readers and
 * writers through one turnstile. */
#include <stdio.h>
#include <string.h>

#include "core/engine/leavers.h"
#include "core/engine/lines.h"
#include "core/engine/locks.h"
#include "core/leases/acquire.h"
#include "core/leases/leases.h"

#define LOOK_LEAST_US   INT64_C(2000)
#define LOOK_MOST_US    INT64_C(50000)
#define LOOK_HEARING_US (LOCK_TURN_US / 3) /* the turn is extended as often */

int seats_send(sqlock_op *op, int64_t now)
{
    sqlock_lock *lock = op->lock;
    const char *label = lock_label(lock);

    lock_sit(lock, -1);
    op->acquire.not_after = verb_not_after(op, lock, now);
    return OP_SEND(
        op, SQLOCK_STMT_SEAT, value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->name_len), value_bytes(lock->owner, sizeof lock->owner),
        value_int(lock->lease.ttl), value_int(op->acquire.not_after), value_int(op->m->grace_us),
        value_bytes(label, strlen(label)), value_int(lock->mode), value_int(lock->downgrades));
}

int seats_send_drain(sqlock_op *op)
{
    const sqlock_lock *lock = op->lock, *beside = op->former != NULL ? op->former : lock;

    return OP_SEND(op, SQLOCK_STMT_DRAIN, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->name_len),
                   value_bytes(lock->owner, sizeof lock->owner),
                   value_bytes(beside->owner, sizeof beside->owner));
}

int seats_is_turn(const sqlock_op *op, const struct answer *a)
{
    return a->outcome == SQLOCK_OUT_TURN ||
           (a->outcome == SQLOCK_OUT_DONE && op->lock->mode != SQLOCK_EXCLUSIVE &&
            op->lock->seat < 0);
}

/* If it ends without the lock, its place gives the turn back. */
void seats_turn(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (!op->acquire.has_turn)
        op->acquire.turn_came = a->received;
    op->acquire.has_turn = 1;
    op->acquire.turned = a->sent;
    op->retries_at_once = 0;
    if (queue_enter(op, 0))
        op->in_queue->sent = 1;
    op->phase = op->lock->mode != SQLOCK_EXCLUSIVE ? ACQUIRE_SEAT : ACQUIRE_DRAIN;
    op_again(op, now);
    change_turned(op, a);
}

/* A request for a seat may get one. For the lock alone the drain says who is in the way. */
void seats_found(sqlock_op *op, int64_t now)
{
    op->acquire.has_turn = 0;
    op->phase = op->lock->mode != SQLOCK_EXCLUSIVE ? ACQUIRE_SEAT : ACQUIRE_DRAIN;
    op_again(op, now);
}

/* In words. */
static const char *seats_name(int64_t mode, char *out, size_t size)
{
    if (mode > 0)
        snprintf(out, size, mode > 1 ? "%lld slots" : "%lld slot", (long long)mode);
    else
        snprintf(out, size, mode == SQLOCK_SHARED ? "a shared lock" : "an exclusive one");
    return out;
}

/* Others use the lock, or wait for it, in a mode that does not go with the op's. */
static int seats_say(sqlock_op *op, int code, const char *how, int64_t mode)
{
    char has[40], wants[40];

    return op_error_set(op, code, code == SQLOCK_EBUSY ? SQLOCK_RETRY : 0, "%s as %s, not as %s",
                        how, seats_name(mode, has, sizeof has),
                        seats_name(op->lock->mode, wants, sizeof wants));
}

/* For who settles, it is busy. */
static void seats_refuse(sqlock_op *op, const char *how, int64_t mode, const struct answer *a,
                         int64_t now)
{
    acquire_unlike(op, seats_say(op, op->settle ? SQLOCK_EBUSY : SQLOCK_EREFUSED, how, mode), a,
                   now);
}

/* The waiter may have given up, and not yet left; or it is dead, and that is not yet known. So the
 * lock is busy, until a waiter has stood there for longer than that can last. */
void seats_unlike(sqlock_op *op, const struct answer *a, int64_t now)
{
    static const char how[] = "others wait for the lock";

    if (op->acquire.unlike_at == 0)
        op->acquire.unlike_at = a->received;
    if (a->sent - op->acquire.unlike_at >= QUEUE_ALIVE_US)
        seats_refuse(op, how, a->token, a, now);
    else if (seats_say(op, SQLOCK_EBUSY, how, a->token) != 0)
        acquire_behind(op, a, now);
}

/* The turn was kept, for others wait. */
static void seats_take(sqlock_op *op, const struct answer *a)
{
    sqlock_lock *lock = op->lock;

    lock_sit(lock, rows_int(a->rows, 0, SQLOCK_COL_SEAT, 0));
    op->acquire.has_turn = 0;
    if (rows_int(a->rows, 0, SQLOCK_COL_KEPT, 0) != 0)
        leavers_pass_turn(lock, a->token);
}

int seats_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (verb_looks_again(op, a))
        return 1;
    switch (a->outcome) {
    case SQLOCK_OUT_DONE:
        seats_take(op, a);
        return 0;
    case SQLOCK_OUT_UNLIKE:
        op->acquire.unlike = a->token;
        op->phase = ACQUIRE_DRAIN;
        op_again(op, now);
        return 1;
    case SQLOCK_OUT_FULL:
        acquire_refused(op, SQLOCK_EBUSY, a, now);
        return 1;
    case SQLOCK_OUT_GUARDED:
        acquire_refused(op, SQLOCK_EGUARDED, a, now);
        return 1;
    default:
        return 0;
    }
}

/* The first look only reads, and says of which kind the seat is. */
static void seats_stand(sqlock_op *op, const struct answer *a, int64_t now)
{
    int64_t kind = rows_int(a->rows, 0, SQLOCK_COL_SEATS, SQLOCK_SHARED);

    if (op->acquire.unlike != 0 && kind == op->lock->mode) { /* these came meanwhile */
        op->acquire.unlike = 0;
        op->phase = ACQUIRE_GRANT;
        op_retry_at_once(op, now);
    } else if (op->acquire.unlike != 0 || kind != SQLOCK_SHARED)
        seats_refuse(op, "the lock is in use", kind, a, now);
    else
        acquire_refused(op, SQLOCK_EBUSY, a, now);
}

void seats_drained(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (verb_looks_again(op, a))
        return;
    switch (a->outcome) {
    case SQLOCK_OUT_DONE:
        op->acquire.unlike = 0;
        op->retries_at_once = 0;
        if (change_drained(op, now))
            return;
        op->phase = ACQUIRE_GRANT;
        op_again(op, now);
        return;
    case SQLOCK_OUT_GUARDED:
        acquire_refused(op, SQLOCK_EGUARDED, a, now);
        return;
    case SQLOCK_OUT_SKIPPED:
        if (op->acquire.has_turn || op->acquire.unlike != 0 || !waiting_may_queue(op))
            acquire_in_the_way(op, now);
        else
            waiting_found(op, a, now); /* those who came meanwhile would overtake it for ever */
        return;
    case SQLOCK_OUT_HELD:
        if (rows_int(a->rows, 0, SQLOCK_COL_SEAT, -1) >= 0) {
            if (!change_is_last(op, a, rows_int(a->rows, 0, SQLOCK_COL_SEAT, -1), now))
                seats_stand(op, a, now);
            return;
        }
        if (!op->acquire.has_turn) { /* another has the turn, and no one stands there any more */
            op->acquire.unlike = 0;
            if (op->lock->mode != SQLOCK_EXCLUSIVE)
                op->phase = ACQUIRE_GRANT;
            acquire_refused(op, SQLOCK_EBUSY, a, now);
            return;
        }
        break;
    case SQLOCK_OUT_KIND:
        op_unknown_kind(op);
        return;
    case SQLOCK_OUT_STRANGER:
        op_handshake(op, now);
        return;
    default:
        break;
    }
    op->acquire.has_turn = 0; /* others were quicker: look from the beginning */
    op->acquire.unlike = 0;
    op->phase = ACQUIRE_GRANT;
    op_retry_at_once(op, now);
}

/* Who leaves a seat calls the one that waits for it. The longer that has waited, the less often it
 * looks by itself. No one notifies the end of a guard (left < 0), and not every database
 * notifies. */
static int64_t seats_pause(const sqlock_op *op, int64_t left, int64_t now)
{
    const int64_t most = left >= 0 && op->m->queue.hears ? LOOK_HEARING_US : LOOK_MOST_US;
    int64_t pause = time_max((now - op->acquire.turn_came) / 8, LOOK_LEAST_US);

    pause = time_min(pause, most);
    return left > 0 ? time_min(pause, left) : pause;
}

/* When the turn is to be extended, which the statements grant for as long as an offer at most. */
static int64_t seats_extend_at(const sqlock_op *op)
{
    return op->acquire.turned + time_min(op->lock->lease.ttl, LOCK_TURN_US) / 3;
}

/* Without the turn it queues for that. With it, it sleeps until it is called, or looks: no one else
 * can. It never sleeps past the time for the turn's extension: without its turn others would
 * overtake it. */
int seats_wait(sqlock_op *op, int64_t left, int64_t now)
{
    struct place *p = op->in_queue;
    int64_t pause;

    if (!op->acquire.has_turn)
        return 0;
    if (now >= seats_extend_at(op)) {
        op->phase = ACQUIRE_TURN;
        op_again(op, left < 0 ? now + LOOK_LEAST_US : now); /* a guard may keep it from that */
        return 1;
    }
    pause = time_min(seats_pause(op, left, now), seats_extend_at(op) - now);
    if (p != NULL && p->called) { /* while it looked */
        p->called = 0;
        pause = time_min(pause, LOOK_LEAST_US);
    } else if (p != NULL) {
        p->since = 0; /* it is in the queue no more */
        line_number(p, 0);
        line_waits_for_seats(p, 1);
        op->parked = 1;
    }
    op_again(op, time_min(now + pause, op_last_try(op)));
    return 1;
}

int seats_wait_ends(sqlock_op *op)
{
    if (!op->acquire.has_turn)
        return 0;
    line_waits_for_seats(op->in_queue, 0);
    op->in_queue->called = 0;
    return 1;
}
