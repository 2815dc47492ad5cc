/* Random numbers that can be had again: the seed is printed, and SQLOCK_TEST_SEED sets it. */
#ifndef SQLOCK_TESTS_LIB_DICE_H
#define SQLOCK_TESTS_LIB_DICE_H

#include <stdint.h>

struct dice {
    uint64_t state;
};

/* Seeded by the time, or by SQLOCK_TEST_SEED; prints the seed with `what`. */
struct dice dice_new(const char *what);
/* Seeded so, without a word: the same numbers each time. */
struct dice dice_of(uint64_t seed);
/* Evenly in [0, below); below is not 0. */
uint64_t dice_below(struct dice *d, uint64_t below);
/* Evenly in [low, high]. */
int64_t dice_between(struct dice *d, int64_t low, int64_t high);

#endif
