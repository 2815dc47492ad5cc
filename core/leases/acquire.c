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
#include "core/sql/texts.h"

#define LATE_GRANTS 3 /* in a row; more would not help */

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
    int64_t ttl =
        op->phase == ACQUIRE_TURN ? time_min(lock->lease.ttl, LOCK_TURN_US) : lock->lease.ttl;
    int sends;

    op->acquire.not_after = verb_not_after(op, lock, now);
    sends = OP_SEND(op, SQLOCK_STMT_ACQUIRE, value_bytes(lock->ns, lock->ns_len),
                    value_bytes(lock->name, lock->name_len),
                    value_bytes(lock->owner, sizeof lock->owner), value_int(ttl),
                    value_int(op->acquire.not_after), value_int(op->m->grace_us),
                    value_bytes(label, strlen(label)));
    op->attempt->request.flags = op->acquire.called ? SQLOCK_CALL_LIKELY : 0;
    op->acquire.called = 0;
    return sends;
}

/* A late grant that may have been given back is not acquired once more: its release may be on its
 * way, and would end the new lease. */
static int acquire_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    if (waiting_gives_up(op))
        return 0;
    if (op->parked)
        waiting_ends(op, now);
    else if (op->tries == 0 && !op->acquire.has_turn && op->former == NULL)
        waiting_begins(op);
    if (op->parked || change_next(op, now))
        return 0;
    if (lock->given_back != 0) {
        op->acquire.token = lock->given_back;
        op->phase = ACQUIRE_GIVE_BACK;
    } else if ((op->phase == ACQUIRE_GRANT || op->phase == ACQUIRE_QUEUE) && verb_must_lengthen(op))
        op->phase = ACQUIRE_LENGTHEN;
    else if (op->phase == ACQUIRE_GRANT && lock->mode != SQLOCK_EXCLUSIVE)
        op->phase = ACQUIRE_SEAT;
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
    case ACQUIRE_SEAT:
        return seats_send(op, now);
    case ACQUIRE_DRAIN:
        return seats_send_drain(op);
    case ACQUIRE_RESIGN:
        return change_send_resign(op);
    case ACQUIRE_TURN:
    case ACQUIRE_GRANT:
        break;
    }
    return acquire_send(op, now);
}

static void acquire_end_too_slow(sqlock_op *op, int ended)
{
    op_done(op, op_error_set(op, ended ? SQLOCK_ETIMEOUT : SQLOCK_EUNSURE,
                             ended ? SQLOCK_RETRY : SQLOCK_MAYBE,
                             "the database is too slow for a lease of %lld ms: %d grants "
                             "arrived with less than half of it left",
                             (long long)(op->lock->lease.ttl / 1000), op->late));
}

/* This owner was released, and is never granted the lock again (P5). */
static void acquire_ended(sqlock_op *op, sqlock_why why, int64_t now)
{
    op->lock->pending = PENDING_NOTHING;
    lock_change(op->lock, LEASE_DENIED, now, why);
    op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "this owner's grant was already released"));
}

static void acquire_gave_back(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_lock *lock = op->lock;
    int ended =
        a->outcome == SQLOCK_OUT_DONE || answer_why(a, op->acquire.token) != SQLOCK_WHY_NONE;

    if (passing_answered(op, a, now))
        return;
    queue_call(op->lock, a, now);
    if (op->settle && ended) {
        acquire_ended(op, SQLOCK_WHY_NOT_GRANTED, now);
    } else if (op->settle) {
        verb_locked(op, now);
    } else {
        if (ended) {
            lock->pending = PENDING_NOTHING;
            lock_change(lock, LEASE_RELEASED, now, 0);
        }
        if (!change_gave_back(op, ended, now))
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
    op_error_set(op, SQLOCK_ETIMEOUT, SQLOCK_RETRY, "the grant came too late");
    if (++op->late < LATE_GRANTS) {
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

int acquire_token_is_sound(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (acquire_is_corrupt(a)) {
        op_done(op, op_error_set(op, SQLOCK_ECORRUPT, 0,
                                 "the row's token %lld is none that a grant can have",
                                 (long long)a->token));
        return 0;
    }
    if (acquire_is_overtaken(op, a)) {
        op->unsure = 1; /* it is ours in the database */
        op_handshake(op, now);
        return 0;
    }
    return 1;
}

/* Its turn had run out, and others have emptied the seats. What it was granted is the lock itself,
 * for as long as a turn: the next request makes that a lease. */
static void acquire_extend(sqlock_op *op, int64_t now)
{
    op->unsure = 1; /* it is ours in the database */
    op_retry_at_once(op, now);
}

/* The row is not this owner's, nor is its turn if it had one. */
static int acquire_is_of_others(const struct answer *a)
{
    return a->outcome == SQLOCK_OUT_HELD || a->outcome == SQLOCK_OUT_QUEUED ||
           a->outcome == SQLOCK_OUT_GRACE;
}

static void acquire_judge(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (seats_is_turn(op, a)) {
        seats_turn(op, a, now);
        return;
    }
    if (acquire_is_of_others(a))
        op->acquire.has_turn = 0;
    if (change_denied(op, a, now))
        return;
    switch (a->outcome) {
    case SQLOCK_OUT_DONE:
        if (acquire_token_is_sound(op, a, now) && change_follows(op, a))
            verb_granted(op, a, now);
        return;
    case SQLOCK_OUT_SEATED:
        seats_found(op, now);
        return;
    case SQLOCK_OUT_HELD:
        acquire_refused(op, SQLOCK_EBUSY, a, now);
        return;
    case SQLOCK_OUT_QUEUED:
        waiting_found(op, a, now);
        return;
    case SQLOCK_OUT_UNLIKE:
        seats_unlike(op, a, now);
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
        op_done(op, op_error_set(op, SQLOCK_ECORRUPT, 0, "unknown outcome %d", a->outcome));
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
    case ACQUIRE_DRAIN:
        seats_drained(op, a, now);
        return;
    case ACQUIRE_RESIGN:
        change_resigned(op, a, now);
        return;
    case ACQUIRE_SEAT:
        op->phase = ACQUIRE_GRANT;
        if (!seats_answered(op, a, now))
            acquire_judge(op, a, now);
        return;
    case ACQUIRE_TURN:
        op->phase = ACQUIRE_GRANT;
        if (a->outcome == SQLOCK_OUT_DONE && op->lock->mode == SQLOCK_EXCLUSIVE)
            acquire_extend(op, now);
        else
            acquire_judge(op, a, now);
        return;
    case ACQUIRE_GRANT:
        op->phase = ACQUIRE_GRANT;
        acquire_judge(op, a, now);
    }
}

static void acquire_failed(sqlock_op *op, int64_t now)
{
    enum acquire_phase phase = (enum acquire_phase)op->phase;
    int maybe = (op->err.flags & SQLOCK_MAYBE) != 0;

    if (phase != ACQUIRE_RESIGN && phase != ACQUIRE_TURN)
        op->phase = ACQUIRE_GRANT;
    if (phase == ACQUIRE_RESIGN && maybe)
        op->former->release_sent = 1;
    passing_failed(op);
    if (phase == ACQUIRE_GIVE_BACK && maybe)
        op->lock->given_back = op->acquire.token;
    if (phase == ACQUIRE_GIVE_BACK && !op->settle) {
        acquire_end_too_slow(op, 0);
        return;
    }
    if ((phase == ACQUIRE_GRANT || phase == ACQUIRE_SEAT || phase == ACQUIRE_QUEUE) && maybe &&
        op->acquire.not_after > op->lock->lost_until)
        op->lock->lost_until = op->acquire.not_after;
    op_failed(op, now);
}

const struct verb acquire_verb = {acquire_next, acquire_answered, acquire_failed, 1, change_ends};

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
        (rc = check_one_mode(&o, err)) != 0 || (rc = check_name(name, out_len, err)) != 0 ||
        (rc = o.mode != SQLOCK_EXCLUSIVE ? texts_has(m->texts, SQLOCK_STMT_SEAT, err) : 0) != 0 ||
        (rc = o.actor != NULL ? texts_has(m->texts, SQLOCK_STMT_CIRCLE, err) : 0) != 0 ||
        (rc = lock_new(m, name, *out_len, &o, &lock, err)) != 0)
        return rc;
    assert(*out_len >= 1 && *out_len <= SQLOCK_NAME_MAX);
    if (o.owner != NULL)
        lock_has_given_owner(lock);
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

    if (rc != 0)
        return rc;
    rc = acquire_begin(m, name, opts, out_op, &len, err);
    if (rc == 0)
        rc = async_go(*out_op, "acquire", out_op, err);
    return check_context(err, "acquire", name, len, rc);
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
