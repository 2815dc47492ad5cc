/* A world: what its seed makes of it, its run, and its verdict. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

struct world world;

/* Worlds before these have found something by their draws, and keep them. */
#define SHARES_FROM 101
#define KINDS_FROM  201
#define LISTS_FROM  301

static void world_draw(uint64_t seed, int64_t length_us)
{
    memset(&world, 0, sizeof world);
    world.seed = seed;
    world.chance = dice_of(seed);
    world.trace = UINT64_C(0xcbf29ce484222325);
    world.now = SIM_SECOND;
    world.end = world.now + length_us;
    world.switch_one_in = 1 << dice_below(&world.chance, 5);
    world.think_us = chance_between(SIM_SECOND, 10 * SIM_SECOND);
    world.names = (uint32_t)chance_between(2, 8);
    world.n_processes = (uint32_t)chance_between(2, SIM_PROCESSES);
    world.next_number = 1;
    world.shares = seed >= SHARES_FROM;
    world.lease_most_ms = 5000;
    world.grace_ms = chance_of(300) ? 6000 : 0;
    world.server_ppm = chance_between(-2000, 2000);
    world.calm.least_us = chance_between(100, 2000);
    world.calm.most_us = world.calm.least_us + chance_between(0, 10000);
    world.weather = world.calm;
    world.trouble_until = world.now + SIM_SECOND;
    world.kinds = seed >= KINDS_FROM;
    if (world.kinds)
        world.slots = (int)chance_between(2, 4);
    world.lists = seed >= LISTS_FROM;
}

static void world_judge(struct sim_result *out)
{
    struct check_rules rules = {.engine = "fake",
                                .fault = "simulation",
                                .folder = "",
                                .seed = world.seed,
                                .lease_ms = world.lease_most_ms,
                                .slack_ms = 6000,
                                .min_grants = 1};

    history_sort(world.events, world.n_events);
    if (getenv("SIM_HISTORY") != NULL)
        for (int64_t i = 0; i < world.n_events; i++)
            history_print(stdout, &world.events[i]);
    check_history(&rules, world.events, world.n_events, &out->verdict, stderr);
    out->steps = world.steps;
    out->requests = world.requests;
    out->batched = world.batched;
    out->events = world.n_events;
    out->trace = world.trace;
    out->breaches = world.breaches + out->verdict.violations;
}

bool sim_run(uint64_t seed, int64_t length_us, struct sim_result *out)
{
    memset(out, 0, sizeof *out);
    world_draw(seed, length_us);
    if (!server_begin())
        record_breach(NULL, "no database could be made");
    for (uint32_t i = 0; i < world.n_processes; i++)
        client_start(&world.processes[i]);
    task_start(NULL, faults_main, NULL);
    if (!tasks_run())
        record_breach(NULL, "nothing goes on");
    server_end();
    world_judge(out);
    record_end();
    return out->breaches == 0;
}
