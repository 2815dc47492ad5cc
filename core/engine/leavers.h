#ifndef SQLOCK_ENGINE_LEAVERS_H
#define SQLOCK_ENGINE_LEAVERS_H

#include "core/engine/queue.h"

/* What LEAVE gives back. */
enum { GIVES_NOTHING, GIVES_ALL, GIVES_OFFERS };

/* Who gives up leaves the queue, and gives back what it was given meanwhile. m->mu is held in all
 * of these. */

void leavers_init(sqlock *m);
void leavers_free(sqlock *m);
/* A wait for this lock is over, and leaves the queue, with what it gives back (GIVES_...). It is
 * kept in `room`, of that size. */
size_t leaver_size(const sqlock_lock *lock);
void leavers_add(void *room, const sqlock_lock *lock, int gives);
/* What the owner of this lock gives back. */
int leavers_give(const sqlock_lock *lock);
/* An owner that no op is behind leaves the queue. gives: and gives that back. */
void leavers_take_out(sqlock *m, const void *ns, size_t ns_len, const void *name, size_t name_len,
                      const unsigned char owner[SQLOCK_OWNER_SIZE], int gives);
/* The lock was passed on to this one, which waits no more: give it back. */
void leavers_give_back(const sqlock_lock *lock);
/* It has a seat of that token, and the turn, which goes to the one that waits next. */
void leavers_pass_turn(const sqlock_lock *lock, int64_t token);
/* Someone of this manager's has given the lock up, and what it had is being given back, or was
 * since then. */
int leavers_had(const sqlock_lock *lock, int64_t since);

/* For the worker, or a step: when there is something to do, and do it. */
int64_t leavers_due(const struct queue *q);
void leavers_run(sqlock *m);
/* This op of a manager that is being closed has ended. */
void leavers_end_op(const sqlock_op *op);
/* Let those leave that still have to, until then. */
void leavers_flush(sqlock *m, int64_t until);

#endif
