#ifndef SQLOCK_ENGINE_CIRCLES_H
#define SQLOCK_ENGINE_CIRCLES_H

#include "core/engine/queue.h"

/* Deadlocks among actors: while an op with an actor waits, the worker, or a step, looks who waits
 * for whom. m->mu is held in all of these. */

/* A place is new, or its op has ended. */
void circles_come(struct place *p);
void circles_go(struct place *p);
/* When to look next, and look. An op that is to give up finds that in its place (circle). */
int64_t circles_due(const struct circles *cs);
void circles_run(sqlock *m);
void circles_free(struct circles *cs);

#endif
