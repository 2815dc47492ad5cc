/* sqlock lead: stand for election, run the command as the leader, and stand again. */
#ifndef SQLOCK_CLI_RUN_LEAD_H
#define SQLOCK_CLI_RUN_LEAD_H

#include <pthread.h>
#include <stdbool.h>

#include "recipes/lead.h"

struct plan;

/* Until nothing is left to stand for: the command ended by itself, a signal came, or something is
 * wrong that time does not set right. Returns the exit code. */
int lead_run(struct plan *plan);
/* --resign: request the leader of now to resign, and print who that is. Returns the exit code. */
int lead_resign(const struct plan *plan);

/* A thread that looks once a second whether the leader was requested to resign. It may hang in a
 * request while the locker must pass on deadlines. */
struct resigning {
    sqlock *m;
    sqlock_lock *lock;
    int asked_fd; /* readable: it was; -1: no thread */
    int over_fd;
    pthread_t thread;
};

/* False: there is no descriptor or thread, and asked_fd is -1. m and lock live until the end. */
bool resigning_start(struct resigning *r, sqlock *m, sqlock_lock *lock);
/* Waits for a request that is under way. Without a thread it does nothing. */
void resigning_end(struct resigning *r);

#endif
