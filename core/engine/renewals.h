#ifndef SQLOCK_ENGINE_RENEWALS_H
#define SQLOCK_ENGINE_RENEWALS_H

#include "core/engine/manager.h"

/* m->mu is held in all of these, and released during a request. */

/* When this lock's next renewal is due. TIME_NEVER: none is. */
int64_t renewals_lock_due(const sqlock_lock *lock);
/* The same for all locks. */
int64_t renewals_due(const sqlock *m);
/* The time until the first deadline of the leases that are renewed. TIME_NEVER: there is none. */
int64_t renewals_left(const sqlock *m, int64_t now);
/* When to open the lost reserved connection again. TIME_NEVER: not. */
int64_t renewals_mend_due(sqlock *m);
void renewals_mend(sqlock *m);
/* Renew all that is due, in one statement. */
void renewals_run(sqlock *m);

#endif
