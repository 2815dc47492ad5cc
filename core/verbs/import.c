/* Importing a grant that another process made: a handle for it. Whether it still is, and what it
 * has come to, settling or releasing it tells (P3). */
#include "core/engine/locks.h"
#include "core/verbs/check.h"

static int import(sqlock *m, const char *name, size_t name_len, int64_t token,
                  const sqlock_acquire_opts *opts, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock_lock *lock = NULL;
    int rc = lock_new(m, name, name_len, opts, &lock, err);

    if (rc != 0)
        return rc;
    mutex_lock(&m->mu);
    lock->token = token;
    lock->pending = PENDING_IMPORT;
    lock->guards = 1; /* by whom it was made, who knows */
    mutex_unlock(&m->mu);
    *out_lock = lock;
    return 0;
}

int sqlock_import(sqlock *m, const char *name, size_t name_len, const unsigned char *owner,
                  int64_t token, const sqlock_acquire_opts *opts, sqlock_lock **out_lock,
                  sqlock_error *err)
{
    UNCANCELLED;
    sqlock_acquire_opts o;
    int rc;

    if (out_lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "import: out_lock is NULL");
    *out_lock = NULL;
    if ((rc = check_alive(m, err)) == 0 && (rc = check_acquire_opts(m, opts, &o, err)) == 0 &&
        (rc = check_name(name, &name_len, err)) == 0 && (rc = check_token(token, err)) == 0) {
        o.owner = owner;
        rc = owner == NULL ? sqlock_error_set(err, SQLOCK_EINVAL, 0, "the owner is NULL")
                           : import(m, name, name_len, token, &o, out_lock, err);
    }
    return check_context(err, "import", name, 0, rc);
}
