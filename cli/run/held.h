/* The locks of a run: one, or several that are taken together. */
#ifndef SQLOCK_CLI_RUN_HELD_H
#define SQLOCK_CLI_RUN_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/run/plan.h"

struct order;

struct held {
    int n; /* 0: none */
    sqlock_lock *locks[PLAN_NAMES];
};

/* Take all locks of the plan, or none. A signal ends the wait, and so does something to read on
 * other_fd: the code is SQLOCK_ECANCELLED, and *out_signal is the signal or 0. holder: as in
 * sqlock_acquire_opts. */
int held_take(struct held *held, sqlock *m, struct plan *plan, int other_fd, sqlock_holder *holder,
              int *out_signal, sqlock_error *err);
/* Before a wait: nested_look() of each of them. */
int held_nested(struct plan *plan, sqlock *m);

/* Whether all are held. */
bool held_all(const struct held *held);
/* The earliest deadline. */
int64_t held_deadline_us(const struct held *held);
/* The lock that is worst off: lost, or at risk. Of several, the first. */
sqlock_lock *held_worst(const struct held *held);
/* Renew each. False: one of them was not renewed. */
bool held_renew(const struct held *held);
/* The tokens, owners and slots, for the command. */
void held_fill(const struct held *held, struct order *order);

/* Release all. Returns SQLOCK_ELOST if one was lost; otherwise the first code that is not 0. */
int held_release(struct held *held, sqlock_error *err);
void held_free(struct held *held);

#endif
