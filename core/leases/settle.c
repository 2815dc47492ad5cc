/* Finds out what became of a grant whose reply was lost, or that another process made. */
#include <assert.h>

#include <sqlock/import.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"

/* Another owner has the lock, or a guard keeps it shut. So the request was not granted, or its
 * grant has ended. */
static void settle_not_ours(sqlock_lock *lock)
{
    mutex_lock(&lock->m->mu);
    lock->pending = PENDING_NOTHING;
    lock_apply(lock, LEASE_DENIED, SQLOCK_WHY_NOT_GRANTED);
    mutex_unlock(&lock->m->mu);
}

static int settle_send(sqlock_lock *lock, enum lock_pending pending, int32_t wait_ms,
                       sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = pending == PENDING_ACQUIRE   ? acquire_start(lock, wait_ms, NULL, &op, err)
             : pending == PENDING_RELEASE ? release_start(lock, wait_ms, &op, err)
                                          : renew_start(lock, wait_ms, &op, err);

    if (rc != 0)
        return rc;
    assert(!op->async && op->tries == 0);
    op->settle = 1;
    op->unsure = pending == PENDING_ACQUIRE ||
                 pending == PENDING_RELEASE; /* without an answer it stays unsure */
    rc = op_drive(op, NULL, err);
    if (pending == PENDING_ACQUIRE && (rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED))
        settle_not_ours(lock);
    return rc;
}

/* Others may have had it since the shared grant was given back. */
static int settle_upgrade(sqlock_lock *lock, int32_t wait_ms, sqlock_error *err)
{
    int rc = settle_send(lock, PENDING_RELEASE, wait_ms, err);

    return rc != 0 ? rc
                   : sqlock_error_set(err, SQLOCK_ELOST, 0,
                                      "whatever the upgrade was granted was given back");
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
        rc = pending == PENDING_ACQUIRE && lock->upgrades
                 ? settle_upgrade(lock, wait_ms, err)
                 : settle_send(lock, pending, wait_ms, err);
    }
    return check_context(err, "settle", lock->name, lock->name_len, rc);
}

static int import_grant(sqlock *m, const char *name, size_t name_len, int64_t token,
                        const sqlock_acquire_opts *opts, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock_lock *lock = NULL;
    int rc = lock_new(m, name, name_len, opts, &lock, err);

    if (rc != 0)
        return rc;
    assert(token > 0);
    mutex_lock(&m->mu);
    lock_sit(lock, opts->slot);
    lock->token = token;
    lock->pending = PENDING_IMPORT;
    lock->guards = 1; /* the process that made it may have guarded it */
    mutex_unlock(&m->mu);
    *out_lock = lock;
    return 0;
}

int sqlock_import(sqlock *m, const char *name, const unsigned char *owner, int64_t token,
                  const sqlock_acquire_opts *opts, sqlock_lock **out_lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_acquire_opts o;
    size_t name_len;
    int rc;

    if (out_lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "import: out_lock is NULL");
    *out_lock = NULL;
    if ((rc = check_alive(m, err)) == 0 && (rc = check_acquire_opts(m, opts, &o, err)) == 0 &&
        (rc = check_name(name, &name_len, err)) == 0 && (rc = check_token(token, err)) == 0) {
        o.owner = owner;
        rc = owner == NULL ? sqlock_error_set(err, SQLOCK_EINVAL, 0, "the owner is NULL")
             : o.actor != NULL
                 ? sqlock_error_set(err, SQLOCK_EINVAL, 0, "an owner that is given has its actor")
             : o.mode != SQLOCK_EXCLUSIVE && o.slot < 0
                 ? sqlock_error_set(err, SQLOCK_EINVAL, 0, "slot is not set, and mode is")
                 : import_grant(m, name, name_len, token, &o, out_lock, err);
    }
    return check_context(err, "import", name, 0, rc);
}
