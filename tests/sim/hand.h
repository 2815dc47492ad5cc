/* What the files of clients share: a process, and its tasks that use locks. */
#ifndef SQLOCK_TESTS_SIM_HAND_H
#define SQLOCK_TESTS_SIM_HAND_H

#include "tests/sim/sim.h"

/* A task that uses locks, one after the other. */
struct hand {
    struct crew *crew;
    struct task *task;
    struct event now;
    int64_t at;               /* its place in the history */
    sqlock_cancel *cancel;    /* of the wait under way; NULL: none */
    bool firing, fired;       /* the canceller is at it; it was cancelled */
    int32_t wait_ms;          /* of the last acquire */
    bool manual;              /* the lock that it has is not renewed */
    int64_t granted_us;       /* when that was asked for */
    int64_t reported_lost_us; /* 0: no callback came */
    int64_t told_us;          /* the deadline that the library told last */
};

/* All of a process. */
struct crew {
    struct process *process;
    sqlock *m;
    int32_t lease_ms, request_ms;
    int connections, n_hands;
    int64_t cancelled_us; /* when a wait or request was cancelled last */
    struct hand hands[SIM_HANDS];
};

/* What it does until the world is over; arg is the hand. */
void *hand_main(void *arg);
/* End the wait that is under way, if there is one. */
void hand_cancel(struct hand *h);

#endif
