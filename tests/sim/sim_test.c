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

struct totals {
    int64_t requests, batched, grants, faults, unsure;
};

static void add(struct totals *t, const struct sim_result *r)
{
    t->requests += r->requests;
    t->batched += r->batched;
    t->grants += r->verdict.grants;
    t->faults += r->verdict.faults;
    t->unsure += r->verdict.unsure;
}

/* An hour of each seed. The first one that fails ends the test. */
static void run_hours(uint64_t first, uint64_t hours)
{
    const int64_t begun = now_us();
    struct totals t = {0};

    for (uint64_t seed = first; seed < first + hours; seed++) {
        struct sim_result r;

        if (!sim_run(seed, SIM_HOUR, &r))
            fail_msg("seed %" PRIu64 " is refuted: make sim HOURS=1 SEED=%" PRIu64, seed, seed);
        add(&t, &r);
    }
    print_message("%" PRIu64 " hours: %" PRId64 " requests (%" PRId64 " of them together), %" PRId64
                  " grants, %" PRId64 " faults, %" PRId64 " replies lost, in %" PRId64 " s\n",
                  hours, t.requests, t.batched, t.grants, t.faults, t.unsure,
                  (now_us() - begun) / 1000000);
}

/* So few that the planted bugs of tests/mutants are found soon. */
TEST(test_worlds_of_the_first_seeds_keep_the_promises)
{
    run_hours(1, 8);
}

/* SEED and HOURS: make sim. */
static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

/* With those above: 24 hours. */
TEST(test_worlds_of_more_seeds_keep_the_promises)
{
    run_hours(number_of("SEED", 301), number_of("HOURS", 16));
}

TEST_MAIN_EACH(NULL, NULL)
