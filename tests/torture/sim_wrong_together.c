/* What is made wrong where several hold a name together. */
#include <stddef.h>

#include "tests/torture/sim_wrong.h"

/* Whether somebody holds this grant for certain at a time: it was granted in time, its deadline is
 * ahead, and nobody asked to end it so far. */
static bool is_held_at(const struct wrong *w, const struct event *g, int64_t at_us)
{
    if (g->return_us > at_us || g->deadline_us <= at_us)
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (wrong_same_grant(x, g) && (x->verb == V_RELEASE || x->verb == V_BREAK) &&
            x->invoke_us <= at_us)
            return false;
    }
    return true;
}

/* Another grant of the name, by this verb, that is held when this one is granted. */
static struct event *held_beside(const struct wrong *w, const struct event *e, int verb)
{
    for (int64_t i = 0; i < w->sim.n; i++) {
        struct event *x = &w->sim.events[i];

        if (x != e && wrong_answered(x, verb, 0) && x->name == e->name &&
            is_held_at(w, x, e->return_us))
            return x;
    }
    return NULL;
}

static bool is_shared_beside_another(const struct wrong *w, const struct event *e)
{
    return wrong_answered(e, V_SHARE, 0) && is_held_at(w, e, e->return_us) &&
           held_beside(w, e, V_SHARE);
}

bool wrong_exclusive_grant_beside_a_shared_one(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_shared_beside_another);

    w->found_by[0] = RULE_OVERLAP;
    if (e)
        e->verb = V_ACQUIRE;
    return e != NULL;
}

bool wrong_shared_grant_beside_an_exclusive_one(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_shared_beside_another);

    w->found_by[0] = RULE_OVERLAP;
    if (e)
        held_beside(w, e, V_SHARE)->verb = V_ACQUIRE;
    return e != NULL;
}

static int64_t held_with(const struct wrong *w, const struct event *e)
{
    int64_t n = 0;

    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        n +=
            wrong_answered(x, V_ACQUIRE, 0) && x->name == e->name && is_held_at(w, x, e->return_us);
    }
    return n;
}

static bool has_slots(const struct wrong *w, const struct event *e)
{
    (void)w;
    return e->verb == V_SLOTS && e->value > 1;
}

bool wrong_slots_that_are_too_few(struct wrong *w)
{
    struct event *slots = wrong_pick(w, has_slots);
    int64_t most = 0;

    for (int64_t i = 0; slots && i < w->sim.n; i++) {
        const struct event *e = &w->sim.events[i];

        if (wrong_answered(e, V_ACQUIRE, 0) && e->name == slots->name && held_with(w, e) > most)
            most = held_with(w, e);
    }
    w->found_by[0] = RULE_SLOTS;
    w->found_by[1] = RULE_OVERLAP; /* there is one slot */
    if (most < 2)
        return false;
    slots->value = most - 1;
    return true;
}
