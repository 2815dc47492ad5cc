#ifndef SQLOCK_ENGINE_BATCH_H
#define SQLOCK_ENGINE_BATCH_H

#include "core/engine/call.h"

/* Requests that several ops make at once go out together: one packet, one commit. They are of one
 * kind, or of several, group by group, where the driver can (SQLOCK_CAP_GROUPS). The thread that
 * has the connection leads: it takes along the requests of those that wait for one, and hands each
 * its own answer. A thread that drives several ops has one of them lead, or wait, for all of them.
 * So a single caller sends the single form and waits for no company. (Group commit; DeWitt et al.,
 * Implementation techniques for main memory database systems, 1984.)
 *
 * Who is cancelled, or whose time ends, leaves the batch, in doubt, and the others go on. If that
 * is the leader, the thread of another member takes over the wait for the answer. So no cancel
 * reaches the database while a member wants its answer, and the last one to leave ends the call.
 * Where the driver cannot pause (SQLOCK_CAP_PAUSES), a leader that leaves ends the call for all.
 *
 * A batch has each name once. Each group is sorted by key, so that two batches lock rows in one
 * order. What frees rows goes before what takes them. */
struct batch;

/* The most requests of one batch. 1: each goes alone. Only measurements and tests change it. */
extern int batch_most;

/* The batch did not answer this request, which was not applied: send it alone. */
#define BATCH_ALONE 2
/* batch_await(): the leader has left, and op leads. */
#define BATCH_LEADS 3
/* batch_send(): the leader has left. op->err says why, and the connection belongs to another. */
#define BATCH_LEFT 4

/* m->mu is held in all of these. */

/* op's request may go with others, or others' with it. */
int batch_may_join(const sqlock_op *op);
/* Take along what waits, and what its threads drive with it, if it may go with the leader's
 * request. NULL: the leader goes alone. */
struct batch *batch_collect(sqlock_op *leader);
/* How many requests it has; NULL: one. */
size_t batch_size(const struct batch *b);
/* Send it over c until k->deadline, or go on with it, with the leader's cancel. m->mu is released
 * meanwhile. Fills the rest of k. Returns as call_run(), or BATCH_LEFT. */
int batch_send(struct batch *b, struct conn *c, sqlock_op *leader, struct call *k,
               sqlock_error *err);
/* Hand out the answers, or the failure rc with the leader's error, and free b. a: the leader's
 * answer, with the times of all. Returns the leader's result: 0, a code, or BATCH_ALONE. */
int batch_answer(struct batch *b, const struct conn *c, int rc, struct answer *a);
/* A follower's wait for its answer, which goes to op->attempt->answer. Returns as above, or
 * BATCH_LEADS. */
int batch_await(sqlock_op *op);
/* After BATCH_LEADS: the batch, for batch_send(), and its connection. */
struct batch *batch_take_lead(sqlock_op *op, struct conn **out_conn);
/* The leader's time ends long before that of an op whose request could go with it: give
 * that one the connection and return 1. So a batch seldom changes its leader. */
int batch_pass_on(sqlock_op *leader, struct conn *c);

#endif
