/* What tests of managers without threads share: one that an event loop of the test's steps. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_STEPPED_H
#define SQLOCK_TESTS_DRIVERS_SUITE_STEPPED_H

#include "tests/drivers/suite.h"

/* The manager of a test. */
extern sqlock *loop;

/* What an event loop does when the descriptor is readable; or nothing, for so long. */
void loop_turn(int32_t ms);
void loop_turn_for(int32_t ms);

/* Begin to open the manager, which is closed when the test ends; opts may be NULL. */
sqlock_op *loop_open(struct world *w, const sqlock_open_opts *opts);
sqlock *loop_opened(struct world *w);
/* Begin an acquire; turn until the op ends; both. */
sqlock_op *loop_start(const char *name, int32_t wait_ms, int32_t lease_ms, unsigned flags);
int loop_finish(sqlock_op *op, sqlock_lock **out_lock);
sqlock_lock *loop_grant(const char *name, int32_t lease_ms, unsigned flags);
void loop_close(void);

#endif
