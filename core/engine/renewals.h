#ifndef SQLOCK_ENGINE_RENEWALS_H
#define SQLOCK_ENGINE_RENEWALS_H

#include "core/engine/manager.h"

/* m->mu is held by all of them, and let go during a request. */

/* When the next renewal is due; TIME_NEVER: none. */
int64_t renewals_due(sqlock *m);
/* How long the first of the leases that are renewed lasts without that; TIME_NEVER: there is none.
 */
int64_t renewals_left(sqlock *m, int64_t now);
/* When the renewals' own connection, which was lost, is to be opened again; TIME_NEVER: not. */
int64_t renewals_mend_due(sqlock *m);
void renewals_mend(sqlock *m);
/* Renew what is due, all in one statement. */
void renewals_run(sqlock *m);

#endif
