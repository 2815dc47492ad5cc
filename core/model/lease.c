/* The states of a lock on its holder's side (P4, P6, P7). */
#include <assert.h>

#include "core/model/lease.h"

/* A tenth of the lease covers a holder's clock that is slewed and so too slow by up to 10 %, which
 * is the most that adjtimex(2) does and more than chrony does (8.33 %), or a server's that is too
 * fast by up to 11 %; or a step of the server's clock. It has no upper end: what is slewed is a
 * rate. Clocks that are merely badly kept differ by 500 ppm each (NTP's limit; Mills, RFC 5905). */
#define MARGIN_PART 10

/* Everything that is not listed leaves the state as it is. */
const struct lease_edge lease_edges[] = {
    {SQLOCK_UNSURE, LEASE_GRANTED, SQLOCK_HELD, "the deadline counts from before the request"},
    {SQLOCK_UNSURE, LEASE_RENEWED, SQLOCK_HELD, "it was guarded, and still is ours"},
    {SQLOCK_UNSURE, LEASE_TICK, SQLOCK_LOST, "it was guarded, and nothing can prolong it any more"},
    {SQLOCK_UNSURE, LEASE_DENIED, SQLOCK_LOST, "settled: it is not ours"},
    {SQLOCK_UNSURE, LEASE_RELEASING, SQLOCK_UNSURE,
     "it was guarded; from here on that is no matter"},
    {SQLOCK_UNSURE, LEASE_RELEASED, SQLOCK_RELEASED, "settled: the release was applied"},
    {SQLOCK_UNSURE, LEASE_CLOSED, SQLOCK_LOST, "nobody is left to settle it"},
    {SQLOCK_HELD, LEASE_RENEWED, SQLOCK_HELD, "the deadline counts from before the request"},
    {SQLOCK_HELD, LEASE_TICK, SQLOCK_AT_RISK, "two thirds of the lease without a renewal"},
    {SQLOCK_HELD, LEASE_TICK, SQLOCK_LOST, "no proof is left that the row is still ours"},
    {SQLOCK_HELD, LEASE_TICK, SQLOCK_UNSURE, "a guarding transaction may keep it ours"},
    {SQLOCK_HELD, LEASE_JUMPED, SQLOCK_LOST, "the server's clock has passed the lease's end"},
    {SQLOCK_HELD, LEASE_MOVED, SQLOCK_AT_RISK, "a server took over that may not have it"},
    {SQLOCK_HELD, LEASE_DENIED, SQLOCK_LOST, "the database says so"},
    {SQLOCK_HELD, LEASE_RELEASING, SQLOCK_UNSURE, "from here on only the answer can tell"},
    {SQLOCK_HELD, LEASE_CLOSED, SQLOCK_LOST, "nobody is left to renew it"},
    {SQLOCK_AT_RISK, LEASE_RENEWED, SQLOCK_HELD, "the database answers again"},
    {SQLOCK_AT_RISK, LEASE_TICK, SQLOCK_LOST, "no proof is left that the row is still ours"},
    {SQLOCK_AT_RISK, LEASE_TICK, SQLOCK_UNSURE, "a guarding transaction may keep it ours"},
    {SQLOCK_AT_RISK, LEASE_JUMPED, SQLOCK_LOST, "the server's clock has passed the lease's end"},
    {SQLOCK_AT_RISK, LEASE_MOVED, SQLOCK_AT_RISK, "it is renewed there at once"},
    {SQLOCK_AT_RISK, LEASE_CONFIRMED, SQLOCK_HELD, "the server that took over has it"},
    {SQLOCK_AT_RISK, LEASE_CONFIRMED, SQLOCK_LOST, "it has it, and it has run out"},
    {SQLOCK_AT_RISK, LEASE_DENIED, SQLOCK_LOST, "the database says so"},
    {SQLOCK_AT_RISK, LEASE_RELEASING, SQLOCK_UNSURE, "from here on only the answer can tell"},
    {SQLOCK_AT_RISK, LEASE_CLOSED, SQLOCK_LOST, "nobody is left to renew it"},
};
const size_t lease_n_edges = sizeof lease_edges / sizeof *lease_edges;

const char *lease_event_name(enum lease_event event)
{
    static const char *const names[LEASE_EVENTS] = {"granted",  "renewed",   "tick",   "jumped",
                                                    "moved",    "confirmed", "denied", "releasing",
                                                    "released", "closed"};
    return names[event];
}

int64_t lease_margin(int64_t ttl)
{
    return ttl / MARGIN_PART;
}

int64_t lease_deadline(const struct lease *l, int64_t sent)
{
    return sent + l->ttl - l->margin;
}

void lease_init(struct lease *l, int64_t ttl, int64_t every, int64_t hold)
{
    *l = (struct lease){.state = SQLOCK_UNSURE, .ttl = ttl, .every = every, .hold = hold};
    l->margin = lease_margin(ttl);
    l->hold_until = l->renew_at = l->risk_at = INT64_MAX;
}

static int is_believed(const struct lease *l)
{
    return l->state == SQLOCK_HELD || l->state == SQLOCK_AT_RISK;
}

int lease_is_held(const struct lease *l, int64_t now)
{
    return is_believed(l) && now < l->deadline;
}

int lease_is_pinned(const struct lease *l)
{
    return l->state == SQLOCK_UNSURE && l->guarded != 0 && !l->releasing;
}

void lease_guard(struct lease *l, int64_t now)
{
    if (is_believed(l))
        l->guarded = now;
}

/* The hold is over, which only a lease that the library renews can blame. */
static int is_held_too_long(const struct lease *l, int64_t now)
{
    return now >= l->hold_until && !l->manual;
}

/* When a pinned lease is lost though nobody has said so. Where nobody renews it, the guard's is the
 * last extension: the row ends then, or has run out when the guarding transaction ends. */
static int64_t pinned_until(const struct lease *l)
{
    return l->manual ? l->guarded + l->ttl : l->hold_until;
}

int64_t lease_next_tick(const struct lease *l)
{
    if (lease_is_pinned(l))
        return pinned_until(l);
    if (!is_believed(l))
        return INT64_MAX;
    return l->state == SQLOCK_HELD && l->risk_at < l->deadline ? l->risk_at : l->deadline;
}

/* Every change of state passes here and must stand in the table. */
static void lease_move(struct lease *l, enum lease_event event, sqlock_state to)
{
    size_t i = 0;

    while (i < lease_n_edges && !(lease_edges[i].from == l->state &&
                                  lease_edges[i].event == event && lease_edges[i].to == to))
        i++;
    assert(i < lease_n_edges);
    l->state = to;
}

static unsigned lease_lose(struct lease *l, enum lease_event event, sqlock_why why)
{
    unsigned tell = is_believed(l) || lease_is_pinned(l) ? LEASE_TELL : 0;

    lease_move(l, event, SQLOCK_LOST);
    l->why = why;
    return tell | LEASE_ARM;
}

static unsigned lease_prolong(struct lease *l, enum lease_event event, int64_t sent)
{
    unsigned tell = l->state == SQLOCK_AT_RISK || lease_is_pinned(l) ? LEASE_TELL : 0;

    lease_move(l, event, SQLOCK_HELD);
    if (sent > l->guarded)
        l->guarded = 0; /* it was written, so the guarding transaction is over */
    l->deadline = lease_deadline(l, sent);
    l->renew_at = sent + l->every;
    l->risk_at = sent + l->ttl / 3 * 2;
    l->jumped = 0;
    return tell | LEASE_ARM;
}

static unsigned lease_tick(struct lease *l, int64_t now)
{
    if (lease_is_pinned(l) && now < pinned_until(l))
        return 0;
    if (lease_is_pinned(l))
        return lease_lose(l, LEASE_TICK, l->manual ? SQLOCK_WHY_EXPIRED : SQLOCK_WHY_MAX_HOLD);
    if (!is_believed(l))
        return 0;
    if (now >= l->deadline && l->guarded != 0 && !l->jumped && !is_held_too_long(l, now)) {
        lease_move(l, LEASE_TICK, SQLOCK_UNSURE);
        return LEASE_TELL | LEASE_ARM;
    }
    if (now >= l->deadline)
        return lease_lose(l, LEASE_TICK,
                          l->jumped                  ? SQLOCK_WHY_CLOCK
                          : is_held_too_long(l, now) ? SQLOCK_WHY_MAX_HOLD
                                                     : SQLOCK_WHY_EXPIRED);
    if (l->state == SQLOCK_HELD && now >= l->risk_at) {
        lease_move(l, LEASE_TICK, SQLOCK_AT_RISK);
        return LEASE_TELL;
    }
    return 0;
}

/* Late: the loss has been told, or is due now; the application has been sent home. But what a guard
 * pins was not lost, and the row has been ours all the time. */
static unsigned lease_renewed(struct lease *l, int64_t now, int64_t sent)
{
    sqlock_state before = l->state;
    unsigned todo = lease_is_held(l, now) || lease_is_pinned(l) ? 0 : lease_tick(l, now);

    if (lease_is_pinned(l) && now < lease_deadline(l, sent)) {
        lease_prolong(l, LEASE_RENEWED, sent);
        return before == SQLOCK_HELD ? LEASE_ARM : LEASE_TELL | LEASE_ARM;
    }
    if (!lease_is_held(l, now) || lease_deadline(l, sent) < l->deadline)
        return todo; /* overtaken by the answer to a later one: it proves less, and takes nothing */
    return lease_prolong(l, LEASE_RENEWED, sent);
}

static unsigned lease_jump(struct lease *l, int64_t now, int64_t by)
{
    if (!is_believed(l))
        return 0;
    l->deadline -= by;
    l->risk_at -= by;
    l->renew_at = now;
    l->jumped = 1;
    return now >= l->deadline ? lease_lose(l, LEASE_JUMPED, SQLOCK_WHY_CLOCK) : LEASE_ARM;
}

/* It was granted by a server that may have lost it on the way to this one; a renewal tells. */
static unsigned lease_doubt(struct lease *l, int64_t now)
{
    unsigned tell = l->state == SQLOCK_HELD ? LEASE_TELL : 0;

    if (!is_believed(l))
        return 0;
    lease_move(l, LEASE_MOVED, SQLOCK_AT_RISK);
    l->renew_at = now;
    return tell | LEASE_ARM;
}

/* Of one that nobody prolongs: its end there may be an earlier one than was believed. */
static unsigned lease_confirm(struct lease *l, int64_t now, int64_t end)
{
    if (l->state != SQLOCK_AT_RISK)
        return 0;
    if (end < l->deadline)
        l->deadline = end;
    if (now >= l->deadline)
        return lease_lose(l, LEASE_CONFIRMED, SQLOCK_WHY_EXPIRED);
    lease_move(l, LEASE_CONFIRMED, SQLOCK_HELD); /* a tick tells if its end is near */
    return LEASE_TELL | LEASE_ARM;
}

unsigned lease_apply(struct lease *l, enum lease_event event, int64_t now, int64_t arg)
{
    switch (event) {
    case LEASE_GRANTED:
        if (l->state != SQLOCK_UNSURE)
            return 0;
        if (l->hold > 0 && l->hold_until == INT64_MAX) /* once: the hold began with the first */
            l->hold_until = now + l->hold;
        return lease_prolong(l, event, arg);
    case LEASE_RENEWED:
        return lease_renewed(l, now, arg);
    case LEASE_TICK:
        return lease_tick(l, now);
    case LEASE_JUMPED:
        return lease_jump(l, now, arg);
    case LEASE_MOVED:
        return lease_doubt(l, now);
    case LEASE_CONFIRMED:
        return lease_confirm(l, now, arg);
    case LEASE_DENIED:
        return is_believed(l) || l->state == SQLOCK_UNSURE ? lease_lose(l, event, (sqlock_why)arg)
                                                           : 0;
    case LEASE_RELEASING:
        if (!is_believed(l) && !lease_is_pinned(l))
            return 0;
        l->releasing = 1;
        lease_move(l, event, SQLOCK_UNSURE);
        return LEASE_ARM;
    case LEASE_RELEASED:
        if (l->state != SQLOCK_UNSURE)
            return 0;
        lease_move(l, event, SQLOCK_RELEASED);
        return LEASE_ARM;
    case LEASE_CLOSED:
        if (l->state == SQLOCK_LOST || l->state == SQLOCK_RELEASED)
            return 0;
        return lease_lose(l, event, SQLOCK_WHY_CLOSED) & ~LEASE_TELL;
    default:
        return 0;
    }
}
