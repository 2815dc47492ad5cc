/* Cancel objects, which end a wait from another thread, and their listeners. */
#include <assert.h>

#include "core/engine/cancel.h"
#include "core/engine/manager.h"

void cancel_listen(struct cancel_listener *listener, sqlock_cancel *cancel,
                   void (*now)(struct cancel_listener *))
{
    assert(now != NULL);
    listener->now = now;
    listener->cancel = cancel;
    list_init(&listener->in_cancel);
    if (cancel == NULL)
        return;
    mutex_lock(&cancel->mu);
    list_append(&cancel->listeners, &listener->in_cancel);
    if (cancel->fired)
        now(listener);
    mutex_unlock(&cancel->mu);
}

void cancel_unlisten(struct cancel_listener *listener)
{
    if (listener->cancel == NULL)
        return;
    mutex_lock(&listener->cancel->mu);
    assert(listener->in_cancel.next != &listener->in_cancel); /* it listens */
    list_remove(&listener->in_cancel);
    mutex_unlock(&listener->cancel->mu);
    listener->cancel = NULL;
}

int sqlock_cancel_new(sqlock_cancel **out_cancel, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_cancel *cancel;

    if (out_cancel == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "cancel: out_cancel is NULL");
    *out_cancel = NULL;
    if ((cancel = sqlock_mem_alloc(sizeof *cancel)) == NULL)
        return error_nomem(err);
    cancel->process = sqlock_process_id();
    mutex_init(&cancel->mu);
    cond_init(&cancel->wake);
    list_init(&cancel->listeners);
    *out_cancel = cancel;
    return 0;
}

void sqlock_cancel_fire(sqlock_cancel *cancel)
{
    UNCANCELLED;
    if (cancel == NULL || cancel->process != sqlock_process_id())
        return; /* when the process forked, another thread may have held the mutex */
    mutex_lock(&cancel->mu);
    cancel->fired = 1;
    cond_wake_all(&cancel->wake);
    LIST_EACH(at, &cancel->listeners)
    {
        struct cancel_listener *listener = LIST_MEMBER(at, struct cancel_listener, in_cancel);

        listener->now(listener);
    }
    mutex_unlock(&cancel->mu);
}

void sqlock_cancel_free(sqlock_cancel *cancel)
{
    UNCANCELLED;
    if (cancel == NULL || cancel->process != sqlock_process_id())
        return;
    cond_free(&cancel->wake);
    mutex_free(&cancel->mu);
    sqlock_mem_free(cancel);
}

int cancel_wait(sqlock_cancel *cancel, int64_t until)
{
    int fired = 0;

    if (cancel == NULL) {
        for (int64_t left; (left = until - sqlock_now_us()) > 0;)
            sqlock_sleep_us(left);
        return 0;
    }
    mutex_lock(&cancel->mu);
    while (!cancel->fired && sqlock_now_us() < until)
        cond_wait_until(&cancel->wake, &cancel->mu, until);
    fired = cancel->fired;
    mutex_unlock(&cancel->mu);
    return fired;
}
