#ifndef SQLOCK_ENGINE_QUEUE_H
#define SQLOCK_ENGINE_QUEUE_H

#include "core/engine/call.h"

#define QUEUE_ALIVE_US INT64_C(3000000) /* a client that says nothing for so long is dead */

/* The manager's waiters in the queues of the database. A waiter has a place from the request that
 * may queue it until its op ends. Then it has the lock, or becomes one of engine/leavers.h. m->mu
 * is held in all of these. */

struct place {
    struct hash_node by_owner; /* in queue.owners */
    struct link in_queue;      /* of queue.places */
    struct line *line;         /* of its lock (engine/lines.h) */
    struct link in_line;       /* there, while it waits alone */
    struct link in_alone;      /* of queue.alone: the same, of all lines */
    sqlock_op *op;
    char *circle; /* it is to give up, and this is why; NULL: no */
    int64_t came;
    int64_t stood;  /* the database knows since then where it waits with the turn; 0: it does not */
    int64_t since;  /* an answer has said that it is in the queue since then; 0: not yet */
    int64_t number; /* 1: the next in line; 0: not known */
    bool seen;      /* the last beat saw it there */
    bool called;    /* the lock was offered to it, or may be: it has to look */
    bool sent;      /* a request was sent that may have queued it */
};

void queue_init(sqlock *m);
void queue_free(sqlock *m);
/* 1: this database has queues. 0: waiters look again and again. */
int queue_serves(const sqlock *m);
/* 1: the database knows that this client lives. Otherwise send BEAT first. */
int queue_is_alive(const sqlock *m, int64_t now);
void queue_lives(sqlock *m, int64_t sent);

/* The op's next request may queue it. alone: it waits behind others of this manager, and sends
 * nothing. Returns 0 if it cannot: no memory, no thread. */
int queue_enter(sqlock_op *op, int alone);
/* The op has ended, with this code. */
void queue_end(sqlock_op *op, int code);
/* An answer about this lock notifies a waiter something. Returns 1 if it is of this manager: then
 * it has its grant, or looks. */
int queue_call(const sqlock_lock *lock, const struct answer *a, int64_t now);
/* The manager is closed. */
void queue_cancel_all(sqlock *m);
/* A place of this manager's for this name; NULL: there is none. An owner that the application gives
 * may wait for several names. */
struct place *queue_find(const sqlock *m, const void *ns, size_t ns_len, const void *name,
                         size_t name_len, const unsigned char owner[SQLOCK_OWNER_SIZE]);
/* The same, for that lock's name. */
struct place *queue_find_for(const sqlock_lock *lock, const unsigned char owner[SQLOCK_OWNER_SIZE]);
/* Call all places of an owner, whatever they wait for. */
void queue_call_owner(sqlock *m, const unsigned char owner[SQLOCK_OWNER_SIZE]);
/* An answer notifies its owner something: it has its grant, or looks. Returns 0 if p is NULL. */
int place_hears(struct place *p, const struct answer *a, int64_t now);
/* Its op looks, now or when its request has been answered. */
void place_call(struct place *p);
/* If it sleeps, its op looks then. */
void place_look_at(struct place *p, int64_t at);
/* When p looks at a lock that is free from `end` on, if no one calls it. The next in line looks at
 * once, and some behind it a moment later, for it may be dead or stopped. So may a program be that
 * has all the places before: the first one of each manager looks soon, wherever it is. All others
 * do not look before `last`. */
int64_t place_due(const struct place *p, int64_t end, int64_t last);

/* A request of the queue's, in a part of the time that the renewals have left. */
int64_t queue_errand_end(sqlock *m, int64_t now);
int queue_send(sqlock *m, enum pool_use use, sqlock_stmt stmt, const sqlock_value *values,
               sqlock_rows *rows, int64_t *out_sent, sqlock_error *err);

/* For the worker, or a step: when there is something to do, and do it. */
int64_t queue_due(const sqlock *m);
void queue_run(sqlock *m);

#endif
