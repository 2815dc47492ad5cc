/* Release (P3, P5): ends exactly this grant, and says the truth when it is repeated. */
#include <assert.h>
#include <sqlock/async.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"
#include "core/sql/texts.h"

#define EARLY_US   1000 /* past the last moment, for clocks of whole milliseconds */
#define LOOKS      2
#define GUARDED_MS 500 /* limit of a release that an open guard may block: it reports soon */

/* In MariaDB and MySQL a session that skips a locked row waits for the lock for an instant. For
 * another session that looks like a guard. A real guard is still there at the second look. */
int verb_look(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, struct answer *a)
{
    int rc = 0;

    for (int i = 0; rc == 0 && (i == 0 || (i < LOOKS && a->outcome == SQLOCK_OUT_GUARDED)); i++)
        rc = op_attempt(op, stmt, values, a);
    return rc;
}

int verb_is_guarded(sqlock_op *op, int64_t token)
{
    const sqlock_lock *lock = op->lock;
    sqlock_value values[] = {value_bytes(lock->ns, lock->ns_len),
                             value_bytes(lock->name, lock->name_len), value_int(token)};
    struct answer a;

    return op->m->driver->adopter != NULL && !(op->m->driver->caps & SQLOCK_CAP_ONE_WRITER) &&
           verb_look(op, SQLOCK_STMT_PROBE, values, &a) == 0 && a.outcome == SQLOCK_OUT_GUARDED;
}

/* A lock that was lost is also given back, for those who wait. The result is still that it was
 * lost. */
static void release_done(sqlock_op *op)
{
    sqlock_lock *lock = op->lock;
    sqlock_why why;
    int lost, guards;

    mutex_lock(&op->m->mu);
    lock->pending = PENDING_NOTHING;
    lock_apply(lock, LEASE_RELEASED, 0);
    lost = lock->lease.state == SQLOCK_LOST;
    why = lock->lease.why;
    guards = lock->guards;
    mutex_unlock(&op->m->mu);
    if (lost)
        op_done(op, sqlock_error_set(&op->err, SQLOCK_ELOST, 0, "the lock was already lost: %s",
                                     sqlock_why_name(why)));
    else if (guards && verb_is_guarded(op, lock->token))
        op_done(op, sqlock_error_set(
                        &op->err, SQLOCK_EGUARDED, 0,
                        "released; no one else gets it until the transaction that guards it ends"));
    else
        op_done(op, 0);
}

static void release_denied(sqlock_op *op, sqlock_why why)
{
    sqlock_lock *lock = op->lock;

    assert(why != SQLOCK_WHY_NONE);
    mutex_lock(&op->m->mu);
    lock->pending = PENDING_NOTHING;
    lock_apply(lock, LEASE_DENIED, why);
    why = lock->lease.why;
    mutex_unlock(&op->m->mu);
    op_done(op, sqlock_error_set(&op->err, SQLOCK_ELOST, 0, "%s%s", sqlock_why_name(why),
                                 lock->release_sent && why == SQLOCK_WHY_TAKEN
                                     ? "; the row no longer shows whether it was released or lost"
                                     : ""));
}

/* The row has a new owner. After a release whose reply was lost, before the lease's end by the
 * server's clock, only that release can have let another owner in. The only other cause is a break
 * while the holder lives. */
static int release_seems_applied(const sqlock_lock *lock, const struct answer *a)
{
    int seems;

    mutex_lock(&lock->m->mu);
    seems =
        lock->release_sent && lock_denied(lock, a) == SQLOCK_WHY_TAKEN && a->now < lock->server_end;
    mutex_unlock(&lock->m->mu);
    return seems;
}

/* The row forgets a break after two more grants, so there is a note of each break. An older driver
 * has no request for the note, and an older schema no table. */
static int release_look_for_break(sqlock_op *op, int *out_broken)
{
    const sqlock_lock *lock = op->lock;
    sqlock_value values[] = {value_bytes(lock->ns, lock->ns_len),
                             value_bytes(lock->name, lock->name_len), value_int(lock->token)};
    struct answer a;
    int rc;

    *out_broken = 0;
    if (texts_has(op->m->texts, SQLOCK_STMT_WAS_BROKEN, NULL) != 0)
        return 0;
    rc = op_attempt(op, SQLOCK_STMT_WAS_BROKEN, values, &a);
    *out_broken = rc == 0 && a.outcome == SQLOCK_OUT_BROKEN;
    op->err.flags &= ~SQLOCK_MAYBE; /* it changes nothing */
    return rc == SQLOCK_ESCHEMA ? 0 : rc;
}

/* Find out whether the release or a break let another owner in. */
static void release_find_cause(sqlock_op *op)
{
    int was_broken;

    assert(op->lock->release_sent);
    op->unsure = 1; /* until that is known, because the lost reply may be of another call */
    if (release_look_for_break(op, &was_broken) != 0)
        op_failed(op);
    else if (was_broken)
        release_denied(op, SQLOCK_WHY_BROKEN);
    else
        release_done(op);
}

/* Send a request about this owner's grant. number is the statement's last value. */
static int release_send(sqlock_op *op, sqlock_stmt stmt, int64_t number, struct answer *a)
{
    const sqlock_lock *lock = op->lock;
    sqlock_value values[] = {
        value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->name_len),
        value_bytes(lock->owner, sizeof lock->owner),
        value_int(number),
    };

    return op_attempt(op, stmt, values, a);
}

void verb_early(sqlock_op *op, const struct answer *a)
{
    int64_t left = op->lock->lost_until - a->now + EARLY_US;

    op->unsure = 1;
    sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                     "the reply was lost, and the request may still arrive within %lld ms",
                     (long long)(left / 1000));
    if (sqlock_now_us() + left >= op->deadline)
        op_done(op, SQLOCK_EUNSURE);
    else
        op_again(op, sqlock_now_us() + left);
}

static int release_end_is_unknown(const sqlock_lock *lock)
{
    int unknown;

    mutex_lock(&lock->m->mu);
    unknown = lock->token != 0 && lock->server_end == 0 && !lock->release_sent;
    mutex_unlock(&lock->m->mu);
    return unknown;
}

/* The end of an imported grant is unknown here. If the release's reply is lost,
 * release_seems_applied() needs it, so this reads the row before. The look changes nothing, and
 * what it shows may be over soon: only the release decides. An older driver has no request for
 * it. */
static int release_look(sqlock_op *op)
{
    sqlock_lock *lock = op->lock;
    struct answer a;
    int rc;

    if (texts_has(op->m->texts, SQLOCK_STMT_LEASE, NULL) != 0)
        return 0;
    rc = release_send(op, SQLOCK_STMT_LEASE, lock->token, &a);
    if (rc == 0 && a.outcome == SQLOCK_OUT_DONE) {
        mutex_lock(&op->m->mu);
        lock->server_end = a.now + a.left;
        mutex_unlock(&op->m->mu);
    }
    return rc;
}

/* Release the grant. Without a token, withdraw whatever the owner was granted unknown to us, and
 * let it be granted nothing more. */
static int release_give_back(sqlock_op *op, struct answer *a)
{
    const sqlock_lock *lock = op->lock;

    return lock->token == 0 ? release_send(op, SQLOCK_STMT_WITHDRAW, lock->lost_until, a)
                            : release_send(op, SQLOCK_STMT_RELEASE, lock->token, a);
}

/* Without a token it is unknown whether there was a grant, or whether there will be one. The
 * acquire may still be committing, or be on its way on a connection that was given up. Meanwhile
 * the row shows nothing. */
static void release_advance(sqlock_op *op)
{
    sqlock_lock *lock = op->lock;
    struct answer a;
    sqlock_why why;

    if (release_end_is_unknown(lock) && release_look(op) != 0) {
        op_failed(op); /* a lost reply is treated as patiently as the release's own */
        return;
    }
    if (release_give_back(op, &a) != 0) {
        if (op->err.flags & SQLOCK_MAYBE)
            lock->release_sent = 1;
        op_failed(op);
    } else if (a.outcome == SQLOCK_OUT_DONE || a.outcome == SQLOCK_OUT_NEVER) {
        release_done(op);
    } else if (a.outcome == SQLOCK_OUT_EARLY) {
        verb_early(op, &a);
    } else if (release_seems_applied(lock, &a)) {
        release_find_cause(op);
    } else if ((why = verb_denied(op, &a)) != SQLOCK_WHY_NONE) {
        release_denied(op, why);
    } else if (a.outcome == SQLOCK_OUT_KIND) {
        op_unknown_kind(op);
    } else {
        verb_locked(op); /* or it changed while we looked */
    }
}

int release_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err)
{
    return op_start(lock->m, lock, release_advance, wait_ms, NULL, out_op, err);
}

/* Wait for a running callback last, so that waiters for the lock do not wait for it. */
static void release_await_callback(sqlock_lock *lock)
{
    mutex_lock(&lock->m->mu);
    lock_await_callback(lock);
    mutex_unlock(&lock->m->mu);
}

/* From here on the lease is not renewed and not believed in. Only the answer decides. */
static int release_begin(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    int64_t request_ms = lock->m->request_us / 1000;
    int rc = 0, done, guarded;

    mutex_lock(&lock->m->mu);
    guarded = lock->lease.guarded != 0;
    lock->quiet = 1; /* no new callback begins after this */
    done = lock->lease.state == SQLOCK_RELEASED;
    if (!done) {
        lock_apply(lock, LEASE_RELEASING, 0);
        lock->pending = PENDING_RELEASE;
    }
    if (!done && lock->m->stopping)
        rc = sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", sqlock_why_name(SQLOCK_WHY_CLOSED));
    mutex_unlock(&lock->m->mu);
    if (rc != 0)
        return rc;
    rc = release_start(lock, guarded && request_ms > GUARDED_MS ? GUARDED_MS : 0, out_op, err);
    if (rc == 0 && done)
        op_done(*out_op, 0);
    return rc;
}

int sqlock_release_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    int rc = check_out_op(out_op, "release", err);

    if (rc == 0)
        rc = check_lock(lock, err);
    if (rc == 0)
        rc = release_begin(lock, out_op, err);
    return rc == 0 ? async_go(*out_op, out_op, err) : rc;
}

int sqlock_release(sqlock_lock *lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_op *op = NULL;
    int rc = check_lock(lock, err);

    if (rc == 0) {
        if ((rc = release_begin(lock, &op, err)) == 0) {
            op_drive(op);
            rc = op_finish(op, NULL, err);
        }
        release_await_callback(lock);
    }
    return lock != NULL ? check_context(err, "release", lock->name, lock->name_len, rc) : rc;
}
