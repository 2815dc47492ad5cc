#ifndef SQLOCK_ENGINE_OP_H
#define SQLOCK_ENGINE_OP_H

#include "core/engine/call.h"

/* A request that is made of attempts. A blocking call is op_start, op_drive, op_finish; for an
 * event loop the worker drives. */

/* Start a request on lock; wait_ms as in the options, bounded by request_ms where it is 0. */
int op_start(sqlock *m, sqlock_lock *lock, void (*advance)(sqlock_op *), int32_t wait_ms,
             sqlock_cancel *cancel, sqlock_op **out, sqlock_error *err);
/* Do it in this thread, until it is done. */
void op_drive(sqlock_op *op);
/* Take the result, free op and, where it is not handed out, an acquire's lock. */
int op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);
void op_interrupt(sqlock_op *op);
/* What is under way for it ends soon; it may go on with another attempt. m->mu is held. */
void op_cancel_call(sqlock_op *op);
/* Time is up, or it was cancelled: if so, end it and return 1; also if it has ended. m->mu is held,
 * and nobody else drives it. */
int op_end_if_over(sqlock_op *op);
/* The manager is closed: nobody will drive it any more. m->mu is held. */
void op_abandon(sqlock_op *op);

/* ops.c: those of event loops, which the worker drives. */

/* Hand it to the worker. */
int op_go_async(sqlock_op *op, sqlock_error *err);
/* The one that is due first; NULL: none. m->mu is held, as for those below. */
sqlock_op *ops_first(sqlock *m, int64_t *out_due);
/* The worker: let it do one attempt. m->mu is let go meanwhile. */
void ops_drive(sqlock *m, sqlock_op *op);
/* The timer: end those whose time is up, cut the one that is driven when others need the worker.
 * Returns when there is something to do next. */
int64_t ops_tick(sqlock *m);

/* Within advance(), which is called only while the op is not over: */

/* One attempt: connection, request, answer. On failure op->err is set. */
int op_attempt(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, struct answer *out);
/* The same for a request that is made n times, or answers with many rows. On failure there are
 * none. *out_sent: when it was sent. */
int op_attempt_rows(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                    sqlock_rows *rows, int64_t *out_sent);
/* The end, with op->err filled where code is not 0. */
void op_done(sqlock_op *op, int code);
/* Come back at a time; the deadline still ends it. */
void op_again(sqlock_op *op, int64_t at);
/* Come back at once; each time of so many in a row after a short sleep. */
#define HURRIES 3
void op_retry_at_once(sqlock_op *op);
/* How long to sleep before the next attempt: drawn at random, longer from time to time. */
int64_t op_pause(sqlock_op *op);
/* The server, or its meta row, is not what handshake saw: come back and make the handshake first,
 * which finds out. */
void op_handshake(sqlock_op *op);
/* An attempt failed: come back if that can help, else end with the failure, or with SQLOCK_EUNSURE
 * if an earlier or this attempt may have been applied. */
void op_failed(sqlock_op *op);
/* The row is of a kind that a newer version made: end with SQLOCK_ESCHEMA (P20). */
void op_unknown_kind(sqlock_op *op);
/* Time is up, or the call was cancelled: if so, end it and return 1. */
int op_is_over(sqlock_op *op);
/* The last moment at which an attempt still makes sense. After that the last answer stands: come
 * back at the deadline, which ends the op with it. */
int64_t op_last_try(const sqlock_op *op);

#endif
