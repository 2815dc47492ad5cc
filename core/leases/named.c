/* One request about a name, made on the caller's thread. */
#include <assert.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"

static int named_drive(sqlock_lock *lock, const struct named_request *named, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = op_start(lock->m, lock, named->advance, 0, NULL, &op, err);

    if (rc != 0)
        return rc;
    assert(lock->pending == PENDING_NOTHING);
    op->work = named->work;
    op->patient = !named->urgent;
    op_drive(op);
    return op_finish(op, NULL, err);
}

sqlock_why verb_denied(sqlock_op *op, const struct answer *a)
{
    sqlock_why why;

    mutex_lock(&op->m->mu);
    why = lock_denied(op->lock, a);
    mutex_unlock(&op->m->mu);
    return why;
}

int verb_lengthen(sqlock_op *op)
{
    sqlock *m = op->m;
    sqlock_value ttl = value_int(op->lock->lease.ttl);
    struct answer a;
    int is_known, rc;

    mutex_lock(&m->mu);
    is_known = ttl.i <= m->longest;
    mutex_unlock(&m->mu);
    if (is_known)
        return 0;
    if ((rc = op_attempt(op, SQLOCK_STMT_LONGEST, &ttl, &a)) != 0) {
        op->err.flags &= ~SQLOCK_MAYBE; /* the request for the lease was not sent yet */
        return rc;
    }
    mutex_lock(&m->mu);
    m->longest = ttl.i > m->longest ? ttl.i : m->longest;
    mutex_unlock(&m->mu);
    return 0;
}

int named_request(sqlock *m, const struct named_request *named, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    size_t len;
    sqlock_lock *lock = NULL;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_name(named->name, &len, err)) != 0 ||
        (rc = lock_new(m, named->name, len, &o, &lock, err)) != 0)
        return rc;
    lock->pending = PENDING_NOTHING; /* it will not be granted anything */
    rc = named_drive(lock, named, err);
    lock_free(lock);
    return check_context(err, named->verb, named->name, len, rc);
}
