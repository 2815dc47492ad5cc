#ifndef SQLOCK_LEASES_ACQUIRE_H
#define SQLOCK_LEASES_ACQUIRE_H

#include "core/engine/op.h"

/* What acquire.c, refusal.c, waiting.c and seats.c share. */

/* What comes next. */
enum acquire_phase {
    ACQUIRE_GRANT,     /* the request for the lock */
    ACQUIRE_LENGTHEN,  /* before it: the lease is longer than all before it */
    ACQUIRE_LOOK,      /* after it: is it a guard that has locked the row? */
    ACQUIRE_GIVE_BACK, /* the grants came too late */
    ACQUIRE_BEAT,      /* before QUEUE: this client lives */
    ACQUIRE_QUEUE,     /* others wait, or the lock is held: the request for a place in the queue */
    ACQUIRE_LEAVE,     /* to settle: its place may still be there, and be granted the lock */
    ACQUIRE_SEAT,      /* shared, or a slot: the request for a seat */
    ACQUIRE_TURN,      /* it has the turn, and extends that */
    ACQUIRE_DRAIN,     /* are all seats empty? */
    ACQUIRE_RESIGN,    /* it gives back the seat in whose place it is granted the lock */
};

/* refusal.c: why there is no grant. op goes on, or has ended. */

/* Another owner has the lock, or (SQLOCK_EGUARDED) a guard keeps it shut. */
void acquire_refused(sqlock_op *op, int code, const struct answer *a, int64_t now);
/* op->err says who is in the way: those who wait. */
void acquire_behind(sqlock_op *op, const struct answer *a, int64_t now);
/* The lock's mode is another one. op->err says so. */
void acquire_unlike(sqlock_op *op, int code, const struct answer *a, int64_t now);
/* The server may have lost the commit of a grant. */
void acquire_in_grace(sqlock_op *op, const struct answer *a, int64_t now);
/* The lock is free, but its row is locked: the answer, that of the look at it, and any other. */
void acquire_skipped(sqlock_op *op, const struct answer *a, int64_t now);
void acquire_looked(sqlock_op *op, const struct answer *a, int64_t now);
void acquire_in_the_way(sqlock_op *op, int64_t now);

/* acquire.c: can a grant have this token? If not, op goes on, or has ended. */
int acquire_token_is_sound(sqlock_op *op, const struct answer *a, int64_t now);

/* seats.c: holders beside each other. */

/* The request for a seat, and that whether all are empty. Return 1. */
int seats_send(sqlock_op *op, int64_t now);
int seats_send_drain(sqlock_op *op);
/* The answer grants the lock's row, but there may be seats beside it, or a seat is wanted. */
int seats_is_turn(const sqlock_op *op, const struct answer *a);
/* It has the turn. */
void seats_turn(sqlock_op *op, const struct answer *a, int64_t now);
/* Others may have seats, and it does not have the turn (any more). */
void seats_found(sqlock_op *op, int64_t now);
/* The answer to SEAT. Returns 0 if it is yet to be judged as that of ACQUIRE. */
int seats_answered(sqlock_op *op, const struct answer *a, int64_t now);
/* The answer to QUEUE: others wait in a mode that does not go with the op's. */
void seats_unlike(sqlock_op *op, const struct answer *a, int64_t now);
/* The answer to DRAIN. */
void seats_drained(sqlock_op *op, const struct answer *a, int64_t now);
/* The op was refused by who has a seat, or `left` of whose lease is left. Returns 0 if it waits as
 * others do. */
int seats_wait(sqlock_op *op, int64_t left, int64_t now);
/* It was called, or looks by itself. 0: it was not there that it slept. */
int seats_wait_ends(sqlock_op *op);

/* change.c: a grant in the place of another one. All may be called for any op. */

/* Its verb's on_end. */
int change_ends(sqlock_op *op, int code);
/* Before a request is chosen. Returns 1 if the op has ended. */
int change_next(sqlock_op *op, int64_t now);
/* It would wait for itself. */
int change_must_not_wait(const sqlock_op *op);
/* The answer grants it the turn. */
void change_turned(sqlock_op *op, const struct answer *a);
/* The answer to DRAIN names that seat. Returns 1 if it is its own: the last one. */
int change_is_last(sqlock_op *op, const struct answer *a, int64_t seat, int64_t now);
/* All seats are empty. Returns 1 if its own should not be: the op goes on by itself. */
int change_drained(sqlock_op *op, int64_t now);
/* RESIGN. Returns 1; and its answer. */
int change_send_resign(sqlock_op *op);
void change_resigned(sqlock_op *op, const struct answer *a, int64_t now);
/* Returns 1 if the answer says that the former grant is over: the op has ended. */
int change_denied(sqlock_op *op, const struct answer *a, int64_t now);
/* Returns 0 if others may have had the lock before this grant: it is given back. */
int change_follows(sqlock_op *op, const struct answer *a);
/* It was given back. Returns 1 if the op goes on by itself, or has ended. */
int change_gave_back(sqlock_op *op, int ended, int64_t now);

/* The first request: none, or not ACQUIRE, if others of this manager wait already. */
void waiting_begins(sqlock_op *op);
/* The op may wait in the queue, and that is worth its while. */
int waiting_may_queue(const sqlock_op *op);
/* The lock is free, but others wait for it. */
void waiting_found(sqlock_op *op, const struct answer *a, int64_t now);
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
const char *waiting_place(int64_t place, char *out, size_t size);
/* The op wakes up in the queue: what next? */
void waiting_ends(sqlock_op *op, int64_t now);
/* It is in a circle of actors that wait for each other, and is to give up. Returns 1 if it has. */
int waiting_gives_up(sqlock_op *op);

#endif
