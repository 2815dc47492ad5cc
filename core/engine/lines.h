#ifndef SQLOCK_ENGINE_LINES_H
#define SQLOCK_ENGINE_LINES_H

#include "core/engine/queue.h"

/* Those of this manager that wait for one lock. Who has come behind others waits here alone for a
 * moment, and the database knows nothing of it. A release by this manager passes the lock on to it
 * (PASS), or puts it into the queue. After that moment each gets a place there, for only a place
 * keeps later ones of other processes behind (P21). m->mu is held in all of these. */
struct line {
    struct hash_node by_name; /* in queue.names */
    struct link alone;        /* struct place.in_line; who came first is first */
    size_t n;                 /* of all that wait */
    int64_t passing;          /* until then the answer of a PASS is awaited; 0: of none */
    struct place *first;      /* the one with the lowest number; NULL: no number is known */
    struct place *for_seats;  /* has the turn, and sleeps until seats are empty; NULL: no one */
    size_t ns_len, name_len;
    char ns[]; /* and name */
};

/* Of a lock's name. Two may have the same. */
uint64_t line_key(const char *ns, size_t ns_len, const char *name, size_t name_len);
/* NULL: no one waits for it. */
struct line *line_of(const sqlock_lock *lock);
/* p comes, to wait there alone or not. Returns 0 if there is no memory. */
int line_join(struct place *p, int alone);
/* The database says which number p has. 0: none. */
void line_number(struct place *p, int64_t number);
/* p goes. */
void line_part(struct place *p);
/* p waits alone no more: it is in the queue, or will be. */
void line_queue(struct place *p);
/* Whom a release can pass the lock on to without a look at the queue: who came first of those that
 * wait alone and sleep. NULL: no one. */
struct place *line_next(const sqlock_lock *lock, int64_t now);
/* A PASS was sent, whose answer says who has the lock; or was answered (0). */
void line_passes(const sqlock_lock *lock, int64_t until);
/* p has the turn, and sleeps until those with seats have gone; or it wakes (0). */
void line_waits_for_seats(struct place *p, int waits);
/* Someone has left a seat of the lock: who sleeps until then looks. */
void line_seat_left(const sqlock_lock *lock);

/* When someone who waits alone needs a place, and let all look for whom it is time. */
int64_t lines_due(const sqlock *m);
void lines_run(sqlock *m, int64_t now);

#endif
