/* Settle a request whose reply was lost: the same request, the same owner, sent again (P5). For an
 * imported grant, whose request was somebody else's, and for one that a transaction guarded past
 * its deadline, that is its renewal. */
#include "core/engine/locks.h"
#include "core/verbs/check.h"
#include "core/verbs/verbs.h"

/* Someone else holds it, or a guard keeps it shut: the request was not granted, or has ended. */
static void not_ours(sqlock_lock *lock)
{
    mutex_lock(&lock->m->mu);
    lock->pending = PENDING_NOTHING;
    lock_apply(lock, LEASE_DENIED, SQLOCK_WHY_NOT_GRANTED);
    mutex_unlock(&lock->m->mu);
}

static int ask(sqlock_lock *lock, enum lock_pending pending, int32_t wait_ms, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = pending == PENDING_ACQUIRE   ? acquire_start(lock, wait_ms, NULL, &op, err)
             : pending == PENDING_RELEASE ? release_start(lock, wait_ms, &op, err)
                                          : renew_start(lock, wait_ms, &op, err);

    if (rc != 0)
        return rc;
    op->settle = 1;
    op->unsure = pending == PENDING_ACQUIRE ||
                 pending == PENDING_RELEASE; /* no answer leaves it as unsure as it was */
    op_drive(op);
    rc = op_finish(op, NULL, err);
    if (pending == PENDING_ACQUIRE && (rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED))
        not_ours(lock);
    return rc;
}

int sqlock_settle(sqlock_lock *lock, int32_t wait_ms, sqlock_error *err)
{
    UNCANCELLED;
    enum lock_pending pending;
    sqlock_state state;
    int rc;

    if ((rc = check_lock(lock, err)) != 0 || (rc = check_wait(wait_ms, err)) != 0)
        return rc;
    state = sqlock_lock_state(lock);
    if (state == SQLOCK_LOST)
        rc = sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", sqlock_why_name(sqlock_lock_why(lock)));
    else if (state == SQLOCK_UNSURE) {
        mutex_lock(&lock->m->mu);
        pending = lock->pending;
        mutex_unlock(&lock->m->mu);
        rc = ask(lock, pending, wait_ms, err);
    }
    return check_context(err, "settle", lock->name, lock->name_len, rc);
}
