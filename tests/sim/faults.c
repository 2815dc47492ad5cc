/* What goes wrong: a table of kinds, of which one after the other comes, with peace between. */
#include "tests/sim/sim.h"

/* In such a time after a fault all that it left behind has passed. */
#define AFTERMATH_US (10 * SIM_SECOND)

/* What a fault does to the server, for the checker (tests/torture/history.h, V_FAULT). */
enum hurt { HURT_NOTHING, HURT_SERVER, HURT_CLOCK, HURT_COMMITS, HURT_COMMITS_WITH_GRACE };

struct fault {
    struct process *victim;
    int64_t until;
};

static void weather_is_bad(struct fault *f)
{
    struct weather *w = &world.weather;

    (void)f;
    w->lose_request = (int)chance_between(0, 150);
    w->lose_reply = (int)chance_between(0, 150);
    w->late = (int)chance_between(0, 100);
    w->late_us = chance_between(SIM_SECOND / 100, 5 * SIM_SECOND);
    w->twice = (int)chance_between(0, 100);
    w->silent = (int)chance_between(0, 1000);
    w->refuse = chance_of(300) ? (int)chance_between(0, 100) : 0;
}

static void weather_is_slow(struct fault *f)
{
    (void)f;
    world.weather.least_us = chance_between(1000, 100000);
    world.weather.most_us = world.weather.least_us + chance_between(0, 400000);
}

static void victim_is_cut_off(struct fault *f)
{
    f->victim->deaf_until = f->victim->mute_until = f->until;
}

static void victim_is_deaf(struct fault *f)
{
    f->victim->deaf_until = f->until;
}

static void victim_is_mute(struct fault *f)
{
    f->victim->mute_until = f->until;
}

static void victim_is_paused(struct fault *f)
{
    f->victim->paused_until = f->victim->calm_since = f->until;
}

/* A task that was left may be away for three seconds more. */
static void victim_is_busy(struct fault *f)
{
    f->victim->busy_until = f->until;
    f->victim->calm_since = f->until + 4 * SIM_SECOND;
}

static void victim_is_killed(struct fault *f)
{
    client_kill(f->victim);
}

static void server_is_down(struct fault *f)
{
    world.down_until = f->until;
    server_crash(chance_of(300));
}

static void server_is_frozen(struct fault *f)
{
    world.frozen_until = f->until;
}

static void clock_is_stepped(struct fault *f)
{
    (void)f;
    world.server_offset +=
        chance_of(500) ? chance_between(-3000000, 3000000) : chance_between(-50000, 50000);
}

static void server_is_replaced(struct fault *f)
{
    (void)f;
    server_failover();
}

static const struct kind {
    void (*begin)(struct fault *f);
    int weight;
    int value;
    int64_t most_us;
} kinds[] = {
    {weather_is_bad, 30, HURT_NOTHING, 15 * SIM_SECOND},
    {weather_is_slow, 8, HURT_NOTHING, 10 * SIM_SECOND},
    {victim_is_cut_off, 8, HURT_NOTHING, 8 * SIM_SECOND},
    {victim_is_deaf, 6, HURT_NOTHING, 8 * SIM_SECOND},
    {victim_is_mute, 4, HURT_NOTHING, 8 * SIM_SECOND},
    {victim_is_paused, 12, HURT_NOTHING, 8 * SIM_SECOND},
    {victim_is_busy, 12, HURT_NOTHING, 15 * SIM_SECOND},
    {victim_is_killed, 10, HURT_NOTHING, 5 * SIM_SECOND},
    {server_is_down, 8, HURT_SERVER, 4 * SIM_SECOND},
    {server_is_frozen, 6, HURT_NOTHING, 6 * SIM_SECOND},
    {clock_is_stepped, 6, HURT_CLOCK, SIM_SECOND / 100},
    {server_is_replaced, 4, HURT_COMMITS, SIM_SECOND / 100},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int kind_draw(void)
{
    int sum = 0, at, kind = 0;

    for (int i = 0; i < KINDS; i++)
        sum += kinds[i].weight;
    at = (int)dice_below(&world.chance, (uint64_t)sum);
    while (at >= kinds[kind].weight)
        at -= kinds[kind++].weight;
    return kind;
}

static void fault_heals(struct fault *f)
{
    world.weather = world.calm;
    network_heals();
    if (!f->victim->alive)
        client_start(f->victim);
}

/* One fault, from its begin until it is healed. */
static void fault_happens(int kind, struct event *e)
{
    const struct kind *k = &kinds[kind];
    struct fault f = {.until = world.now + chance_between(k->most_us / 20, k->most_us)};
    int64_t at;

    f.victim = &world.processes[dice_below(&world.chance, world.n_processes)];
    e->name = (uint32_t)kind;
    e->value = k->value == HURT_COMMITS && world.grace_ms > 0 ? HURT_COMMITS_WITH_GRACE : k->value;
    world.trouble_until = TIME_NEVER;
    at = record_invoke(e);
    k->begin(&f);
    task_wait(NULL, NULL, f.until);
    fault_heals(&f);
    record_return(at, e);
    world.trouble_until = world.now + AFTERMATH_US + world.grace_ms * INT64_C(1000);
}

void *faults_main(void *none)
{
    struct event e = {.verb = V_FAULT};

    (void)none;
    while (world.now < world.end) {
        task_sleep(chance_between(SIM_SECOND, 60 * SIM_SECOND));
        fault_happens(kind_draw(), &e);
    }
    /* Then each name must be granted. */
    task_sleep(30 * SIM_SECOND);
    world.over = true;
    return NULL;
}
