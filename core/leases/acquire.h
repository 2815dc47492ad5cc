#ifndef SQLOCK_LEASES_ACQUIRE_H
#define SQLOCK_LEASES_ACQUIRE_H

#include "core/engine/op.h"

/* What acquire.c and waiting.c share. */

/* What comes next. */
enum acquire_phase {
    ACQUIRE_GRANT,     /* the request for the lock */
    ACQUIRE_LENGTHEN,  /* before it: the lease is longer than all before it */
    ACQUIRE_LOOK,      /* after it: is it a guard that has locked the row? */
    ACQUIRE_GIVE_BACK, /* the grants came too late */
    ACQUIRE_BEAT,      /* before QUEUE: this client lives */
    ACQUIRE_QUEUE,     /* others wait, or the lock is held: the request for a place in the queue */
    ACQUIRE_LEAVE,     /* to settle: its place may still be there, and be granted the lock */
};

/* The first request: none, or not ACQUIRE, if others of this manager wait already. */
void waiting_begins(sqlock_op *op);
/* The lock is free, but others wait for it. */
void waiting_found(sqlock_op *op, int64_t now);
/* The requests of the phases BEAT and QUEUE. Return 1. */
int waiting_send(sqlock_op *op, int64_t now);
/* BEAT was answered. */
void waiting_lives(sqlock_op *op, const struct answer *a);
/* To settle: it leaves the queue, where it may still be. The request for that (returns 1), and its
 * answer. */
void waiting_leaves(sqlock_op *op, int64_t now);
int waiting_send_leave(sqlock_op *op);
void waiting_left(sqlock_op *op, const struct answer *a, int64_t now);
/* QUEUE was answered, and what the answer says of the lock is yet to be judged. */
void waiting_answered(sqlock_op *op, const struct answer *a, int64_t now);
/* The op was refused, and is to wait until `last`. left: of the lease in the way. queued: QUEUE has
 * refused it. Returns 0 if it has to look again and again: there is no queue. */
int waiting_in_queue(sqlock_op *op, int64_t left, int queued, int64_t last, int64_t now);
/* The op's place in the queue; 0: it has none. */
int64_t waiting_number(const sqlock_op *op);
/* ", place N in the queue", or nothing. Returns out. */
const char *waiting_place(const sqlock_op *op, char *out, size_t size);
/* The op wakes up in the queue: what next? */
void waiting_ends(sqlock_op *op, int64_t now);

#endif
