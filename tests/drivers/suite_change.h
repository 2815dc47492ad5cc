/* Locks whose mode changes. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_CHANGE_H
#define SQLOCK_TESTS_DRIVERS_SUITE_CHANGE_H

#include "tests/drivers/suite_seats.h"

/* What it says; whichever handle there is then is the suite's. */
int downgrade(sqlock_lock **lock);
int upgrade(sqlock_lock **lock, int32_t wait_ms);
/* It succeeds: the new handle. */
sqlock_lock *downgraded(sqlock_lock *lock);
sqlock_lock *upgraded(sqlock_lock *lock, int32_t wait_ms);
/* Of an event loop: the new handle, or NULL. */
sqlock_lock *change_result(sqlock_op *op, int *out_code);

#endif
