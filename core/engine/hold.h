#ifndef SQLOCK_ENGINE_HOLD_H
#define SQLOCK_ENGINE_HOLD_H

#include <stddef.h>
#include <stdint.h>

/* Threads that do one thing after the other send their next requests soon after their last answers.
 * If a batch went out the moment its connection is free, half of them would wait while the batch of
 * the other half is under way. Then each batch has half of what it could have. So its leader holds
 * it back for those who were just answered: for half of the time that the last request took,
 * HOLD_MOST_US at most. If they do not come, the next HOLD_SKIPS leaders do not wait.
 * (commit_delay and commit_siblings of PostgreSQL hold a flush back.)
 *
 * If all come, they are in step. Then a batch has requests of one kind, and what is left waits for
 * the next one. After that, all acquire, and then all release: one statement for twice as many,
 * instead of two. No request is left behind twice because of its kind. */

#define HOLD_LEAST   4 /* callers: a batch of fewer gains nothing */
#define HOLD_PART    2
#define HOLD_MOST_US 2000
#define HOLD_SKIPS   32 /* requests that are not held back, after one that was in vain */

struct conn;
struct sqlock;
struct sqlock_op;

struct hold {
    struct sqlock_op *leader; /* who holds its batch back now; NULL: no one does */
    size_t missing;           /* requests that it still waits for */
    size_t expected;          /* requests of all who may send one soon, */
    int64_t call_us;          /* and how long the last answer took */
    int skips;
};

/* Pure. */

/* An answer has come to n requests, while so many others waited for the connection. */
void hold_expect(struct hold *h, size_t n, size_t waiting, int64_t call_us);
/* So many requests are ready to go out, the leader's among them. For how many more is it to wait?
 * 0: for none. */
size_t hold_missing(struct hold *h, size_t ready);
/* How long, at most. */
int64_t hold_limit(const struct hold *h);
/* It waited for so many, of whom h->missing have not come. */
void hold_judge(struct hold *h, size_t missing);
/* May the leader's batch be of one kind, although this one waits? A request is left behind once. */
int hold_allows_like(const struct sqlock_op *waiting, const struct sqlock_op *leader);

/* m->mu is held. */

/* Before op leads a batch over c: wait, if that is worth it, and decide whether only requests of
 * op's kind are to go along (op->like). m->mu is released meanwhile. */
void hold_back(struct sqlock_op *op, const struct conn *c);
/* op begins to wait for a connection. */
void hold_came(struct sqlock *m, const struct sqlock_op *op);
/* As hold_expect(), of a request that took from sent to received. */
void hold_answered(struct sqlock *m, size_t n, int64_t call_us);

#endif
