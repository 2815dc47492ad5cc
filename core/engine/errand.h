#ifndef SQLOCK_ENGINE_ERRAND_H
#define SQLOCK_ENGINE_ERRAND_H

#include "core/engine/call.h"

/* A request that no op makes: a renewal, a look. It takes a connection, sends the request over it,
 * and gives the connection back. */
struct errand {
    enum pool_use use;
    sqlock_stmt stmt;
    const sqlock_value *values;
    size_t n;
    int64_t deadline;
    /* If not NULL, the deadline is what this returns: for the connection, and once more for the
     * request. */
    int64_t (*until)(const struct errand *e, int64_t now);
    const void *arg;
    sqlock_rows *rows; /* the answer */

    int took;             /* a connection was taken: */
    int64_t sent, server; /* when and to which server (sqlock.server) the request was sent */
    int borrowed;         /* ... over a connection that is not the reserved one */
    sqlock_error err;
};

/* Without the mutex. A request that leaves no doubt is sent again if that may help: once, and as
 * often as its connection had died in the pool. It leaves time for another host. Returns 0 or
 * e->err.code. */
int errand_run(sqlock *m, struct errand *e);

#endif
