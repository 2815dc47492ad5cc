/* What a process has: descriptors that are open, threads, memory that is allocated. What a client
 * has more at its end than at its begin, it left behind. */
#ifndef SQLOCK_TESTS_TORTURE_CLIENT_LEFT_H
#define SQLOCK_TESTS_TORTURE_CLIENT_LEFT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct left {
    int descriptors, threads;
    int64_t bytes; /* by malloc(), in all threads */
};

/* At a client's begin, before it has threads. They share one arena of malloc(): each takes some KiB
 * that would look like something left. */
struct left left_begin(void);
struct left left_now(void);
/* Whether nothing is left of what came since; else it is told on `say`. What the C library keeps of
 * so many threads is nothing. */
bool left_nothing(const struct left *before, uint32_t threads, FILE *say);

#endif
