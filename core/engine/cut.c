/* Listening to a cancel object. */
#include "core/engine/cut.h"
#include "core/engine/manager.h"

void cut_listen(struct cut *cut, sqlock_cancel *cancel, void (*now)(struct cut *))
{
    cut->now = now;
    cut->cancel = cancel;
    if (cancel == NULL)
        return;
    mutex_lock(&cancel->mu);
    list_append(&cancel->cuts, &cut->in_cancel);
    if (cancel->fired)
        now(cut);
    mutex_unlock(&cancel->mu);
}

void cut_deafen(struct cut *cut)
{
    if (cut->cancel == NULL)
        return;
    mutex_lock(&cut->cancel->mu);
    list_remove(&cut->in_cancel);
    mutex_unlock(&cut->cancel->mu);
    cut->cancel = NULL;
}
