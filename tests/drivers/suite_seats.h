/* Shared locks and slots. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_SEATS_H
#define SQLOCK_TESTS_DRIVERS_SUITE_SEATS_H

#include <sqlock/admin.h>

#include "tests/drivers/suite.h"

sqlock_acquire_opts mode_opts(int64_t mode, int32_t wait_ms);
/* Wait for it, for 10 s at most. */
sqlock_lock *sit(sqlock *m, const char *name, int64_t mode);
/* What a try says; what it got is given back. */
int try_mode(sqlock *m, const char *name, int64_t mode);
/* In the queue for it (suite_turn.c). */
int waiters_of(sqlock *m, const char *name);
/* Until the one that waits for the others to go is next in line (suite_turn.c). */
void await_next(sqlock *m, const char *name, int64_t mode, sqlock_info *out);

#endif
