/* The engine in simulated worlds. */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/lib/check.h"
#include "tests/sim/sim.h"

TEST(test_same_seed_gives_same_trace)
{
    struct sim_result a, b, c;

    assert_true(sim_run(1, SIM_HOUR / 6, &a));
    assert_true(sim_run(1, SIM_HOUR / 6, &b));
    assert_true(sim_run(2, SIM_HOUR / 6, &c));
    assert_true(a.trace == b.trace && a.steps == b.steps);
    assert_true(a.trace != c.trace);
}

/* SEED and HOURS: make sim. */
static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

TEST(test_every_world_keeps_the_promises)
{
    uint64_t first = number_of("SEED", 1), hours = number_of("HOURS", 60);
    struct sim_result r;
    int failed = 0;

    for (uint64_t i = 0; i < hours; i++) {
        int64_t begun = now_us();

        if (!sim_run(first + i, SIM_HOUR, &r))
            failed++;
        print_message("seed %" PRIu64 ": %" PRId64 " steps, %" PRId64 " requests (%" PRId64
                      " together), %" PRId64 " events, %" PRId64 " grants, %" PRId64
                      " faults, %" PRId64 " unsure, %ld breaches, %" PRId64 " ms\n",
                      first + i, r.steps, r.requests, r.batched, r.events, r.verdict.grants,
                      r.verdict.faults, r.verdict.unsure, r.breaches, (now_us() - begun) / 1000);
    }
    assert_int_equal(failed, 0);
}

TEST_MAIN_EACH(NULL, NULL)
