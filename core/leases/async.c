/* Requests for event loops. They are made of the same parts as the blocking calls, and the worker
 * drives them. */
#include <assert.h>
#include <string.h>

#include <sqlock/async.h>

#include "core/engine/arguments.h"
#include "core/engine/loop.h"
#include "core/leases/acquire.h"
#include "core/leases/leases.h"

int async_go(sqlock_op *op, const char *word, sqlock_op **out_op, sqlock_error *err)
{
    int rc = op_go_async(op, err);

    if (rc != 0) {
        op->err.code = rc;
        if (!op->done)
            op_end(op, rc);
        op_finish(op, NULL, NULL);
        *out_op = NULL;
        return rc;
    }
    assert(op->async);
    op->word = word;
    *out_op = op;
    return 0;
}

int async_begin(int code, const sqlock_lock *lock, const char *word, sqlock_op **out_op,
                sqlock_error *err)
{
    if (code == 0)
        code = async_go(*out_op, word, out_op, err);
    return lock != NULL ? check_context(err, word, lock->name, lock->name_len, code) : code;
}

/* In a forked child no thread drives the op, and its mutex may be locked for ever (P17). */
static int op_check(const sqlock_op *op, sqlock_error *err)
{
    return op == NULL ? sqlock_error_set(err, SQLOCK_EINVAL, 0, "the request is NULL")
                      : check_alive(op->m, err);
}

int sqlock_op_fd(sqlock_op *op)
{
    UNCANCELLED;
    int fd, rc;

    if ((rc = op_check(op, NULL)) != 0)
        return rc;
    mutex_lock(&op->m->mu);
    fd = op_descriptor(op);
    mutex_unlock(&op->m->mu);
    return fd >= 0 ? fd : SQLOCK_ESYS;
}

int sqlock_op_step(sqlock_op *op)
{
    UNCANCELLED;
    int done;

    if (op_check(op, NULL) != 0)
        return 1;
    mutex_lock(&op->m->mu);
    done = op->done;
    mutex_unlock(&op->m->mu);
    return done;
}

int64_t sqlock_op_place(sqlock_op *op)
{
    UNCANCELLED;
    int64_t place;

    if (op_check(op, NULL) != 0)
        return 0;
    mutex_lock(&op->m->mu);
    place = waiting_number(op);
    mutex_unlock(&op->m->mu);
    return place;
}

void sqlock_op_cancel(sqlock_op *op)
{
    UNCANCELLED;
    if (op_check(op, NULL) == 0)
        op_interrupt(op);
}

/* In a callback of a manager without threads: the step that is to go on with the op waits for it.
 */
static int op_waits_for_itself(sqlock_op *op)
{
    sqlock *m = op->m;
    int waits;

    mutex_lock(&m->mu);
    waits = !op->done && m->loop != NULL && loop_is_mine(m);
    mutex_unlock(&m->mu);
    return waits;
}

int sqlock_op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    UNCANCELLED;
    char name[SQLOCK_NAME_MAX];
    const char *word;
    size_t len;
    int rc;

    if (out_lock != NULL)
        *out_lock = NULL;
    if ((rc = op_check(op, err)) != 0)
        return rc;
    if (op_waits_for_itself(op))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the request is under way, and this is a callback of its manager");
    word = op->word;
    len = op->lock->name_len;
    memcpy(name, op->lock->name, len); /* the op may end with its lock */
    rc = op_finish(op, out_lock, err);
    return word != NULL ? check_context(err, word, name, len, rc) : rc;
}
