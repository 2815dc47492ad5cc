#ifndef SQLOCK_ENGINE_LANES_H
#define SQLOCK_ENGINE_LANES_H

#include "core/base/coroutine.h"
#include "core/engine/op.h"

/* Lanes: the coroutines of a manager without threads, and the loop that they belong to. For lanes.c
 * and loop.c alone. A lane is idle, or does one thing at a time and ends it before the next. */

/* What a caller that blocks has done on a coroutine. */
struct work {
    struct link in_loop;
    void (*run)(void *arg);
    void *arg;
    int wake_fd; /* set when it is done; -1: none */
    int done;
};

/* A coroutine of a manager: for one request of an event loop, for renewals, or for work. */
struct lane {
    struct link in_loop; /* of lanes, or of idle */
    sqlock *m;
    struct coroutine flow;
    int ready;  /* a descriptor is ready, or there is work */
    int fds[2]; /* that the poller has for it; -1: none */
    int is_renewals, hears;
    sqlock_op *op; /* the one that it drives; NULL: it has ended */
    struct work *work;
};

struct loop {
    int poller;  /* what the application waits for */
    int wake_fd; /* in it: something changed between two steps */
    int alarm;   /* in it: something is due at that time: */
    int64_t until;
    int stepping; /* this thread is in a step: */
    thread stepper;
    int reporting; /* a callback runs, on the thread m->timer */
    cond stepped;  /* a step has ended */
    int woken;     /* wake_fd was set since the last step */
    struct link lanes;
    int n_lanes;
    int renewing;      /* one of them is for renewals */
    int hearing;       /* one of them listens for waiters */
    struct link works; /* that no lane does yet */
    struct link idle;
    int n_idle;
};

/* m->mu is held in all that follow. */

/* An idle lane, or a new one. NULL: no memory. The caller says what it is for. */
struct lane *lane_start(sqlock *m);
int lane_is_ready(const struct lane *lane, int64_t now);
/* Run it up to its next wait. The mutex is released meanwhile. */
void lane_run(struct lane *lane);
/* There is something for the lane that renews. */
int lane_renewals_due(sqlock *m, int64_t now);
/* The manager stops: let the idle ones end. */
void lanes_end_idle(sqlock *m);

#endif
