/* Renews one lease now: a held one, or an imported one, whose answer shows what it is. */
#include <assert.h>
#include <sqlock/async.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"

enum renew_phase { RENEW_EXTEND, RENEW_LENGTHEN /* before it */ };

static void renew_lost(sqlock_op *op, const char *text)
{
    op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "%s", text));
}

/* A renewal that runs after the lease's deadline must do nothing, because the loss was reported by
 * then. An imported lease has no deadline yet. Then the limit is the deadline of the lease that the
 * answer would give. */
static int renew_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;
    int64_t deadline = op->settle ? lease_deadline(&lock->lease, now) : lock->lease.deadline;

    assert(lock->token != 0);
    if (!op->settle && !lease_is_held(&lock->lease, now)) {
        renew_lost(op, sqlock_why_name(lock->lease.why));
        return 0;
    }
    op->phase = verb_must_lengthen(op) ? RENEW_LENGTHEN : RENEW_EXTEND;
    if (op->phase == RENEW_LENGTHEN)
        return verb_send_length(op);
    return OP_SEND(op, SQLOCK_STMT_RENEW, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->key_len),
                   value_bytes(lock->owner, sizeof lock->owner), value_int(lock->token),
                   value_int(lock->lease.ttl),
                   value_int(call_not_after(op->m, time_min(deadline, op->deadline))));
}

/* A denial is believed when it came twice. The first may have seen the row before a change of our
 * own that is still under way. */
static void renew_denied(sqlock_op *op, sqlock_why why, int64_t now)
{
    assert(why != SQLOCK_WHY_NONE);
    if (op->renew.denials++ == 0) {
        op_again(op, now);
        return;
    }
    lock_change(op->lock, LEASE_DENIED, now, why);
    renew_lost(op, sqlock_why_name(why));
}

static void renew_confirmed(sqlock_op *op, const struct answer *a, int64_t now)
{
    lock_renewed(op->lock, a, now);
    if (lease_is_held(&op->lock->lease, now))
        op_done(op, 0);
    else
        renew_lost(op, "the reply came too late");
}

static void renew_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_why why = lock_denied(op->lock, a);

    if (op->phase == RENEW_LENGTHEN)
        verb_lengthened(op);
    else if (why != SQLOCK_WHY_NONE)
        renew_denied(op, why, now);
    else if (a->outcome == SQLOCK_OUT_KIND)
        op_unknown_kind(op);
    else if (a->outcome != SQLOCK_OUT_DONE)
        op_retry_at_once(op, now); /* the row is locked, or the clocks differ from what we knew */
    else if (op->settle)
        verb_granted(op, a, now);
    else
        renew_confirmed(op, a, now);
}

static void renew_failed(sqlock_op *op, int64_t now)
{
    op->renew.denials = 0;
    op_failed(op, now);
}

const struct verb renew_verb = {renew_next, renew_answered, renew_failed, 0, NULL};

int renew_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err)
{
    return op_start(lock->m, lock, &renew_verb, wait_ms, NULL, out_op, err);
}

/* After that time max_hold_ms is what ends the lease. */
int renew_is_past_hold(sqlock_lock *lock)
{
    int too_long;

    mutex_lock(&lock->m->mu);
    too_long = sqlock_now_us() >= lock->lease.hold_until;
    if (too_long)
        lock->lease.manual = 0;
    mutex_unlock(&lock->m->mu);
    return too_long;
}

int renew_begin(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    sqlock_state state;
    int rc;

    if ((rc = check_lock(lock, err)) != 0)
        return rc;
    state = sqlock_lock_state(lock);
    if (state == SQLOCK_LOST)
        return sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", sqlock_why_name(sqlock_lock_why(lock)));
    if (state == SQLOCK_UNSURE || state == SQLOCK_RELEASED)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the lock is %s", sqlock_state_name(state));
    if (renew_is_past_hold(lock))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "max_hold_ms has passed since the grant");
    return renew_start(lock, 0, out_op, err);
}

int sqlock_renew_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    int rc = check_out_op(out_op, "renew", err);

    if (rc != 0)
        return rc;
    rc = renew_begin(lock, out_op, err);
    return async_begin(rc, lock, "renew", out_op, err);
}

int sqlock_renew(sqlock_lock *lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_op *op = NULL;
    int rc = renew_begin(lock, &op, err);

    if (rc == 0)
        rc = op_drive(op, NULL, err);
    return lock != NULL ? check_context(err, "renew", lock->name, lock->name_len, rc) : rc;
}
