/* Managers that start no thread: the application's event loop steps them. */
#include <sqlock/async.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/engine/loop.h"
#include "core/leases/leases.h"

/* An attempt opens a connection and makes the handshake before it sends its request. So opening is
 * a request that wants nothing else: the handshake once more. */
static int opening_next(sqlock_op *op, int64_t now)
{
    (void)now;
    return OP_SEND(op, SQLOCK_STMT_HANDSHAKE,
                   value_int((op->m->flags & SQLOCK_OPEN_ACCEPT_WEAK) != 0));
}

static void opening_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    (void)a;
    (void)now;
    op_done(op, 0);
}

/* Once, as sqlock_open() does it. */
static void opening_failed(sqlock_op *op, int64_t now)
{
    sqlock_error err;

    (void)now;
    error_recall(&op->err, &err);
    error_prefix(&err, "open");
    error_keep(&op->err, &err);
    op_done(op, op->err.code);
}

const struct verb opening_verb = {opening_next, opening_answered, opening_failed, 0, NULL};

/* The op has a hidden lock, as each op has one. */
static int opening_start(sqlock *m, sqlock_op **out_op, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    int rc = lock_new(m, "open", 4, &o, &lock, err);

    if (rc != 0)
        return rc;
    lock->pending = PENDING_NOTHING;
    if ((rc = op_start(m, lock, &opening_verb, 0, NULL, out_op, err)) != 0) {
        lock_free(lock);
        return rc;
    }
    (*out_op)->hides_lock = 1;
    return async_go(*out_op, NULL, out_op, err);
}

int sqlock_open_start(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                      sqlock **out_m, sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    sqlock *m = NULL;
    int rc;

    if (out_m == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "open: out_m is NULL");
    *out_m = NULL;
    if ((rc = check_out_op(out_op, "open", err)) != 0)
        return rc;
    if ((rc = manager_open(driver, url, opts, &m, err)) == 0 && (rc = loop_make(m, err)) == 0)
        rc = opening_start(m, out_op, err);
    if (rc != 0) {
        sqlock_close(m);
        error_prefix(err, "open");
        return rc;
    }
    *out_m = m;
    return 0;
}

/* NULL, a manager with threads, or a parent's. */
static int stepped_check(const sqlock *m)
{
    int rc = check_alive(m, NULL);

    return rc == 0 && m->loop == NULL ? SQLOCK_EINVAL : rc;
}

int sqlock_loop_fd(sqlock *m)
{
    int rc = stepped_check(m);

    return rc == 0 ? loop_descriptor(m) : rc;
}

int64_t sqlock_loop_due_us(sqlock *m)
{
    UNCANCELLED;
    int64_t due;

    if (stepped_check(m) != 0)
        return TIME_NEVER;
    mutex_lock(&m->mu);
    due = loop_next(m);
    mutex_unlock(&m->mu);
    return due;
}

int sqlock_loop_step(sqlock *m)
{
    UNCANCELLED;
    int rc = stepped_check(m);

    if (rc != 0)
        return rc;
    mutex_lock(&m->mu);
    loop_go_on(m);
    mutex_unlock(&m->mu);
    return 0;
}
