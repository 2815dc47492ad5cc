#ifndef SQLOCK_ENGINE_CHECKS_H
#define SQLOCK_ENGINE_CHECKS_H

#include "core/engine/manager.h"

/* Leases that nobody renews, when another server was met. m->mu is held, and let go during a
 * request. */

/* When one is to be looked at; TIME_NEVER: none. */
int64_t checks_due(sqlock *m);
/* Look at the first. */
void checks_run(sqlock *m);

#endif
