/* Cutting waits from another thread. */
#include "core/engine/op.h"

int sqlock_cancel_new(sqlock_cancel **out_cancel, sqlock_error *err)
{
    sqlock_cancel *cancel;

    if (out_cancel == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "cancel: out_cancel is NULL");
    *out_cancel = NULL;
    if ((cancel = sqlock_mem_alloc(sizeof *cancel)) == NULL)
        return error_nomem(err);
    cancel->process = sqlock_process_id();
    mutex_init(&cancel->mu);
    list_init(&cancel->ops);
    *out_cancel = cancel;
    return 0;
}

void sqlock_cancel_fire(sqlock_cancel *cancel)
{
    if (cancel->process != sqlock_process_id())
        return; /* a thread of the parent may have held the mutex at the fork */
    mutex_lock(&cancel->mu);
    cancel->fired = 1;
    LIST_EACH(at, &cancel->ops)
    {
        op_interrupt(LIST_MEMBER(at, sqlock_op, in_cancel));
    }
    mutex_unlock(&cancel->mu);
}

void sqlock_cancel_free(sqlock_cancel *cancel)
{
    if (cancel == NULL || cancel->process != sqlock_process_id())
        return;
    mutex_free(&cancel->mu);
    sqlock_mem_free(cancel);
}
