/* Scoped use: whatever way the scope is left, the lock is given back. */
#include "core/verbs/check.h"

/* An acquire without an answer: find out; if that fails too, give back what may have been granted.
 */
static int settle_or_drop(sqlock_lock **lock, int rc, sqlock_error *err)
{
    if (rc != SQLOCK_EUNSURE || *lock == NULL)
        return rc;
    rc = sqlock_settle(*lock, 0, err);
    if (rc != 0)
        sqlock_scope_end(lock);
    return rc;
}

int sqlock_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts, sqlock_work_fn work,
                void *user, int *out_result, sqlock_error *err)
{
    sqlock_lock *lock = NULL;
    sqlock_error failure = {0}; /* err is left alone when it ends well after all */
    int result, rc;

    if (work == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "with: work is NULL");
    rc = sqlock_acquire(m, name, opts, &lock, &failure);
    if ((rc = settle_or_drop(&lock, rc, &failure)) != 0)
        return error_give(err, &failure);
    result = work(lock, user);
    if (out_result != NULL)
        *out_result = result;
    rc = sqlock_release(lock, err);
    sqlock_lock_free(lock);
    return rc;
}

void sqlock_scope_end(sqlock_lock **lock)
{
    if (*lock == NULL)
        return;
    sqlock_release(*lock, NULL);
    sqlock_lock_free(*lock);
    *lock = NULL;
}
