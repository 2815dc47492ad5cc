#ifndef SQLOCK_BASE_RANDOM_H
#define SQLOCK_BASE_RANDOM_H

#include <stddef.h>

/* Fill with random bytes that are good enough for owners. Returns 0, or -1 if the system has
 * none. */
int random_bytes(void *out, size_t len);

#endif
