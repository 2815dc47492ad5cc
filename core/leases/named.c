/* One request about a name, made on the caller's thread. */
#include <assert.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"

static int named_drive(sqlock_lock *lock, const struct named_request *named, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = op_start(lock->m, lock, named->does, 0, NULL, &op, err);

    if (rc != 0)
        return rc;
    assert(lock->pending == PENDING_NOTHING);
    op->work = named->work;
    op->patient = !named->urgent;
    if (named->until != 0)
        op->deadline = time_min(op->deadline, named->until);
    return op_drive(op, NULL, err);
}

int verb_must_lengthen(const sqlock_op *op)
{
    return op->lock->lease.ttl > op->m->longest;
}

int verb_send_length(sqlock_op *op)
{
    return OP_SEND(op, SQLOCK_STMT_LONGEST, value_int(op->lock->lease.ttl));
}

void verb_lengthened(sqlock_op *op)
{
    op->m->longest = time_max(op->m->longest, op->attempt->request.few.v[0].i);
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
    lock_sit(lock, named->seat);
    rc = named_drive(lock, named, err);
    lock_free(lock);
    return check_context(err, named->verb, named->name, len, rc);
}
