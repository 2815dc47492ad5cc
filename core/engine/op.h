#ifndef SQLOCK_ENGINE_OP_H
#define SQLOCK_ENGINE_OP_H

#include "core/engine/call.h"

/* An op makes one request after the other until it is done. A blocking call is op_start and
 * op_drive. For an event loop the worker drives, and op_finish takes the result.
 *
 * What an op does is its verb: which requests it makes, and what their answers mean. The functions
 * of a verb are pure. They know the op, its lock and its manager as values; they send nothing, take
 * no mutex and read no clock. The engine calls them with m->mu held, one at a time, and sends the
 * requests. Each may call op_done() or op_again() (after raft_step() of cowsql/raft, where events
 * go in and actions come out). */
struct verb {
    /* What is next? Returns 1 after op_send(). Otherwise nothing is sent. */
    int (*next)(sqlock_op *op, int64_t now);
    /* The answer to that request. */
    void (*on_answer)(sqlock_op *op, const struct answer *a, int64_t now);
    /* It failed, and op->err says why. NULL: op_failed(). */
    void (*on_failure)(sqlock_op *op, int64_t now);
    /* A row that a transaction keeps locked on a server is an answer: SQLOCK_EBUSY. */
    int finds_busy;
    /* It ends with this code, or with the one that this returns. NULL: with this one. m->mu is
     * held. */
    int (*on_end)(sqlock_op *op, int code);
};

#define REQUEST_VALUES 11 /* the most that a request has, if it is made once */

/* One request, as data. */
struct request {
    sqlock_stmt stmt;
    const sqlock_value *values; /* few, or the verb's own */
    struct request_values {
        sqlock_value v[REQUEST_VALUES];
    } few;
    size_t n;          /* it is made so many times, with values for each */
    sqlock_rows *rows; /* where the answer's rows go, if the verb keeps them; otherwise NULL */
    unsigned flags;    /* SQLOCK_CALL_..., if it is sent alone */
};

/* A request of an op, from its choice to the verdict on its answer. It belongs to the thread that
 * drives the op. m->mu guards all but the request and its answer. */
struct attempt {
    sqlock_op *op;
    struct request request;
    struct answer answer;
    struct link in_company; /* of op->company, while its request waits to be sent */
    int joins;              /* it may go with those of others (engine/batch.h) */
    int like;               /* ... and now only with those of its kind (engine/hold.h) */
    int passed;             /* a batch of another kind has left it behind */
    int taken_along; /* another op has sent it, and its thread does not wait for the answer yet */
    struct pool_waiter *waiter; /* while it waits for a connection */
    struct batch *batch;        /* it waits there for its answer, or is to lead, as that member: */
    size_t place;
    int answered;  /* the result of a follower */
    int64_t until; /* the end of this attempt */
};

/* Start an op on lock. wait_ms is as in the options. If it is 0, request_ms limits the op. */
int op_start(sqlock *m, sqlock_lock *lock, const struct verb *verb, int32_t wait_ms,
             sqlock_cancel *cancel, sqlock_op **out, sqlock_error *err);
/* Drive it on this thread until it is done. Then as op_finish(). */
int op_drive(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);
/* Take the result and free op. Also free the lock of an acquire, unless it is handed out. */
int op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);
/* It waits for another holder's lock, or tries for it. It does not settle or end a grant. */
int op_waits(const sqlock_op *op);
/* End an op that was started, and is driven by no thread yet. If code is not 0, op->err is filled.
 */
void op_end(sqlock_op *op, int code);
/* The same with m->mu, also of one that is driven by this thread. */
void op_done_locked(sqlock_op *op, int code);
/* Before its first request: its grant takes the place of `former`, which is replaced when op
 * succeeds. Its renewals go on, but what denies them may be the change itself. m->mu is held. */
void op_replace(sqlock_op *op, sqlock_lock *former);
void op_interrupt(sqlock_op *op);
/* Readable when op is done; -1: none is left. m->mu is held. */
int op_descriptor(sqlock_op *op);
/* op sleeps: another op's answer answers it. m->mu is held. */
void op_take_answer(sqlock_op *op, const struct answer *a, int64_t now);
/* op sleeps: let it sleep until `at`. m->mu is held. */
void op_wake(sqlock_op *op, int64_t at);
/* End the call that is under way for op. op may go on with another attempt. m->mu is held. */
void op_cancel_call(sqlock_op *op);
/* If op has ended, was cancelled or has no time left, end it and return 1. now has just been
 * read. m->mu is held, and no other thread drives op. */
int op_end_if_over(sqlock_op *op, int64_t now);
/* Let the verb choose a request, send it, and let the verb judge the answer. op is not over at
 * now, which has just been read. m->mu is held, and is released during the request. */
void op_step(sqlock_op *op, int64_t now);
/* The two halves of op_step(). at lasts until the second one has returned. The first returns 0 if
 * there is nothing to send, the second one if the request failed. */
int op_choose(sqlock_op *op, int64_t now, struct attempt *at);
int op_request(sqlock_op *op, int64_t now);
/* The manager has threads: drive the op on this one until it is done. Or it has none: its steps
 * will. op_finish() follows. m->mu is held in both, and released meanwhile in the first. */
void op_drive_alone(sqlock_op *op);
void op_leave_to_steps(sqlock_op *op);
/* The manager is closed, and no thread will drive op any more. m->mu is held. */
void op_abandon(sqlock_op *op);

/* together.c: drive several ops on this thread until all are done, for op_finish(). Requests that
 * are due at the same time go out together, as those of several threads do. A wait that
 * cannot go with others is chosen right before it is sent: first comes what has been due for
 * longest. One that gives a lock back goes on to its end, and a long list has more time for that.
 * The ops are of one manager. Without threads the steps drive them, and their requests meet
 * there. */
void ops_drive_together(sqlock_op *const *ops, size_t n);

/* report.c: of an op that is done, for op_finish(). err may be NULL. m->mu is held for the first.
 */
void op_give_error(sqlock_error *err, const sqlock_op *op);
void op_give_holder(sqlock_holder *out, const sqlock_op *op);

/* ops.c: requests of event loops, which the worker drives, or a step. */

/* Hand op to the worker, or to the steps. */
int op_go_async(sqlock_op *op, sqlock_error *err);
/* The same, where no thread has to be started. m->mu is held here and in the functions below. */
void ops_add(sqlock_op *op);
/* After each change of op's times, or of its end: plan the worker's and the timer's next steps for
 * it. */
void ops_plan(sqlock_op *op);
/* When the worker has to drive an op. */
int64_t ops_due(const sqlock *m);
/* The same of those that end, renew or settle a grant: waits for locks must not keep them back. */
int64_t ops_urgent_due(const sqlock *m);
/* Take an op that is due, to drive it: an urgent one before others. *place names it until it has
 * ended. */
sqlock_op *ops_take(sqlock *m, sqlock_op **place);
/* Make one attempt of an op that was taken. m->mu is released meanwhile. */
void ops_drive(sqlock_op *op, sqlock_op **place);
/* On the timer: end ops whose time is up. Cancel the call of the one that the worker drives, if
 * others need the worker. */
void ops_tick(sqlock *m);
/* When there is something to do for it next. */
int64_t ops_tick_due(const sqlock *m);

/* attempt.c: make op->attempt: connection, request, answer. On failure op->err is set. rows holds
 * the answer, unless the request has rows of its own. m->mu is held, and is released meanwhile. */
int op_attempt(sqlock_op *op, int64_t now, sqlock_rows *rows);
/* op_attempt() will follow on this thread. Until then an op that leads a batch may take the request
 * along: op is in op->company. m->mu is held, here and until then unless such an op sends. */
void op_offer(sqlock_op *op, int64_t now);

/* For verbs: these only change values. */

/* Send this request next, with the values in op->attempt->request.few. Returns 1. */
int op_send(sqlock_op *op, sqlock_stmt stmt);
/* The same, with these values. */
#define OP_SEND(op, stmt, ...)                                                                     \
    ((op)->attempt->request.few = (struct request_values){{__VA_ARGS__}}, op_send(op, stmt))
/* Why the last request failed, or the op ends: as sqlock_error_set(). */
int op_error_set(sqlock_op *op, int code, unsigned flags, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Who is in the way, for a caller that wants to know it. */
void op_note_holder(sqlock_op *op, const sqlock_holder *holder);
/* Its name is not known. Nor is its lease's end. place: the op's in the queue; 0: none. */
void op_note_no_holder(sqlock_op *op, int64_t place);
/* End the op. If code is not 0, op->err was filled. */
void op_done(sqlock_op *op, int code);
/* Choose the next request at that time. The op still ends at its deadline. */
void op_again(sqlock_op *op, int64_t at);
/* Choose at once. After so many in a row, sleep for a moment first. */
#define RETRIES_AT_ONCE 3
void op_retry_at_once(sqlock_op *op, int64_t now);
/* How long to sleep before the next request. It is drawn at random, and grows each time. */
int64_t op_pause(sqlock_op *op);
/* The server, or its meta row, is not what the handshake saw. Make the next request at once, after
 * a new handshake. */
void op_handshake(sqlock_op *op, int64_t now);
/* A request failed. Make another one if that can help. Otherwise end with the failure, or with
 * SQLOCK_EUNSURE if a request may have been applied. */
void op_failed(sqlock_op *op, int64_t now);
/* The last failure, of which it is not known whether it applied the request: op->err says so.
 * Returns SQLOCK_EUNSURE. */
int op_unsure(sqlock_op *op);
/* A newer version made this row, with a kind that is unknown here: end with SQLOCK_ESCHEMA
 * (P20). */
void op_unknown_kind(sqlock_op *op);
/* Time is up or the call was cancelled. */
int op_is_over(const sqlock_op *op, int64_t now);
/* The last moment at which a request still makes sense. After it the last answer stands: use
 * op_again() with the deadline, which ends the op with that answer. */
int64_t op_last_try(const sqlock_op *op);

#endif
