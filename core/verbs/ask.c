/* One request about a name, made in the caller's thread. */
#include "core/engine/locks.h"
#include "core/verbs/check.h"
#include "core/verbs/verbs.h"

static int drive(sqlock_lock *lock, const struct asked *asked, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = op_start(lock->m, lock, asked->advance, 0, NULL, &op, err);

    if (rc != 0)
        return rc;
    op->work = asked->work;
    op->patient = !asked->urgent;
    op_drive(op);
    return op_finish(op, NULL, err);
}

int verb_ask(sqlock *m, const struct asked *asked, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    size_t len = asked->name_len;
    sqlock_lock *lock = NULL;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_name(asked->name, &len, err)) != 0 ||
        (rc = lock_new(m, asked->name, len, &o, &lock, err)) != 0)
        return rc;
    lock->pending = PENDING_NOTHING; /* nothing will be granted by it */
    rc = drive(lock, asked, err);
    lock_free(lock);
    return check_context(err, asked->verb, asked->name, len, rc);
}
