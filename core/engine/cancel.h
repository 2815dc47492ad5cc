#ifndef SQLOCK_ENGINE_CUT_H
#define SQLOCK_ENGINE_CUT_H

#include "core/base/list.h"

#include <sqlock/sqlock.h>

/* What a cancel object ends while it listens: a request, or a call on the application's connection.
 */
struct cancel_listener {
    void (*now)(
        struct cancel_listener *cut); /* any thread; under the cancel's mutex; must not block */
    sqlock_cancel *cancel;            /* NULL: it does not listen */
    struct link in_cancel;            /* under cancel->mu */
};

/* Listen, unless cancel is NULL. One that was fired before calls now() here. */
void cancel_listen(struct cancel_listener *cut, sqlock_cancel *cancel,
                   void (*now)(struct cancel_listener *));
/* now() is not called any more, and not running. */
void cancel_unlisten(struct cancel_listener *cut);

/* Wait until then, or until it is fired: 1. cancel may be NULL. */
int cancel_wait(sqlock_cancel *cancel, int64_t until);

#endif
