#ifndef SQLOCK_ENGINE_BEAT_H
#define SQLOCK_ENGINE_BEAT_H

#include "core/engine/queue.h"

/* m->mu is held in all of these. */

/* Send it, and let those look who were offered the lock, or passed over. When the next one is due
 * is in queue.beat_at. */
void beat_run(sqlock *m);
/* The manager is closed: the database takes the client for dead from now on, and passes its waiters
 * over. */
void beat_end(sqlock *m);
/* A place is new: where nothing notifies, the next beat comes soon. */
void beat_soon(sqlock *m, int64_t now);

#endif
