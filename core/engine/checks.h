#ifndef SQLOCK_ENGINE_CHECKS_H
#define SQLOCK_ENGINE_CHECKS_H

#include "core/engine/call.h"

/* Looks at leases that the library does not renew, when the server changed. m->mu is held, and
 * released during a request. */

/* When this lease is due to be looked at. TIME_NEVER: it is not. */
int64_t checks_lock_due(const sqlock_lock *lock);
/* The same for all leases. */
int64_t checks_due(const sqlock *m);
/* Look at the first such lease. */
void checks_run(sqlock *m);
/* What the answer says of the lease; this only changes values. A denial is believed when it came
 * twice, as with renewals. If the server has no row, or one with an older grant, it has forgotten
 * the lease. */
void checks_judge(sqlock_lock *lock, const struct answer *a, int64_t now);

#endif
