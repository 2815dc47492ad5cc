#ifndef SQLOCK_ENGINE_OP_H
#define SQLOCK_ENGINE_OP_H

#include "core/engine/call.h"

/* A request that is made of attempts. A blocking call is op_start, op_drive, op_finish. For an
 * event loop the worker drives. */

/* Start a request on lock. wait_ms is as in the options. If it is 0, request_ms limits the
 * request. */
int op_start(sqlock *m, sqlock_lock *lock, void (*advance)(sqlock_op *), int32_t wait_ms,
             sqlock_cancel *cancel, sqlock_op **out, sqlock_error *err);
/* Drive it on this thread until it is done. */
void op_drive(sqlock_op *op);
/* Take the result and free op. Also free the lock of an acquire, unless it is handed out. */
int op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);
void op_interrupt(sqlock_op *op);
/* End the call that is under way for op. op may go on with another attempt. m->mu is held. */
void op_cancel_call(sqlock_op *op);
/* If op has ended, was cancelled or has no time left, end it and return 1. m->mu is held, and no
 * other thread drives op. */
int op_end_if_over(sqlock_op *op);
/* The manager is closed, and no thread will drive op any more. m->mu is held. */
void op_abandon(sqlock_op *op);

/* ops.c: requests of event loops, which the worker drives. */

/* Hand op to the worker. */
int op_go_async(sqlock_op *op, sqlock_error *err);
/* The op that is due first, or NULL. m->mu is held here and in the functions below. */
sqlock_op *ops_first(sqlock *m, int64_t *out_due);
/* On the worker: make one attempt. m->mu is released during the attempt. */
void ops_drive(sqlock *m, sqlock_op *op);
/* On the timer: end ops whose time is up. Cancel the call of the one that is driven, if others need
 * the worker. Returns when there is something to do next. */
int64_t ops_tick(sqlock *m);

/* For advance(), which is called only while the op is not over: */

/* One attempt: connection, request, answer. On failure op->err is set. */
int op_attempt(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, struct answer *out);
/* The same for a request that is made n times, or that answers with many rows. After a failure
 * there are no rows. *out_sent: when it was sent. */
int op_attempt_rows(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                    sqlock_rows *rows, int64_t *out_sent);
/* End the op. If code is not 0, op->err was filled. */
void op_done(sqlock_op *op, int code);
/* Make the next attempt at that time. The op still ends at its deadline. */
void op_again(sqlock_op *op, int64_t at);
/* Make the next attempt at once. After so many in a row, sleep for a moment first. */
#define RETRIES_AT_ONCE 3
void op_retry_at_once(sqlock_op *op);
/* How long to sleep before the next attempt. It is drawn at random, and grows each time. */
int64_t op_pause(sqlock_op *op);
/* The server, or its meta row, is not what the handshake saw. Make the next attempt at once, after
 * a new handshake. */
void op_handshake(sqlock_op *op);
/* An attempt failed. Make another one if that can help. Otherwise end with the failure, or with
 * SQLOCK_EUNSURE if an attempt may have been applied. */
void op_failed(sqlock_op *op);
/* A newer version made this row, with a kind that is unknown here: end with SQLOCK_ESCHEMA
 * (P20). */
void op_unknown_kind(sqlock_op *op);
/* If time is up or the call was cancelled, end op and return 1. */
int op_is_over(sqlock_op *op);
/* The last moment at which an attempt still makes sense. After it the last answer stands: use
 * op_again() with the deadline, which ends the op with that answer. */
int64_t op_last_try(const sqlock_op *op);

#endif
