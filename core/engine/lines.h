#ifndef SQLOCK_ENGINE_LINES_H
#define SQLOCK_ENGINE_LINES_H

#include "core/engine/queue.h"

/* Those of this manager that wait for one lock. One or more of them have a place in the database's
 * queue. Others, that have just come, wait here alone, and the database knows nothing of them: a
 * release by this manager passes the lock on to them (PASS), or puts the next one into the queue.
 * But no one does so for long, because a place is where others queue behind (P21). m->mu is held in
 * all of these. */
struct line {
    struct hash_node by_name; /* in queue.names */
    struct link alone;        /* struct place.in_line; who came first is first */
    struct link in_due;       /* of queue.lines, while all of them wait alone: */
    int64_t due;              /* when the first one needs a place */
    size_t queued;            /* so many have a place, or may have one */
    size_t ns_len, name_len;
    char ns[]; /* and name */
};

/* NULL: no one waits for it. */
struct line *line_of(const sqlock_lock *lock);
/* p comes, to wait there alone or not. Returns 0 if there is no memory. */
int line_join(struct place *p, int alone);
/* p goes. granted: it has the lock now. */
void line_part(struct place *p, int granted);
/* p waits alone no more: it is in the queue, or will be. */
void line_queue(struct place *p);
/* Whom a release can pass the lock on to without a look at the queue: who came first of those that
 * wait alone and sleep. NULL: no one. */
struct place *line_next(const sqlock_lock *lock, int64_t now);
/* Its place in the queue, as far as it is known; 0: it is not. */
int64_t line_number(const struct place *p);

/* When someone who waits alone needs a place, and let all look for whom it is time. */
int64_t lines_due(const sqlock *m);
void lines_run(sqlock *m, int64_t now);

#endif
