/* Acquires that were refused: what their callers learn, and how those that wait go on. */
#include <assert.h>
#include <string.h>

#include "core/engine/leavers.h"
#include "core/engine/locks.h"
#include "core/engine/party.h"
#include "core/engine/queue.h"
#include "core/leases/acquire.h"
#include "core/leases/leases.h"
#include "core/model/backoff.h"

#define LOCKED_TRIES (RETRIES_AT_ONCE + 3) /* without a wait: some 50 ms */
#define LOCK_WAIT_US INT64_C(500000)

/* The last answer was a refusal. Look again after a while, but no later than the end of the
 * holder's lease (left; below 0: not known). If there is no time for that, the answer stands at the
 * wait's end. Waiters with the same end spread their last tries. */
static void refusal_wait_on(sqlock_op *op, int64_t left, int64_t now)
{
    int64_t last = op_last_try(op), spread;

    if (now >= last) {
        op_again(op, op->deadline);
        return;
    }
    if (seats_wait(op, left, now) || waiting_in_queue(op, left, op->acquire.queued, last, now))
        return;
    spread = last == TIME_NEVER ? 0 : time_min(last - now, op->deadline - last) / 2;
    if (spread > 0)
        last -= sqlock_random_below((uint32_t)spread);
    op_again(op, backoff_next(now, op_pause(op), left, last));
}

/* One refusal is the answer. Whoever has others along would wait while those hold their locks. */
static int refusal_is_final(const sqlock_op *op)
{
    return op->once || op->settle || change_must_not_wait(op) || party_has_begun(op);
}

/* A request whose answer was lost may still arrive, or its place may still be in the queue. Returns
 * 1 if the op finds that out first. */
static int refusal_is_early(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (op->unsure)
        verb_early(op, a, now);
    else if (op->settle && op->lock->queued)
        waiting_leaves(op, now);
    else
        return 0;
    return 1;
}

/* op->err is the answer. It ends a request that does not wait. A waiter looks again, after `left`
 * at the latest. */
static void refusal_note(sqlock_op *op, int code, const struct answer *a, int64_t left, int64_t now)
{
    assert(op->err.code == code);
    error_share(&op->refusal, &op->err);
    op->refused = op->unsure ? 0 : code;
    op->retries_at_once = op->late = 0;
    if (refusal_is_early(op, a, now))
        return;
    if (refusal_is_final(op))
        op_done(op, code);
    else
        refusal_wait_on(op, left, now);
}

/* The turn in the way may be that of this manager's last call, which has given up. It is on its way
 * back, and ends by itself a moment later. Returns 1 if the op looks again first. */
static int refusal_is_a_ghost(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (a->token != 0 || !leavers_had(op->lock, a->sent) || !refusal_is_final(op) || op->settle ||
        now >= op->begun + LOCK_TURN_US)
        return 0;
    error_share(&op->refusal, &op->err);
    op->refused = op->unsure ? 0 : SQLOCK_EBUSY;
    verb_locked(op, now);
    return 1;
}

/* Another owner has the lock. A request that does not wait ends here. A waiter sleeps, but no
 * longer than the holder's lease.
 *
 * If a reply was lost before, that request was not granted, or its grant has ended, or it is still
 * on its way. A waiter has its answer all the same: at worst the lock is granted once more and
 * stays unused for one lease (P5). sqlock_settle() wants to know just that, so it reports only when
 * the request cannot arrive any more. */
void acquire_refused(sqlock_op *op, int code, const struct answer *a, int64_t now)
{
    sqlock_holder h;
    char place[40];

    answer_holder(a, &h);
    h.place = waiting_number(op);
    op_note_holder(op, &h);
    op->told = a->received;
    op->held_until = code == SQLOCK_EBUSY && a->left > 0 ? a->sent + a->left : 0;
    if (!op->settle || a->now > op->lock->lost_until)
        op->unsure = 0;
    if (code == SQLOCK_EGUARDED && h.token == 0)
        op_error_set(op, code, SQLOCK_RETRY, "an open transaction guards the lock");
    else if (code == SQLOCK_EGUARDED)
        op_error_set(op, code, SQLOCK_RETRY,
                     "an open transaction guards the lock (last token %lld)", (long long)h.token);
    else if (h.token == 0)
        op_error_set(op, code, SQLOCK_RETRY,
                     "next is %s, which waits until the holders have released%s", h.label,
                     waiting_place(h.place, place, sizeof place));
    else
        op_error_set(op, code, SQLOCK_RETRY,
                     "held by %s for %lld.%03d s, %lld.%03d s left, token %lld%s", h.label,
                     (long long)(h.held_ms / 1000), (int)(h.held_ms % 1000),
                     (long long)(h.left_ms / 1000), (int)(h.left_ms % 1000), (long long)h.token,
                     waiting_place(h.place, place, sizeof place));
    if (code != SQLOCK_EBUSY || !refusal_is_a_ghost(op, a, now))
        refusal_note(op, code, a, code == SQLOCK_EBUSY ? a->left : -1, now);
}

void acquire_behind(sqlock_op *op, const struct answer *a, int64_t now)
{
    op_note_no_holder(op, 0);
    if (!op->settle || a->now > op->lock->lost_until)
        op->unsure = 0;
    refusal_note(op, SQLOCK_EBUSY, a, -1, now);
}

/* No wait would help. */
void acquire_unlike(sqlock_op *op, int code, const struct answer *a, int64_t now)
{
    if (!op->settle || a->now > op->lock->lost_until)
        op->unsure = 0;
    if (!refusal_is_early(op, a, now))
        op_done(op, code);
}

/* The lock is as good as held, by an unknown transaction. */
static void refusal_note_skipped(sqlock_op *op)
{
    op_note_no_holder(op, 0);
    op_error_set(op, SQLOCK_EBUSY, SQLOCK_RETRY, "a transaction has locked the lock's row");
    error_share(&op->refusal, &op->err);
    op->refused = op->unsure ? 0 : SQLOCK_EBUSY;
}

/* The lock is free, but a transaction has locked its row. What the last look showed about that
 * transaction was noted. It may be a grant of our own that is still committing: then nothing is
 * certain. */
static void refusal_locked(sqlock_op *op, int64_t now)
{
    const int once = op->once || party_has_begun(op);

    if (now < op_last_try(op) && !(once && !op->settle && op->retries_at_once >= LOCKED_TRIES))
        verb_locked(op, now);
    else if (op->unsure)
        op_done(op, op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                 "the reply was lost, and a transaction has locked the lock's "
                                 "row: it may be this request's own"));
    else if (once || op->settle) {
        assert(op->refused != 0); /* it would end as a grant */
        error_share(&op->err, &op->refusal);
        op_done(op, op->refused);
    } else
        op_again(op, op->deadline);
}

void verb_locked(sqlock_op *op, int64_t now)
{
    int64_t last = op_last_try(op), half, at;

    if (op->retries_at_once < RETRIES_AT_ONCE - 1) {
        op_retry_at_once(op, now);
        return;
    }
    half = backoff_span(op->retries_at_once++ - RETRIES_AT_ONCE) / 2;
    assert(half > 0);
    at = now + half + sqlock_random_below((uint32_t)half);
    op_again(op, last > now ? time_min(at, last) : at);
}

/* The lock is free but its row is locked, by a guard or by a transaction that is just writing it. A
 * writer is done in a moment, so this tries again first. If another owner has become the holder
 * meanwhile, it reports that.
 *
 * If the answer took long, the server must have waited for the row (MySQL before 8.0 cannot skip
 * it). That wait was as long as the tries. */
void acquire_skipped(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (a->received - a->sent >= LOCK_WAIT_US && op->retries_at_once < LOCKED_TRIES)
        op->retries_at_once = LOCKED_TRIES;
    if (!op->refused)
        refusal_note_skipped(op);
    if (op->acquire.queued)
        op->phase = ACQUIRE_QUEUE;
    if (now >= op_last_try(op))
        refusal_locked(op, now);
    else if (op->retries_at_once < RETRIES_AT_ONCE - 1)
        op_retry_at_once(op, now);
    else
        op->phase = ACQUIRE_LOOK;
}

void acquire_in_the_way(sqlock_op *op, int64_t now)
{
    if (!op->refused)
        refusal_note_skipped(op);
    refusal_locked(op, now);
}

void acquire_looked(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (verb_looks_again(op, a))
        return;
    op->phase = ACQUIRE_GRANT;
    if (a->outcome == SQLOCK_OUT_GUARDED) {
        acquire_refused(op, SQLOCK_EGUARDED, a, now);
    } else if (a->outcome == SQLOCK_OUT_HELD) {
        acquire_refused(op, SQLOCK_EBUSY, a, now);
    } else if (a->outcome == SQLOCK_OUT_SKIPPED && op->retries_at_once < LOCKED_TRIES) {
        op_retry_at_once(op, now); /* no transaction is in the way any more */
    } else {
        refusal_note_skipped(op);
        refusal_locked(op, now);
    }
}

/* The server may have lost the commit of a grant. */
void acquire_in_grace(sqlock_op *op, const struct answer *a, int64_t now)
{
    const sqlock_holder no_one = {.left_ms = a->left / 1000};

    op_note_holder(op, &no_one);
    op->told = a->received;
    op->held_until = a->sent + a->left;
    if (!op->settle || a->now > op->lock->lost_until)
        op->unsure = 0;
    op_error_set(op, SQLOCK_EBUSY, SQLOCK_RETRY,
                 "the server took over from another and may have lost the lock's holder: no "
                 "new grants for %lld.%03d s (the option grace_ms)",
                 (long long)(a->left / 1000000), (int)(a->left / 1000 % 1000));
    refusal_note(op, SQLOCK_EBUSY, a, a->left, now);
}
