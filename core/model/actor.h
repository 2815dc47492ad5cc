#ifndef SQLOCK_MODEL_ACTOR_H
#define SQLOCK_MODEL_ACTOR_H

#include <stddef.h>

#include <sqlock/sqlock.h>

/* An owner of an actor: the actor's bytes, random ones, and a mark of two bytes, which few others
 * have. So owners of an application's own making that begin alike are not taken for one actor's. */
#define ACTOR_SIZE 8
#define ACTOR_MARK 2

/* Of an owner that is random so far. The actor's bytes are the same on all machines. Among a
 * million actors two have the same bytes with a chance of one in 30 million. */
void actor_own(const char *text, size_t len, unsigned char owner[SQLOCK_OWNER_SIZE]);
/* Write the mark of the bytes before it; 1: an owner has it. */
void actor_mark(unsigned char owner[SQLOCK_OWNER_SIZE]);
int actor_has(const unsigned char owner[SQLOCK_OWNER_SIZE]);
/* 1: both are of one actor. */
int actor_same(const unsigned char *a, const unsigned char *b);
/* The owner that wants the lock alone in the place of a shared holder of its actor: everyone can
 * see that it does not wait for that one. `next` is random so far, and some of that stays. */
void actor_succeed(unsigned char next[SQLOCK_OWNER_SIZE], const unsigned char *former);
int actor_succeeds(const unsigned char *next, const unsigned char *former);

#endif
