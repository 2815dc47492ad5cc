#ifndef SQLOCK_ENGINE_CANCEL_H
#define SQLOCK_ENGINE_CANCEL_H

#include "core/base/list.h"

#include <sqlock/sqlock.h>

/* What a cancel object ends: a request, or a call on the application's connection. */
struct cancel_listener {
    /* Runs on any thread with cancel->mu held, and must not block. */
    void (*now)(struct cancel_listener *listener);
    sqlock_cancel *cancel; /* NULL: it does not listen */
    struct link in_cancel; /* under cancel->mu */
};

/* Listen, unless cancel is NULL. If cancel was fired before, this calls now() at once. */
void cancel_listen(struct cancel_listener *listener, sqlock_cancel *cancel,
                   void (*now)(struct cancel_listener *));
/* After this now() is not running, and is not called any more. */
void cancel_unlisten(struct cancel_listener *listener);

/* Wait until that time. Returns 1 if cancel was fired, and then at once. cancel may be NULL. */
int cancel_wait(sqlock_cancel *cancel, int64_t until);

#endif
