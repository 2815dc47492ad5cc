#ifndef SQLOCK_ENGINE_CUT_H
#define SQLOCK_ENGINE_CUT_H

#include "core/base/list.h"

#include <sqlock/sqlock.h>

/* What a cancel object ends while it listens: a request, or a call on the application's connection.
 */
struct cut {
    void (*now)(struct cut *cut); /* any thread; under the cancel's mutex; must not block */
    sqlock_cancel *cancel;        /* NULL: it does not listen */
    struct link in_cancel;        /* under cancel->mu */
};

/* Listen, unless cancel is NULL. One that was fired before calls now() here. */
void cut_listen(struct cut *cut, sqlock_cancel *cancel, void (*now)(struct cut *));
/* now() is not called any more, and not running. */
void cut_deafen(struct cut *cut);

#endif
