/* Scoped use: the lock is given back, no matter how the scope is left. */
#include <assert.h>

#include "core/engine/arguments.h"
#include "core/leases/leases.h"

/* After an acquire without an answer, find out whether it was granted. If that fails too, give back
 * what may have been granted. */
static int with_settle(sqlock_lock **lock, int rc, sqlock_error *err)
{
    if (rc != SQLOCK_EUNSURE || *lock == NULL)
        return rc;
    rc = sqlock_settle(*lock, 0, err);
    if (rc != 0)
        sqlock_scope_end(lock);
    return rc;
}

int release_once_more(sqlock_lock *lock, int rc)
{
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

static void with_call_work(void *arg)
{
    struct scope *s = arg;

    s->result = s->work(s->lock, s->user);
}

/* The thread was cancelled during the work. */
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
    sqlock_error failure = {0}; /* err stays untouched if all ends well */
    int rc;

    if (work == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "with: work is NULL");
    rc = sqlock_acquire(m, name, opts, &s.lock, &failure);
    if ((rc = with_settle(&s.lock, rc, &failure)) != 0)
        return error_give(err, &failure);
    assert(s.lock != NULL);
    cancel_let(uncancelled, with_call_work, with_drop, &s);
    if (out_result != NULL)
        *out_result = s.result;
    return sqlock_lock_end(&s.lock, err);
}

static int with_end(sqlock_lock **lock, sqlock_error *err)
{
    int rc = release_once_more(*lock, sqlock_release(*lock, err));

    sqlock_lock_free(*lock);
    *lock = NULL;
    return rc;
}

int sqlock_lock_end(sqlock_lock **lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error failure = {0}; /* err stays untouched if all ends well */

    if (lock == NULL || *lock == NULL)
        return 0;
    return with_end(lock, &failure) == 0 ? 0 : error_give(err, &failure);
}

/* After a failure the lease runs out. */
void sqlock_scope_end(sqlock_lock **lock)
{
    UNCANCELLED;

    if (lock != NULL && *lock != NULL)
        with_end(lock, NULL);
}
