/* The rows that transactions lock by name (P12), made beforehand. */
#include <sqlock/transaction.h>

#include "core/verbs/check.h"
#include "core/verbs/verbs.h"

static void advance(sqlock_op *op)
{
    sqlock_value values[] = {
        value_bytes(op->lock->ns, op->lock->ns_len),
        value_bytes(op->lock->name, op->lock->name_len),
    };
    struct answer a;

    if (op_attempt(op, SQLOCK_STMT_ENSURE, values, &a) != 0)
        op_failed(op);
    else if (a.outcome == SQLOCK_OUT_DONE)
        op_done(op, 0);
    else
        op_hurry(op); /* it was deleted while we looked */
}

int sqlock_ensure(sqlock *m, const char *name, size_t name_len, sqlock_error *err)
{
    UNCANCELLED;
    struct asked asked = {"ensure", name, name_len, advance, NULL, 0};

    return verb_ask(m, &asked, err);
}
