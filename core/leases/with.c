/* Scoped use: whatever way the scope is left, the lock is given back. */
#include "core/engine/arguments.h"

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

/* Under SQLite a release beside a guard is not kept waiting for long, for the guard may be of this
 * very thread. Nobody comes back to ask again here, so it is asked once more, with all patience:
 * the transaction that is in the way may be somebody else's. */
static int give_back(sqlock_lock *lock, sqlock_error *err)
{
    int rc = sqlock_release(lock, err);

    if (rc == SQLOCK_EGUARDED && sqlock_lock_state(lock) == SQLOCK_UNSURE &&
        sqlock_settle(lock, 0, NULL) == 0)
        rc = 0;
    return rc;
}

struct scope {
    sqlock_lock *lock;
    sqlock_work_fn work;
    void *user;
    int result;
};

static void call_work(void *arg)
{
    struct scope *s = arg;

    s->result = s->work(s->lock, s->user);
}

/* The thread was cancelled in it. */
static void with_drop(void *arg)
{
    struct scope *s = arg;

    sqlock_scope_end(&s->lock);
}

int sqlock_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts, sqlock_work_fn work,
                void *user, int *out_result, sqlock_error *err)
{
    UNCANCELLED;
    struct scope s = {.work = work, .user = user};
    sqlock_error failure = {0}; /* err is left alone when it ends well after all */
    int rc;

    if (work == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "with: work is NULL");
    rc = sqlock_acquire(m, name, opts, &s.lock, &failure);
    if ((rc = settle_or_drop(&s.lock, rc, &failure)) != 0)
        return error_give(err, &failure);
    cancel_let(uncancelled, call_work, with_drop, &s);
    if (out_result != NULL)
        *out_result = s.result;
    return sqlock_lock_end(&s.lock, err);
}

int sqlock_lock_end(sqlock_lock **lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error failure = {0}; /* err is left alone when it ends well after all */
    int rc;

    if (lock == NULL || *lock == NULL)
        return 0;
    rc = give_back(*lock, &failure);
    sqlock_lock_free(*lock);
    *lock = NULL;
    return rc == 0 ? 0 : error_give(err, &failure);
}

void sqlock_scope_end(sqlock_lock **lock)
{
    int rc = sqlock_lock_end(lock, NULL);

    (void)rc; /* after a failure the lease runs out */
}
