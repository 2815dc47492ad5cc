/* Breaking a grant whose holder is dead. */
#include <string.h>

#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/verbs/check.h"

/* The grant to be broken travels in a handle of its own that nobody sees: it holds name and token.
 */
static void advance(sqlock_op *op)
{
    sqlock *m = op->m;
    sqlock_value values[] = {
        value_bytes(m->ns, m->ns_len),
        value_bytes(op->lock->name, op->lock->name_len),
        value_int(op->lock->token),
    };
    struct answer a;

    if (op_is_over(op))
        return;
    if (op_attempt(op, SQLOCK_STMT_BREAK, values, &a) != 0)
        op_failed(op);
    else if (a.outcome == SQLOCK_OUT_DONE || op->unsure)
        op_done(op,
                0); /* after a lost reply the grant was broken by us, or had ended: it is gone */
    else
        op_done(op, sqlock_error_set(&op->err, SQLOCK_ELOST, 0, "there is no grant with token %lld",
                                     (long long)op->lock->token));
}

int sqlock_break(sqlock *m, const char *name, size_t name_len, int64_t token, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_name(name, &name_len, err)) != 0 ||
        (rc = check_token(token, err)) != 0 ||
        (rc = lock_new(m, name, name_len, &o, &lock, err)) != 0)
        return rc;
    lock->token = token;
    if ((rc = op_start(m, lock, advance, 0, NULL, &op, err)) == 0) {
        op_drive(op);
        rc = op_finish(op, NULL, err);
    }
    lock_free(lock);
    return check_context(err, "break", name, name_len, rc);
}
