#ifndef SQLOCK_ENGINE_RENEWALS_H
#define SQLOCK_ENGINE_RENEWALS_H

#include "core/engine/manager.h"

/* When the next renewal is due; TIME_NEVER: none. m->mu is held. */
int64_t renewals_due(sqlock *m);
/* Renew what is due, all in one statement. m->mu is held, and let go during the request. */
void renewals_run(sqlock *m);

#endif
