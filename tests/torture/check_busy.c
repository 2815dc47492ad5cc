/* A try that was told that the lock is busy, at a time when nobody can have had it: P18. Refusals
 * are only judged before the first fault, where nobody was killed and no link was cut; and only if
 * nothing else was asked about the name at the same time, because who writes a row keeps others
 * from it for that moment. Under much load few tries are left that prove something, but they are
 * enough to find a release that releases nothing. */
#include <inttypes.h>
#include <stdlib.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

/* Until when somebody may have had the lock, or its row, because of what was asked so far. */
struct had {
    int64_t until_us;
    const struct event *refused; /* the last try that was, and nobody seemed to have it */
};

static int64_t may_have_until(const struct book *b, const struct event *e)
{
    const struct grant *g = b->grant_of[e - b->events];

    if (!event_returned(e))
        return NEVER;
    if (g && g->told == e)
        return g->over_us;
    return e->verb == V_ACQUIRE ? b->resolved_us[e - b->events] : e->return_us;
}

static bool proves_something(const struct book *b, const struct event *e, const struct had *had)
{
    return e->verb == V_ACQUIRE && e->value == 0 && event_returned(e) &&
           e->outcome == SQLOCK_EBUSY && had->until_us < e->invoke_us &&
           (b->all.n == 0 || e->return_us < b->all.times[0].begin_us);
}

static void judge(struct book *b, struct had *had)
{
    if (had->refused)
        breach(b, RULE_BUSY, had->refused, NULL,
               "busy, though nobody had it any more, and nobody else asked");
    had->refused = NULL;
}

/* What is asked while the refused one is under way excuses it. */
static void follow(struct book *b, const struct event *e, struct had *had)
{
    int64_t until_us = may_have_until(b, e);

    if (had->refused && e->invoke_us > had->refused->return_us)
        judge(b, had);
    had->refused = proves_something(b, e, had) ? e : NULL;
    if (until_us > had->until_us)
        had->until_us = until_us;
}

/* Of the database's row of a name. */
static bool touches_lock(int verb)
{
    return verb != V_HELD && verb != V_BEAT && verb != V_LEASE && verb != V_ROW_LOCK &&
           verb != V_CAS;
}

static uint32_t count_names(const struct book *b)
{
    uint32_t n = 0;

    for (int64_t i = 0; i < b->n; i++)
        if (b->events[i].verb != V_FAULT && b->events[i].name >= n)
            n = b->events[i].name + 1;
    return n;
}

/* A sweep of a reaper, or a fault, is about all names. */
static void follow_all(struct book *b, const struct event *e, struct had *had, uint32_t names)
{
    for (uint32_t name = 0; name < names; name++) {
        if (had[name].refused && e->invoke_us > had[name].refused->return_us)
            judge(b, &had[name]);
        had[name].refused = NULL;
        if (!event_returned(e) || e->return_us > had[name].until_us)
            had[name].until_us = event_returned(e) ? e->return_us : NEVER;
    }
}

bool check_busy(struct book *b)
{
    uint32_t names = count_names(b);
    struct had *had = calloc((size_t)names + 1, sizeof *had);

    for (int64_t i = 0; had && i < b->n; i++) {
        const struct event *e = &b->events[i];

        if (e->verb == V_FAULT)
            break;
        if (e->verb == V_REAP)
            follow_all(b, e, had, names);
        else if (touches_lock(e->verb))
            follow(b, e, &had[e->name]);
    }
    for (uint32_t name = 0; had && name < names; name++)
        judge(b, &had[name]);
    free(had);
    return had != NULL;
}
