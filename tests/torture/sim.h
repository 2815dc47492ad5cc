/* Histories for the tests of the checker: a lock service that is right, and clients that use it all
 * at once, lose replies, stop and die, in made-up time. The same seed makes the same history. */
#ifndef SQLOCK_TESTS_TORTURE_SIM_H
#define SQLOCK_TESTS_TORTURE_SIM_H

#include <stdbool.h>

#include "tests/torture/check.h"

enum { SIM_LEASE_MS = 100, SIM_NAMES_MAX = 64, SIM_THREADS_MAX = 64 };

struct sim {
    uint64_t seed;
    uint32_t names, threads;
    int64_t events_wanted;
    bool together; /* names that are shared, or have slots, are among them */
    bool immortal; /* no client is killed */
    /* What came of it; free(events). */
    struct event *events;
    int64_t n;
    struct check_row rows[SIM_NAMES_MAX];
    struct check_rules rules; /* with these rows */
};

/* Makes exactly so many events (but for those that are never answered). An assertion of the test
 * fails if there is no memory. */
void sim_run(struct sim *s);
#endif
