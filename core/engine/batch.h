#ifndef SQLOCK_ENGINE_BATCH_H
#define SQLOCK_ENGINE_BATCH_H

#include "core/engine/call.h"

/* Requests of one kind that several ops make at once go out together: one packet, one commit. The
 * thread that has the connection leads: it takes along the requests of those that wait for one, and
 * hands each its own answer. So a single caller sends the single form and waits for no company.
 * (Group commit; DeWitt et al., Implementation techniques for main memory database systems, 1984.)
 *
 * A follower whose time ends, or who is cancelled, leaves the batch, in doubt. A batch has each
 * name once, sorted by key, so that two batches lock rows in one order. */
struct batch;

/* The most requests of one batch. 1: each goes alone. Only measurements and tests change it. */
extern int batch_most;

/* The batch did not answer this request, which was not applied: send it alone. */
#define BATCH_ALONE 2

/* op's request may go with others, or others' with it. m->mu is held. */
int batch_may_join(const sqlock_op *op);
/* Take along what waits and has the same kind as the leader's request. NULL: the leader goes alone.
 */
struct batch *batch_collect(sqlock_op *leader);
/* Send it over c until deadline, with the leader's cancel. As call_rows(). */
int batch_send(struct batch *b, struct conn *c, sqlock_op *leader, int64_t deadline,
               sqlock_rows *rows, int64_t *out_sent, sqlock_error *err);
/* Hand out the answers, or the failure rc with err, and free b. a: the leader's answer, with the
 * times of all. Returns the leader's result: 0, a code, or BATCH_ALONE. */
int batch_answer(struct batch *b, sqlock_op *leader, const struct conn *c, int rc,
                 const sqlock_rows *rows, struct answer *a);
/* A follower's wait for its answer, which goes to op->answer. Returns as above. m->mu is held. */
int batch_await(sqlock_op *op, int64_t deadline);
/* The leader's time ends long before that of an op that waits with the same kind of request: give
 * that one the connection and return 1. A leader cannot leave its batch without ending the call. */
int batch_pass_on(sqlock_op *leader, struct conn *c);

#endif
