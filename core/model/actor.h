#ifndef SQLOCK_MODEL_ACTOR_H
#define SQLOCK_MODEL_ACTOR_H

#include <stddef.h>

#define ACTOR_SIZE 8 /* the first bytes of an owner: those of its actor */

/* The bytes of an actor, the same on all machines. Among a million actors two have the same bytes
 * with a chance of one in 30 million. */
void actor_bytes(const char *text, size_t len, unsigned char out[ACTOR_SIZE]);

#endif
