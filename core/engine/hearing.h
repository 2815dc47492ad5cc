#ifndef SQLOCK_ENGINE_HEARING_H
#define SQLOCK_ENGINE_HEARING_H

#include "core/engine/queue.h"

/* m->mu is held in all of these. */

/* From when on to listen, if there is a connection for it, and someone who waits. */
int64_t hearing_due(const sqlock *m);
/* Listen until then, or until someone needs the thread or the connection. */
void hearing_run(sqlock *m, int64_t until);
/* Now it needs that. */
void hearing_stop(sqlock *m);
/* Others need the connection now, if it listens. */
void hearing_lend(sqlock *m);
/* They need it no more. */
void hearing_take_back(sqlock *m);
/* This connection listens no more, and is not used any more: waiters look until another one does.
 * Returns the one to close now, or NULL. */
void *hearing_ends(sqlock *m, void *native);

#endif
