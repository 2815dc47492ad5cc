#ifndef SQLOCK_ENGINE_POOL_H
#define SQLOCK_ENGINE_POOL_H

#include "core/engine/manager.h"

/* A thread that waits for a place. */
struct pool_waiter {
    struct link in_manager; /* of sqlock.waiting */
    enum pool_use use;
    int64_t deadline, since;
    cond *wake;
    sqlock_op *op;      /* NULL: of a renewal */
    int woken;          /* a place became free for it */
    struct conn *given; /* another thread has left it this one, busy as it is */
    int joined;         /* op's request went into a batch */
};

/* pool_take(): the op's request went into a batch; batch_await() has its answer. */
#define POOL_JOINED 1

/* Take an open connection that has made the handshake. Waits and connects until deadline. If op
 * requests it, the handshake is made again. op, if not NULL, may cancel it. Returns 0, a code, or
 * POOL_JOINED. m->mu is held, and is released meanwhile. */
int pool_take(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline, struct conn **out,
              sqlock_error *err);
/* Give the connection back. If it is broken, close it first. m->mu is held, and is released while
 * a connection is closed. */
void pool_give(sqlock *m, struct conn *c, int broken);
/* End the call or the opening that is under way on the connection. A call that may pause only wakes
 * its thread, which decides. m->mu is held. */
void pool_cancel_call(sqlock *m, struct conn *c);
/* Takes an idle connection out of the pool. Returns what the caller has to close without the mutex;
 * NULL: nothing. m->mu is held. */
void *pool_part(sqlock *m, struct conn *c);
void pool_close_all(sqlock *m);
/* Leave this thread's connection to one that waits; wake all who wait. m->mu is held. */
void pool_hand_over(struct pool_waiter *w, struct conn *c);
void pool_wake_all(sqlock *m);

#endif
