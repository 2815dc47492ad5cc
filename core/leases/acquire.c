/* Acquire: the lease lock, whose row the database decides on (P1 to P5, P8 to P10). */
#include <assert.h>
#include <string.h>

#include <sqlock/async.h>

#include "core/base/text.h"
#include "core/engine/arguments.h"
#include "core/engine/hosts.h"
#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/engine/queue.h"
#include "core/leases/acquire.h"
#include "core/leases/leases.h"
#include "core/leases/passing.h"
#include "core/model/backoff.h"

#define LOCKED_TRIES (RETRIES_AT_ONCE + 3) /* without a wait: some 50 ms */
#define LOCK_WAIT_US INT64_C(500000)
#define LATE_GRANTS  3 /* in a row; more would not help */

int64_t verb_not_after(const sqlock_op *op, const sqlock_lock *lock, int64_t now)
{
    const sqlock *m = op->m;
    int64_t end = hosts_room(m, now, time_min(op->deadline, now + m->request_us));

    return call_not_after(m, time_min(end, lease_deadline(&lock->lease, now)));
}

static int acquire_send(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;
    const char *label = lock_label(lock);
    int sends;

    op->acquire.not_after = verb_not_after(op, lock, now);
    sends = OP_SEND(op, SQLOCK_STMT_ACQUIRE, value_bytes(lock->ns, lock->ns_len),
                    value_bytes(lock->name, lock->name_len),
                    value_bytes(lock->owner, sizeof lock->owner), value_int(lock->lease.ttl),
                    value_int(op->acquire.not_after), value_int(op->m->grace_us),
                    value_bytes(label, strlen(label)));
    op->request.flags = op->acquire.called ? SQLOCK_CALL_LIKELY : 0;
    op->acquire.called = 0;
    return sends;
}

/* A late grant that may have been given back is not acquired once more: its release may be on its
 * way, and would end the new lease. */
static int acquire_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    if (op->parked)
        waiting_ends(op, now);
    else if (op->tries == 0)
        waiting_begins(op);
    if (op->parked)
        return 0;
    if (lock->given_back != 0) {
        op->acquire.token = lock->given_back;
        op->phase = ACQUIRE_GIVE_BACK;
    } else if ((op->phase == ACQUIRE_GRANT || op->phase == ACQUIRE_QUEUE) && verb_must_lengthen(op))
        op->phase = ACQUIRE_LENGTHEN;
    switch ((enum acquire_phase)op->phase) {
    case ACQUIRE_LENGTHEN:
        return verb_send_length(op);
    case ACQUIRE_LOOK:
        return OP_SEND(op, SQLOCK_STMT_GUARDED, value_bytes(lock->ns, lock->ns_len),
                       value_bytes(lock->name, lock->name_len),
                       value_bytes(lock->owner, sizeof lock->owner));
    case ACQUIRE_GIVE_BACK:
        return passing_send(op, op->acquire.token, now);
    case ACQUIRE_BEAT:
    case ACQUIRE_QUEUE:
        return waiting_send(op, now);
    case ACQUIRE_LEAVE:
        return waiting_send_leave(op);
    case ACQUIRE_GRANT:
        break;
    }
    return acquire_send(op, now);
}

/* The last answer was a refusal. Look again after a while, but no later than the end of the
 * holder's lease (left; below 0: not known). If there is no time for that, the answer stands at the
 * wait's end. Waiters with the same end spread their last tries. */
static void acquire_wait_on(sqlock_op *op, int64_t left, int64_t now)
{
    int64_t last = op_last_try(op), spread;

    if (now >= last) {
        op_again(op, op->deadline);
        return;
    }
    if (waiting_in_queue(op, left, op->acquire.queued, last, now))
        return;
    spread = last == TIME_NEVER ? 0 : time_min(last - now, op->deadline - last) / 2;
    if (spread > 0)
        last -= sqlock_random_below((uint32_t)spread);
    op_again(op, backoff_next(now, op_pause(op), left, last));
}

/* op->err is the answer. It ends a request that does not wait. A waiter looks again, after `left`
 * at the latest. */
static void acquire_note_refusal(sqlock_op *op, int code, const struct answer *a, int64_t left,
                                 int64_t now)
{
    assert(op->err.code == code);
    op->refusal = op->err;
    op->refused = op->unsure ? 0 : code;
    op->retries_at_once = op->acquire.late = 0;
    if (op->unsure)
        verb_early(op, a, now);
    else if (op->settle && op->lock->queued)
        waiting_leaves(op, now);
    else if (op->once || op->settle)
        op_done(op, code);
    else
        acquire_wait_on(op, left, now);
}

/* Another owner has the lock. A request that does not wait ends here. A waiter sleeps, but no
 * longer than the holder's lease.
 *
 * If a reply was lost before, that request was not granted, or its grant has ended, or it is still
 * on its way. A waiter has its answer all the same: at worst the lock is granted once more and
 * stays unused for one lease (P5). sqlock_settle() wants to know just that, so it reports only when
 * the request cannot arrive any more. */
static void acquire_refused(sqlock_op *op, int code, const struct answer *a, int64_t now)
{
    const sqlock_holder *h = &op->holder;
    char place[40];

    answer_holder(a, &op->holder);
    op->holder.place = waiting_number(op);
    op->held_until = code == SQLOCK_EBUSY && a->left > 0 ? a->sent + a->left : 0;
    if (!op->settle || a->now > op->lock->lost_until)
        op->unsure = 0;
    if (code == SQLOCK_EGUARDED)
        sqlock_error_set(&op->err, code, SQLOCK_RETRY,
                         "an open transaction guards the lock (last token %lld)",
                         (long long)h->token);
    else
        sqlock_error_set(&op->err, code, SQLOCK_RETRY,
                         "held by %s for %lld.%03d s, %lld.%03d s left, token %lld%s", h->label,
                         (long long)(h->held_ms / 1000), (int)(h->held_ms % 1000),
                         (long long)(h->left_ms / 1000), (int)(h->left_ms % 1000),
                         (long long)h->token, waiting_place(op, place, sizeof place));
    acquire_note_refusal(op, code, a, code == SQLOCK_EBUSY ? a->left : -1, now);
}

/* The lock is as good as held, by an unknown transaction. */
static void acquire_note_skipped(sqlock_op *op)
{
    memset(&op->holder, 0, sizeof op->holder);
    op->holder.size = sizeof op->holder;
    op->held_until = 0;
    sqlock_error_set(&op->err, SQLOCK_EBUSY, SQLOCK_RETRY,
                     "a transaction has locked the lock's row");
    op->refusal = op->err;
    op->refused = op->unsure ? 0 : SQLOCK_EBUSY;
}

/* The lock is free, but a transaction has locked its row. What the last look showed about that
 * transaction was noted. It may be a grant of our own that is still committing: then nothing is
 * certain. */
static void acquire_locked(sqlock_op *op, int64_t now)
{
    if (now < op_last_try(op) && !(op->once && !op->settle && op->retries_at_once >= LOCKED_TRIES))
        verb_locked(op, now);
    else if (op->unsure)
        op_done(op, sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                     "the reply was lost, and a transaction has locked the lock's "
                                     "row: it may be this request's own"));
    else if (op->once || op->settle) {
        assert(op->refused != 0); /* it would end as a grant */
        op->err = op->refusal;
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
static void acquire_skipped(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (a->received - a->sent >= LOCK_WAIT_US && op->retries_at_once < LOCKED_TRIES)
        op->retries_at_once = LOCKED_TRIES;
    if (!op->refused)
        acquire_note_skipped(op);
    if (op->acquire.queued)
        op->phase = ACQUIRE_QUEUE;
    if (now >= op_last_try(op))
        acquire_locked(op, now);
    else if (op->retries_at_once < RETRIES_AT_ONCE - 1)
        op_retry_at_once(op, now);
    else
        op->phase = ACQUIRE_LOOK;
}

static void acquire_looked(sqlock_op *op, const struct answer *a, int64_t now)
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
        acquire_note_skipped(op);
        acquire_locked(op, now);
    }
}

/* The server may have lost the commit of a grant. */
static void acquire_in_grace(sqlock_op *op, const struct answer *a, int64_t now)
{
    memset(&op->holder, 0, sizeof op->holder);
    op->holder.size = sizeof op->holder;
    op->holder.left_ms = a->left / 1000;
    op->held_until = a->sent + a->left;
    if (!op->settle || a->now > op->lock->lost_until)
        op->unsure = 0;
    sqlock_error_set(&op->err, SQLOCK_EBUSY, SQLOCK_RETRY,
                     "the server took over from another and may have lost the lock's holder: no "
                     "new grants for %lld.%03d s (the option grace_ms)",
                     (long long)(a->left / 1000000), (int)(a->left / 1000 % 1000));
    acquire_note_refusal(op, SQLOCK_EBUSY, a, a->left, now);
}

static void acquire_end_too_slow(sqlock_op *op, int ended)
{
    op_done(op, sqlock_error_set(&op->err, ended ? SQLOCK_ETIMEOUT : SQLOCK_EUNSURE,
                                 ended ? SQLOCK_RETRY : SQLOCK_MAYBE,
                                 "the database is too slow for a lease of %lld ms: %d grants "
                                 "arrived with less than half of it left",
                                 (long long)(op->lock->lease.ttl / 1000), op->acquire.late));
}

/* This owner was released, and is never granted the lock again (P5). */
static void acquire_ended(sqlock_op *op, sqlock_why why, int64_t now)
{
    op->lock->pending = PENDING_NOTHING;
    lock_change(op->lock, LEASE_DENIED, now, why);
    op_done(op,
            sqlock_error_set(&op->err, SQLOCK_ELOST, 0, "this owner's grant was already released"));
}

static void acquire_gave_back(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_lock *lock = op->lock;
    int ended =
        a->outcome == SQLOCK_OUT_DONE || answer_why(a, op->acquire.token) != SQLOCK_WHY_NONE;

    if (passing_answered(op, a, now))
        return;
    queue_call(op->m, a, now);
    if (op->settle && ended) {
        acquire_ended(op, SQLOCK_WHY_NOT_GRANTED, now);
    } else if (op->settle) {
        verb_locked(op, now);
    } else {
        if (ended) {
            lock->pending = PENDING_NOTHING;
            lock_change(lock, LEASE_RELEASED, now, 0);
        }
        acquire_end_too_slow(op, ended);
    }
}

/* If the reply to a grant came late, the same request extends the lease before the lock is handed
 * out (P4). If every grant comes too late, more requests would keep the lock from programs that are
 * nearer, in vain. So it is given back. An imported grant stays, because its other holder may be
 * fast enough. */
void verb_granted(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (lock_granted(op->lock, a, now)) {
        op_done(op, 0);
        return;
    }
    op->unsure = 1; /* it is ours in the database, and must be given back if we stop here */
    sqlock_error_set(&op->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY, "the grant came too late");
    if (++op->acquire.late < LATE_GRANTS) {
        op_retry_at_once(op, now);
    } else if (op->lock->pending == PENDING_IMPORT) {
        acquire_end_too_slow(op, 1);
    } else {
        op->acquire.token = a->token;
        op->phase = ACQUIRE_GIVE_BACK;
    }
}

/* Every server draws tokens above its floor. This token is below the floor of another server that
 * was met, so a pooler leads to a server that was overtaken. The handshake finds that out and
 * raises its floor. Then the same request draws a token above it. */
static int acquire_is_overtaken(const sqlock_op *op, const struct answer *a)
{
    return a->token <= op->m->above;
}

/* Only another program can have written such a token. */
static int acquire_is_corrupt(const struct answer *a)
{
    return a->token < 1 || a->token > SQLOCK_TOKEN_MAX;
}

static void acquire_judge(sqlock_op *op, const struct answer *a, int64_t now)
{
    switch (a->outcome) {
    case SQLOCK_OUT_DONE:
        if (acquire_is_corrupt(a)) {
            op_done(op, sqlock_error_set(&op->err, SQLOCK_ECORRUPT, 0,
                                         "the row's token %lld is none that a grant can have",
                                         (long long)a->token));
        } else if (acquire_is_overtaken(op, a)) {
            op->unsure = 1; /* it is ours in the database */
            op_handshake(op, now);
        } else {
            verb_granted(op, a, now);
        }
        return;
    case SQLOCK_OUT_HELD:
        acquire_refused(op, SQLOCK_EBUSY, a, now);
        return;
    case SQLOCK_OUT_QUEUED:
        waiting_found(op, now);
        return;
    case SQLOCK_OUT_GRACE:
        acquire_in_grace(op, a, now);
        return;
    case SQLOCK_OUT_SKIPPED:
        acquire_skipped(op, a, now);
        return;
    case SQLOCK_OUT_RELEASED:
        acquire_ended(op, SQLOCK_WHY_NOT_GRANTED, now);
        return;
    case SQLOCK_OUT_KIND:
        op_unknown_kind(op);
        return;
    case SQLOCK_OUT_LATE: /* the clocks differ from what we knew, and this answer has shown it */
        op_retry_at_once(op, now);
        return;
    case SQLOCK_OUT_STRANGER:
    case SQLOCK_OUT_NONE: /* the row was deleted between two steps, or the meta row is gone */
        op_handshake(op, now);
        return;
    default:
        op_done(op,
                sqlock_error_set(&op->err, SQLOCK_ECORRUPT, 0, "unknown outcome %d", a->outcome));
    }
}

static void acquire_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    op->acquire.queued = op->phase == ACQUIRE_QUEUE;
    switch ((enum acquire_phase)op->phase) {
    case ACQUIRE_LENGTHEN:
        verb_lengthened(op);
        op->phase = ACQUIRE_GRANT;
        return;
    case ACQUIRE_BEAT:
        waiting_lives(op, a);
        return;
    case ACQUIRE_QUEUE:
        op->phase = ACQUIRE_GRANT;
        waiting_answered(op, a, now);
        acquire_judge(op, a, now);
        return;
    case ACQUIRE_LOOK:
        acquire_looked(op, a, now);
        return;
    case ACQUIRE_GIVE_BACK:
        acquire_gave_back(op, a, now);
        return;
    case ACQUIRE_LEAVE:
        waiting_left(op, a, now);
        return;
    case ACQUIRE_GRANT:
        acquire_judge(op, a, now);
    }
}

static void acquire_failed(sqlock_op *op, int64_t now)
{
    enum acquire_phase phase = (enum acquire_phase)op->phase;
    int maybe = (op->err.flags & SQLOCK_MAYBE) != 0;

    op->phase = ACQUIRE_GRANT;
    passing_failed(op);
    if (phase == ACQUIRE_GIVE_BACK && maybe)
        op->lock->given_back = op->acquire.token;
    if (phase == ACQUIRE_GIVE_BACK && !op->settle) {
        acquire_end_too_slow(op, 0);
        return;
    }
    if ((phase == ACQUIRE_GRANT || phase == ACQUIRE_QUEUE) && maybe &&
        op->acquire.not_after > op->lock->lost_until)
        op->lock->lost_until = op->acquire.not_after;
    op_failed(op, now);
}

const struct verb acquire_verb = {acquire_next, acquire_answered, acquire_failed, 1};

int acquire_start(sqlock_lock *lock, int32_t wait_ms, sqlock_cancel *cancel, sqlock_op **out_op,
                  sqlock_error *err)
{
    return op_start(lock->m, lock, &acquire_verb, wait_ms, cancel, out_op, err);
}

int acquire_begin(sqlock *m, const char *name, const sqlock_acquire_opts *opts, sqlock_op **out_op,
                  size_t *out_len, sqlock_error *err)
{
    sqlock_acquire_opts o;
    sqlock_lock *lock = NULL;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_acquire_opts(m, opts, &o, err)) != 0 ||
        (rc = check_name(name, out_len, err)) != 0 ||
        (rc = lock_new(m, name, *out_len, &o, &lock, err)) != 0)
        return rc;
    assert(*out_len >= 1 && *out_len <= SQLOCK_NAME_MAX);
    if ((rc = acquire_start(lock, o.wait_ms, o.cancel, out_op, err)) != 0) {
        lock_free(lock);
        return rc;
    }
    (*out_op)->gives_lock = 1;
    (*out_op)->out_holder = o.holder;
    return 0;
}

int sqlock_acquire_start(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                         sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    size_t len = 0;
    int rc = check_out_op(out_op, "acquire", err);

    if (rc == 0)
        rc = acquire_begin(m, name, opts, out_op, &len, err);
    return rc == 0 ? async_go(*out_op, out_op, err) : rc;
}

int sqlock_acquire(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                   sqlock_lock **out_lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_op *op = NULL;
    size_t len = 0;
    int rc;

    if (out_lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "acquire: out_lock is NULL");
    *out_lock = NULL;
    if ((rc = acquire_begin(m, name, opts, &op, &len, err)) == 0)
        rc = op_drive(op, out_lock, err);
    return check_context(err, "acquire", name, len, rc);
}
