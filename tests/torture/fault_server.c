/* Servers that die, sleep, live in another time, or have no room. */
#include "tests/lib/check.h"
#include "tests/torture/fault.h"

bool strike_kill_server(struct cell *c)
{
    cell_hurt(c);
    engine_kill(&c->engine);
    cell_nap(c, 0, 100);
    if (!engine_launch(&c->engine))
        cell_problem(c, "the server did not start again");
    cell_healed(c);
    return true;
}

bool strike_stop_server(struct cell *c)
{
    cell_hurt(c);
    engine_pause(&c->engine, true);
    cell_nap(c, c->lease_ms, 2 * c->lease_ms);
    engine_pause(&c->engine, false);
    cell_healed(c);
    return true;
}

/* Back by 300 s, and forth again: what was held at the first is held 300 s too long if nobody gives
 * it back, so the second comes soon, and the last step of a cell is one forward. */
bool strike_clock(struct cell *c)
{
    bool back = c->events % 2 == 0;

    cell_hurt(c);
    engine_clock(&c->engine, back ? -300 : 0);
    cell_nap(c, 20, 60);
    cell_healed(c);
    if (back) {
        cell_nap(c, 50, 2 * c->lease_ms);
        strike_clock(c);
    }
    return true;
}

bool strike_end_sessions(struct cell *c)
{
    cell_hurt(c);
    if (engine_end_sessions(&c->engine) < 0)
        cell_problem(c, "no session could be ended");
    cell_healed(c);
    return true;
}

/* Small writes go on in room that servers keep; a large one finds the wall. A server that cannot
 * write at all may end itself. */
bool strike_disk_full(struct cell *c)
{
    struct engine *e = &c->engine;

    cell_hurt(c);
    engine_exec(e, e->kind->ops->bulk[0]);
    engine_fill(e);
    engine_exec(e, e->kind->ops->bulk[1]);
    cell_nap(c, 50, c->lease_ms);
    engine_free(e);
    if (e->kind->ops->script && !engine_runs(e) && !engine_launch(e))
        cell_problem(c, "the server did not start again when there was room");
    cell_healed(c);
    engine_exec(e, e->kind->ops->bulk[2]);
    return true;
}
