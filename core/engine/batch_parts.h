#ifndef SQLOCK_ENGINE_BATCH_PARTS_H
#define SQLOCK_ENGINE_BATCH_PARTS_H

/* What a batch is made of. Only batch.c and batch_gather.c know it. */

#include "core/engine/batch.h"

#define KINDS_MAX 8 /* of requests that may join */

struct batch_member {
    sqlock_op *op;     /* NULL: it has left */
    sqlock_lock *lock; /* the values point into it */
    size_t order;      /* of coming; the first leader is 0 */
    int answered;
};

struct batch {
    sqlock_op *leader;
    struct conn *conn; /* that it left to the next one */
    int64_t sent;      /* 0: not sent yet */
    sqlock_rows rows;
    size_t n, n_groups;
    sqlock_group groups[KINDS_MAX]; /* of the members, in their order */
    sqlock_value *values;
    struct batch_member members[];
};

/* Its members have left it. */
void batch_free(struct batch *b);

#endif
