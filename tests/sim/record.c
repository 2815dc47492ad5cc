/* What happened: the history, in the form of tests/torture, and the trace. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/sim.h"

enum { BREACHES_SHOWN = 5 };

static void trace_number(int64_t n)
{
    for (int i = 0; i < 8; i++) {
        world.trace ^= (uint64_t)n >> (8 * i) & 0xff;
        world.trace *= UINT64_C(0x100000001b3);
    }
}

void trace(char what, int64_t a, int64_t b)
{
    static const char *wanted;
    static bool looked;

    if (!looked)
        wanted = getenv("SIM_TRACE");
    looked = true;
    if (wanted != NULL)
        printf("%" PRId64 " %c %" PRId64 " %" PRId64 "\n", world.now, what, a, b);
    trace_number(world.now);
    trace_number(what);
    trace_number(a);
    trace_number(b);
    world.steps++;
}

void record_end(void)
{
    free(world.events);
    world.events = NULL;
    world.n_events = world.room = 0;
}

static void record_make_room(void)
{
    const int64_t room = world.room > 0 ? 2 * world.room : 4096;

    if (world.n_events < world.room)
        return;
    if ((world.events = realloc(world.events, (size_t)room * sizeof *world.events)) == NULL)
        abort();
    world.room = room;
}

/* Others may write while this one reads the clock. */
int64_t record_invoke(struct event *e)
{
    e->op++;
    e->return_us = HISTORY_NOT_RETURNED;
    e->invoke_us = sqlock_now_us();
    trace('I', e->process * 1000 + e->thread, e->verb);
    record_make_room();
    world.events[world.n_events] = *e;
    return world.n_events++;
}

void record_return(int64_t at, struct event *e)
{
    e->return_us = sqlock_now_us();
    trace('R', e->outcome, e->token);
    world.events[at] = *e;
}

bool record_in_peace(const struct event *e)
{
    return e->invoke_us >= world.trouble_until;
}

void record_breach(const struct event *e, const char *fmt, ...)
{
    va_list args;

    if (world.breaches++ >= BREACHES_SHOWN)
        return;
    fprintf(stderr, "seed %" PRIu64 ", at %" PRId64 ": ", world.seed, world.now);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
    if (e != NULL)
        history_print(stderr, e);
}
