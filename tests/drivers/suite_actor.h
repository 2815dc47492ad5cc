/* Acquires of actors. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_ACTOR_H
#define SQLOCK_TESTS_DRIVERS_SUITE_ACTOR_H

#include "tests/drivers/suite_seats.h"

enum { ACTOR_WAIT_MS = 30000 };

/* actor may be NULL: none. */
sqlock_acquire_opts actor_opts(const char *actor, int64_t mode, int32_t wait_ms);
/* Wait for it, and keep it. */
sqlock_lock *hold_as(sqlock *m, const char *actor, const char *name, int64_t mode);

#endif
