#ifndef SQLOCK_ENGINE_CHECKS_H
#define SQLOCK_ENGINE_CHECKS_H

#include "core/engine/manager.h"

/* Looks at leases that the library does not renew, when the server changed. m->mu is held, and
 * released during a request. */

/* When a lease is due to be looked at. TIME_NEVER: none is. */
int64_t checks_due(sqlock *m);
/* Look at the first such lease. */
void checks_run(sqlock *m);

#endif
