/* A grant that takes the place of another one of the same holder (op->former), without a moment in
 * which others could have the lock alone.
 *
 * An exclusive holder becomes a shared one by the request for a seat. Its owner has the lock's row,
 * which is the turn, and gives it back with the same statement.
 *
 * A shared holder becomes exclusive in four steps:
 * 1. It gets the turn, as another owner. It does not wait for it: whoever has it, or waits for it,
 *    waits for this one's seat. (Two readers that both want to write wait for each other for ever:
 *    the one that comes second is refused, as in SQLite and in the upgrade locks of databases.)
 * 2. It waits until its seat is the only one. No new ones are granted meanwhile.
 * 3. It releases the seat. If that was still there, no one had the lock alone since it was granted,
 *    because `drain` would have emptied it.
 * 4. It is granted the lock, as any owner of the turn. If the grant stands since the turn began, no
 * one had the row in between. Its token may be another one: a pruner raises the floor of tokens. */
#include <string.h>

#include <sqlock/mode.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/acquire.h"
#include "core/leases/leases.h"
#include "core/sql/texts.h"

static const char was_given_back[] =
    "the shared lock was given back, and the exclusive one not granted";

static int change_upgrades(const sqlock_op *op)
{
    return op->former != NULL && op->lock->mode == SQLOCK_EXCLUSIVE;
}

static void change_lost(sqlock_op *op)
{
    const sqlock_lock *former = op->former;
    int given_back = op->acquire.resigned;

    op->refused = 0;
    op_done(op, op->unsure ? op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                          "a reply was lost, and the lock was lost meanwhile")
                           : op_error_set(op, SQLOCK_ELOST, 0, "%s",
                                          given_back ? "it was given back, and others were quicker"
                                                     : sqlock_why_name(former->lease.why)));
}

int change_next(sqlock_op *op, int64_t now)
{
    if (!change_upgrades(op) || op->phase == ACQUIRE_GIVE_BACK || op->phase == ACQUIRE_RESIGN)
        return 0;
    if (op->acquire.resigned ? !op->acquire.has_turn : !lease_is_held(&op->former->lease, now)) {
        lock_change(op->former, LEASE_TICK, now, 0);
        change_lost(op);
        return 1;
    }
    if (!op->acquire.has_turn && (op->phase == ACQUIRE_GRANT || op->phase == ACQUIRE_DRAIN))
        op->phase = ACQUIRE_QUEUE;
    return 0;
}

int change_must_not_wait(const sqlock_op *op)
{
    return op->former != NULL && !op->acquire.has_turn;
}

void change_turned(sqlock_op *op, const struct answer *a)
{
    if (!change_upgrades(op))
        return;
    if (op->acquire.resigned && a->since != op->acquire.turn_since)
        change_lost(op);
    else
        op->acquire.turn_since = a->since;
}

/* If the seat is gone, the answer says why. The wait is over: what is left is given the time of a
 * request, once, or nothing would be held at its end. */
static void change_resigns(sqlock_op *op, int64_t now)
{
    op->deadline = time_max(op->deadline, now + op->m->request_us);
    op->phase = ACQUIRE_RESIGN;
    op_again(op, now);
}

int change_is_last(sqlock_op *op, const struct answer *a, int64_t seat, int64_t now)
{
    const sqlock_lock *former = op->former;

    if (!change_upgrades(op) || op->acquire.resigned || !op->acquire.has_turn ||
        seat != former->seat || a->token != former->token)
        return 0;
    change_resigns(op, now);
    return 1;
}

int change_drained(sqlock_op *op, int64_t now)
{
    if (!change_upgrades(op) || op->acquire.resigned)
        return 0;
    change_resigns(op, now);
    return 1;
}

/* It is about another row than the op's lock, so it goes alone. */
int change_send_resign(sqlock_op *op)
{
    sqlock_lock *former = op->former;

    former->paused = 1;
    op->alone = 1;
    return OP_SEND(op, SQLOCK_STMT_RELEASE, value_bytes(former->ns, former->ns_len),
                   value_bytes(former->name, former->key_len),
                   value_bytes(former->owner, sizeof former->owner), value_int(former->token),
                   value_int(1));
}

void change_resigned(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_lock *former = op->former;
    sqlock_why why = lock_denied(former, a);

    if (a->outcome == SQLOCK_OUT_DONE) {
        op->unsure = 0;
        op->acquire.resigned = 1;
        lock_replaced(former, now);
        op->phase = ACQUIRE_DRAIN;
        op_again(op, now);
    } else if (why != SQLOCK_WHY_NONE) {
        lock_change(former, LEASE_DENIED, now, why);
        change_lost(op);
    } else {
        verb_locked(op, now);
    }
}

int change_denied(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_lock *lost = op->former != NULL ? op->former : op->lock; /* that one settles */
    sqlock_why why = answer_why(a, lost->token);

    if (!op->lock->downgrades)
        return 0;
    if (op->former != NULL && (a->outcome == SQLOCK_OUT_HELD || a->outcome == SQLOCK_OUT_GRACE))
        why = SQLOCK_WHY_TAKEN;
    if (why == SQLOCK_WHY_NONE || (op->former == NULL && why == SQLOCK_WHY_RELEASED))
        return 0;
    op->unsure = 0;
    op->refused = 0;
    lost->pending = PENDING_NOTHING;
    lock_change(lost, LEASE_DENIED, now, why);
    op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "%s", sqlock_why_name(why)));
    return 1;
}

int change_follows(sqlock_op *op, const struct answer *a)
{
    if (!change_upgrades(op) || (op->acquire.resigned && a->since == op->acquire.turn_since))
        return 1;
    op->acquire.token = a->token;
    op->phase = ACQUIRE_GIVE_BACK;
    return 0;
}

int change_gave_back(sqlock_op *op, int ended, int64_t now)
{
    if (!change_upgrades(op))
        return 0;
    op->unsure = !ended;
    if (op->acquire.resigned)
        change_lost(op);
    else
        change_resigns(op, now);
    return 1;
}

/* An upgrade that has given its shared grant back, and was granted nothing, holds nothing. */
static int change_code(sqlock_op *op, int code)
{
    return op->acquire.resigned && code != 0 && code != SQLOCK_EUNSURE && code != SQLOCK_ELOST
               ? op_error_set(op, SQLOCK_ELOST, 0, "%s", was_given_back)
               : code;
}

/* The former grant is over, or goes on. If it is not known whether its owner has a seat by now, the
 * handle of that one finds out; if it is not known whether it was given back, its own. */
int change_ends(sqlock_op *op, int code)
{
    sqlock_lock *former = op->former;
    int64_t now = sqlock_now_us();

    if (former == NULL)
        return code;
    code = change_code(op, code);
    former->changes = former->paused = 0;
    if (code == 0 || (code == SQLOCK_EUNSURE && op->lock->downgrades)) {
        lock_replaced(former, now);
    } else if (former->release_sent) {
        former->quiet = 1;
        former->pending = PENDING_RELEASE;
        lock_change(former, LEASE_RELEASING, now, 0);
    }
    lock_act(former);
    return code;
}

/* ---- how they begin ----------------------------------------------------------------------------
 */

static int change_check(sqlock_lock *lock, int64_t mode, sqlock_error *err)
{
    int rc = check_lock(lock, err);
    sqlock_state state;

    if (rc != 0)
        return rc;
    state = sqlock_lock_state(lock);
    if (lock->seat >= 0 && lock->mode == SQLOCK_EXCLUSIVE)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "an imported lock with a slot stays as it is");
    if (lock->mode != mode)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                mode == SQLOCK_EXCLUSIVE ? "the lock is not exclusive"
                                                         : "the lock is not shared");
    if (state == SQLOCK_LOST)
        return sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", sqlock_why_name(sqlock_lock_why(lock)));
    if (state != SQLOCK_HELD && state != SQLOCK_AT_RISK)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the lock is %s", sqlock_state_name(state));
    if (renew_is_past_hold(lock))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "max_hold_ms has passed since the grant");
    return texts_has(lock->m->texts, SQLOCK_STMT_SEAT, err);
}

static int change_begin(sqlock_lock *lock, int64_t mode, int32_t wait_ms, sqlock_cancel *cancel,
                        sqlock_op **out_op, sqlock_error *err)
{
    const int down = mode == SQLOCK_SHARED;
    sqlock *m = lock->m;
    sqlock_lock *next;
    int rc, changes;

    if ((rc = lock_like(lock, mode, down, &next, err)) != 0)
        return rc;
    if ((rc = acquire_start(next, wait_ms, cancel, out_op, err)) != 0) {
        lock_free(next);
        return rc;
    }
    (*out_op)->phase = down ? ACQUIRE_SEAT : ACQUIRE_QUEUE;
    (*out_op)->gives_lock = 1;
    mutex_lock(&m->mu);
    changes = lock->changes;
    if (!changes)
        op_replace(*out_op, lock);
    mutex_unlock(&m->mu);
    if (!changes)
        return 0;
    op_end(*out_op,
           op_error_set(*out_op, SQLOCK_ESTATE, 0, "another change of the lock is under way"));
    rc = op_finish(*out_op, NULL, err);
    *out_op = NULL;
    return rc;
}

static int downgrade_begin(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    int rc = change_check(lock, SQLOCK_EXCLUSIVE, err);

    return rc == 0 ? change_begin(lock, SQLOCK_SHARED, 0, NULL, out_op, err) : rc;
}

static int upgrade_begin(sqlock_lock *lock, int32_t wait_ms, sqlock_cancel *cancel,
                         sqlock_op **out_op, sqlock_error *err)
{
    int rc = change_check(lock, SQLOCK_SHARED, err);

    if (rc == 0)
        rc = check_wait(wait_ms, err);
    if (rc == 0)
        rc = check_cancel(cancel, err);
    return rc == 0 ? change_begin(lock, SQLOCK_EXCLUSIVE, wait_ms, cancel, out_op, err) : rc;
}

int sqlock_downgrade_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    int rc = check_out_op(out_op, "downgrade", err);

    if (rc != 0)
        return rc;
    rc = downgrade_begin(lock, out_op, err);
    return async_begin(rc, lock, "downgrade", out_op, err);
}

int sqlock_upgrade_start(sqlock_lock *lock, int32_t wait_ms, sqlock_cancel *cancel,
                         sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    int rc = check_out_op(out_op, "upgrade", err);

    if (rc != 0)
        return rc;
    rc = upgrade_begin(lock, wait_ms, cancel, out_op, err);
    return async_begin(rc, lock, "upgrade", out_op, err);
}

/* The new handle takes the place of the old one. */
static void change_take(sqlock_lock **lock, sqlock_lock *next)
{
    sqlock_lock *old = *lock;

    *lock = next;
    release_await_callback(old);
    lock_free(old);
}

/* lock, or *lock, is NULL: no name to put before the error. */
static int change_context(sqlock_lock *const *lock, const char *verb, int rc, sqlock_error *err)
{
    return *lock == NULL ? rc : check_context(err, verb, (*lock)->name, (*lock)->name_len, rc);
}

int sqlock_downgrade(sqlock_lock **lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_lock *next = NULL;
    sqlock_op *op = NULL;
    int rc;

    if (lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "downgrade: lock is NULL");
    if ((rc = downgrade_begin(*lock, &op, err)) == 0)
        rc = op_drive(op, &next, err);
    if (next != NULL)
        change_take(lock, next);
    return change_context(lock, "downgrade", rc, err);
}

/* A grant of which it is not known whether it was made is given back as far as that can be done. */
int sqlock_upgrade(sqlock_lock **lock, int32_t wait_ms, sqlock_cancel *cancel, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_lock *next = NULL;
    sqlock_op *op = NULL;
    int rc;

    if (lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "upgrade: lock is NULL");
    if ((rc = upgrade_begin(*lock, wait_ms, cancel, &op, err)) != 0)
        return change_context(lock, "upgrade", rc, err);
    rc = op_drive(op, &next, err);
    if (rc == 0)
        change_take(lock, next);
    else
        sqlock_scope_end(&next);
    if (rc == SQLOCK_EUNSURE && sqlock_lock_state(*lock) == SQLOCK_RELEASED)
        rc = sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", was_given_back);
    return change_context(lock, "upgrade", rc, err);
}
