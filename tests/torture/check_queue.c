/* Who has a place in a queue is overtaken by no newcomer (P21). The exception is what the lock's
 * holder passes on to a waiter of its own manager. */
#include "tests/torture/check_parts.h"

/* An offer: who waited longer may have been passed over, as dead. */
#define LONG_US INT64_C(1000000)
/* Who was not granted the lock has left the queue no earlier before it said so. */
#define LEFT_US 50000

/* The acquire that a place is about; NULL: the history does not have it. */
static const struct event *find_acquire(const struct book *b, const struct event *place)
{
    int64_t low = 0, high = b->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (b->events[middle].invoke_us < place->deadline_us)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < b->n && b->events[low].invoke_us == place->deadline_us; low++) {
        const struct event *e = &b->events[low];

        if (event_acquires(e) && e->process == place->process && e->name == place->name)
            return e;
    }
    return NULL;
}

/* Until when it had the place: it was granted the lock, or gave up. */
static int64_t end_us(const struct event *acquire)
{
    return event_ok(acquire) ? acquire->return_us : acquire->return_us - LEFT_US;
}

/* Whose session has ended, or whose time was stepped away, counts as dead until its next sign of
 * life, and newcomers pass it by with every right. How long that lasts is not known here. */
static bool is_before_faults(const struct book *b, int64_t us)
{
    return b->all.n == 0 || us < b->all.times[0].begin_us;
}

static bool proves(const struct book *b, const struct event *place, const struct event *acquire)
{
    return acquire != NULL && event_returned(acquire) && kind_of(b, place->name).slots <= 1 &&
           !kind_of(b, place->name).shared && end_us(acquire) - place->invoke_us <= LONG_US &&
           is_before_faults(b, end_us(acquire));
}

/* The first grant of the name that was told of after this time. */
static int64_t find_first_after(const struct book *b, const struct grant *any, int64_t us)
{
    int64_t i = any - b->grants;

    while (i > 0 && b->grants[i - 1].name == any->name && b->grants[i - 1].start_us >= us)
        i--;
    return i;
}

/* Whether this grant and the one before it follow each other. Else somebody had it in between who
 * was not told: the place may have come to its turn, and have lost that to a break; or a thread of
 * the same process gave it back. */
static bool follows(const struct grant *g)
{
    return g[-1].name == g->name && g[-1].token == g->token - 1;
}

static bool is_newcomer(const struct grant *g, const struct event *place)
{
    return g->sent_us > place->return_us && g[-1].told->process != g->told->process;
}

static void judge_place(struct book *b, const struct event *place, const struct event *acquire)
{
    const struct grant *own = event_ok(acquire) ? b->grant_of[acquire - b->events] : NULL;
    const int64_t until_us = end_us(acquire);
    const int64_t end = own ? own - b->grants : book_at(b, place->name, NEVER);

    b->out->places++;
    if (end == 0 || b->grants[end - 1].name != place->name)
        return;
    for (int64_t i = find_first_after(b, &b->grants[end - 1], place->return_us); i > 0 && i < end;
         i++) {
        const struct grant *g = &b->grants[i];

        if (!follows(g) || g->start_us >= until_us)
            break;
        if (is_newcomer(g, place))
            breach(b, RULE_ORDER, place, g->told,
                   "it had the place, and another one came before it");
    }
}

/* Of the places of one acquire the last one counts: before it had that, it lost another one. */
void check_queue(struct book *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = b->by_thread[i], *next = i + 1 < b->n ? b->by_thread[i + 1] : NULL;
        const struct event *acquire;

        if (e->verb != V_PLACE ||
            (next && next->verb == V_PLACE && next->process == e->process &&
             next->thread == e->thread && next->deadline_us == e->deadline_us))
            continue;
        acquire = find_acquire(b, e);
        if (proves(b, e, acquire))
            judge_place(b, e, acquire);
    }
}
