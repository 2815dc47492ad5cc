/* Children that wait for a lock, and are killed or stopped. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_GONE_H
#define SQLOCK_TESTS_DRIVERS_SUITE_GONE_H

#include <signal.h>

#include "tests/drivers/suite.h"

/* A child whose manager waits, once child_goes() lets it. Until then the test opens its own
 * managers: they are not for the child. One at a time. */
pid_t child_to_wait(struct world *w, int (*waits)(sqlock *m));
void child_goes(void);
/* Kill or stop it. Where a transaction keeps all others out, one that was stopped within its own
 * would do so until it goes on (docs/promises.md). */
void end_between_transactions(struct world *w, pid_t pid, int signal);
/* Kill one that was stopped. */
void child_ends(pid_t pid);

#endif
