#include "tests/lib/dice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct dice dice_new(const char *what)
{
    const char *seed = getenv("SQLOCK_TEST_SEED");
    struct timespec t;
    struct dice d;

    clock_gettime(CLOCK_REALTIME, &t);
    d.state = seed != NULL ? strtoull(seed, NULL, 10)
                           : (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
    printf("%s: SQLOCK_TEST_SEED=%" PRIu64 "\n", what, d.state);
    return d;
}

struct dice dice_of(uint64_t seed)
{
    return (struct dice){seed};
}

/* A counter whose bits are mixed by two multiplications: every seed gives a long, even sequence. */
static uint64_t next(struct dice *d)
{
    uint64_t x = d->state += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ (x >> 32);
}

uint64_t dice_below(struct dice *d, uint64_t below)
{
    return next(d) % below;
}

int64_t dice_between(struct dice *d, int64_t low, int64_t high)
{
    return low + (int64_t)dice_below(d, (uint64_t)(high - low) + 1);
}
