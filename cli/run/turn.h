/* sqlock once: is it this period's turn of the command, and is it done? Without --every it always
 * is, and nothing is written down. */
#ifndef SQLOCK_CLI_RUN_TURN_H
#define SQLOCK_CLI_RUN_TURN_H

#include <stdbool.h>

#include "recipes/once.h"

struct plan;
struct outcome;

/* The lock is held. True: the command is to run. Otherwise *out_code is the exit code. */
bool turn_is_due(const struct plan *plan, sqlock *m, struct once *once, struct outcome *outcome,
                 int *out_code);
/* The command ended with 0; signalled: after a signal that ends it, so its work may not be done.
 * Returns the exit code: 0 also if the lock was lost. Its release makes that another code, unless
 * --on-lost is warn. */
int turn_note(const struct plan *plan, struct once *once, sqlock_lock *lock, bool signalled);

#endif
