/* The states of a lock on its holder's side (P4, P6, P7). */
#include <assert.h>

#include "core/model/lease.h"

/* The margin is a tenth of the lease. It covers a holder's clock that is slewed, and so too slow by
 * up to 10 %. That is the most that adjtimex(2) does, and more than chrony does (8.33 %). It also
 * covers a server's clock that is too fast by up to 11 %, or a step of that clock. The margin has
 * no upper limit, because slewing is a rate. Clocks that are only badly kept differ by 500 ppm each
 * (NTP's limit; Mills, RFC 5905). */
#define MARGIN_PART 10

/* All allowed changes. An event that is not listed leaves the state as it is. In each state, what
 * happens to every lease comes first. */
const struct lease_edge lease_edges[] = {
    {SQLOCK_UNSURE, LEASE_GRANTED, SQLOCK_HELD, "the deadline counts from before the request"},
    {SQLOCK_UNSURE, LEASE_RELEASED, SQLOCK_RELEASED, "settled: the release was applied"},
    {SQLOCK_UNSURE, LEASE_RENEWED, SQLOCK_HELD, "it was guarded, and is still ours"},
    {SQLOCK_UNSURE, LEASE_TICK, SQLOCK_LOST, "it was guarded, and nothing can extend it any more"},
    {SQLOCK_UNSURE, LEASE_DENIED, SQLOCK_LOST, "settled: it is not ours"},
    {SQLOCK_UNSURE, LEASE_RELEASING, SQLOCK_UNSURE, "it was guarded, which no longer counts"},
    {SQLOCK_UNSURE, LEASE_CLOSED, SQLOCK_LOST, "no one is left to settle it"},
    {SQLOCK_HELD, LEASE_RELEASING, SQLOCK_UNSURE, "only the answer decides from here on"},
    {SQLOCK_HELD, LEASE_RENEWED, SQLOCK_HELD, "the deadline counts from before the request"},
    {SQLOCK_HELD, LEASE_TICK, SQLOCK_AT_RISK, "two thirds of the lease without a renewal"},
    {SQLOCK_HELD, LEASE_TICK, SQLOCK_LOST, "no proof is left that the row is still ours"},
    {SQLOCK_HELD, LEASE_TICK, SQLOCK_UNSURE, "a guarding transaction may keep it ours"},
    {SQLOCK_HELD, LEASE_JUMPED, SQLOCK_LOST, "the server's clock has passed the lease's end"},
    {SQLOCK_HELD, LEASE_MOVED, SQLOCK_AT_RISK, "a server took over that may lack it"},
    {SQLOCK_HELD, LEASE_DENIED, SQLOCK_LOST, "the database says so"},
    {SQLOCK_HELD, LEASE_CLOSED, SQLOCK_LOST, "no one is left to renew it"},
    {SQLOCK_AT_RISK, LEASE_RENEWED, SQLOCK_HELD, "the database answers again"},
    {SQLOCK_AT_RISK, LEASE_TICK, SQLOCK_LOST, "no proof is left that the row is still ours"},
    {SQLOCK_AT_RISK, LEASE_TICK, SQLOCK_UNSURE, "a guarding transaction may keep it ours"},
    {SQLOCK_AT_RISK, LEASE_JUMPED, SQLOCK_LOST, "the server's clock has passed the lease's end"},
    {SQLOCK_AT_RISK, LEASE_MOVED, SQLOCK_AT_RISK, "it is renewed on the new server at once"},
    {SQLOCK_AT_RISK, LEASE_CONFIRMED, SQLOCK_HELD, "the server that took over has it"},
    {SQLOCK_AT_RISK, LEASE_CONFIRMED, SQLOCK_LOST,
     "the server that took over has it, and it has run out"},
    {SQLOCK_AT_RISK, LEASE_DENIED, SQLOCK_LOST, "the database says so"},
    {SQLOCK_AT_RISK, LEASE_RELEASING, SQLOCK_UNSURE, "only the answer decides from here on"},
    {SQLOCK_AT_RISK, LEASE_CLOSED, SQLOCK_LOST, "no one is left to renew it"},
};
const size_t lease_n_edges = sizeof lease_edges / sizeof *lease_edges;

const char *lease_event_name(enum lease_event event)
{
    static const char *const names[LEASE_EVENTS] = {"granted",  "renewed",   "tick",   "jumped",
                                                    "moved",    "confirmed", "denied", "releasing",
                                                    "released", "closed"};
    assert(event < LEASE_EVENTS);
    return names[event];
}

int64_t lease_margin(int64_t ttl)
{
    return ttl / MARGIN_PART;
}

int64_t lease_deadline(const struct lease *l, int64_t sent)
{
    return sent + l->ttl - lease_margin(l->ttl);
}

void lease_init(struct lease *l, int64_t ttl, int64_t every, int64_t hold)
{
    assert(ttl > 0);
    *l = (struct lease){.state = SQLOCK_UNSURE, .ttl = ttl, .every = every, .hold = hold};
    l->hold_until = l->renew_at = l->risk_at = INT64_MAX;
}

static int lease_is_believed(const struct lease *l)
{
    return l->state == SQLOCK_HELD || l->state == SQLOCK_AT_RISK;
}

int lease_is_held(const struct lease *l, int64_t now)
{
    return lease_is_believed(l) && now < l->deadline;
}

int lease_is_pinned(const struct lease *l)
{
    return l->state == SQLOCK_UNSURE && l->guarded != 0 && !l->releasing;
}

int lease_is_live(const struct lease *l)
{
    return lease_is_believed(l) || lease_is_pinned(l);
}

void lease_guard(struct lease *l, int64_t now)
{
    if (lease_is_believed(l))
        l->guarded = now;
}

/* The longest hold is over. Only a lease that the library renews can be lost for that reason. */
static int lease_is_past_hold(const struct lease *l, int64_t now)
{
    return now >= l->hold_until && !l->manual;
}

/* When a pinned lease counts as lost, if no answer says so before. If the holder renews, the guard
 * was the last extension. The row ends after that, or it has run out when the guarding transaction
 * ends. */
static int64_t lease_pinned_until(const struct lease *l)
{
    return l->manual ? l->guarded + l->ttl : l->hold_until;
}

int64_t lease_next_tick(const struct lease *l)
{
    if (lease_is_pinned(l))
        return lease_pinned_until(l);
    if (!lease_is_believed(l))
        return INT64_MAX;
    return l->state == SQLOCK_HELD && l->risk_at < l->deadline ? l->risk_at : l->deadline;
}

/* What holds after each event, and so before the next one. */
static void lease_check(const struct lease *l)
{
    (void)l; /* without assertions */
    assert((l->state == SQLOCK_LOST) == (l->why != SQLOCK_WHY_NONE));
}

/* Every change of state goes through here, and must be in the table. */
static void lease_move(struct lease *l, enum lease_event event, sqlock_state to)
{
    size_t i = 0;

    while (i < lease_n_edges && (lease_edges[i].event != event || lease_edges[i].to != to ||
                                 lease_edges[i].from != l->state))
        i++;
    assert(i < lease_n_edges);
    l->state = to;
}

static unsigned lease_lose(struct lease *l, enum lease_event event, sqlock_why why)
{
    unsigned report = lease_is_live(l) ? LEASE_REPORT : 0;

    assert(why != SQLOCK_WHY_NONE);
    lease_move(l, event, SQLOCK_LOST);
    l->why = why;
    return report | LEASE_ARM;
}

static unsigned lease_prolong(struct lease *l, enum lease_event event, int64_t sent)
{
    unsigned report = l->state == SQLOCK_AT_RISK || lease_is_pinned(l) ? LEASE_REPORT : 0;

    lease_move(l, event, SQLOCK_HELD);
    if (sent > l->guarded)
        l->guarded = 0; /* the row was written, so the guarding transaction is over */
    l->deadline = lease_deadline(l, sent);
    l->renew_at = sent + l->every;
    l->risk_at = sent + l->ttl / 3 * 2;
    l->jumped = 0;
    return report | LEASE_ARM;
}

static unsigned lease_tick(struct lease *l, int64_t now)
{
    if (lease_is_pinned(l) && now < lease_pinned_until(l))
        return 0;
    if (lease_is_pinned(l))
        return lease_lose(l, LEASE_TICK, l->manual ? SQLOCK_WHY_EXPIRED : SQLOCK_WHY_MAX_HOLD);
    if (!lease_is_believed(l))
        return 0;
    if (now >= l->deadline && l->guarded != 0 && !l->jumped && !lease_is_past_hold(l, now)) {
        lease_move(l, LEASE_TICK, SQLOCK_UNSURE);
        return LEASE_REPORT | LEASE_ARM;
    }
    if (now >= l->deadline)
        return lease_lose(l, LEASE_TICK,
                          l->jumped                    ? SQLOCK_WHY_CLOCK
                          : lease_is_past_hold(l, now) ? SQLOCK_WHY_MAX_HOLD
                                                       : SQLOCK_WHY_EXPIRED);
    if (l->state == SQLOCK_HELD && now >= l->risk_at) {
        lease_move(l, LEASE_TICK, SQLOCK_AT_RISK);
        return LEASE_REPORT;
    }
    return 0;
}

/* A late answer changes nothing: the loss was reported or is due now, and the application has
 * stopped its work. Only a pinned lease was not lost: its row has been ours all the time. */
static unsigned lease_renewed(struct lease *l, int64_t now, int64_t sent)
{
    sqlock_state before = l->state;
    unsigned todo = lease_is_held(l, now) || lease_is_pinned(l) ? 0 : lease_tick(l, now);

    if (lease_is_pinned(l) && now < lease_deadline(l, sent)) {
        lease_prolong(l, LEASE_RENEWED, sent);
        return before == SQLOCK_HELD ? LEASE_ARM : LEASE_REPORT | LEASE_ARM;
    }
    if (!lease_is_held(l, now) || lease_deadline(l, sent) < l->deadline)
        return todo; /* a later request was answered before: this answer proves less */
    return lease_prolong(l, LEASE_RENEWED, sent);
}

static unsigned lease_jump(struct lease *l, int64_t now, int64_t by)
{
    assert(by > 0);
    if (!lease_is_believed(l))
        return 0;
    l->deadline -= by;
    l->risk_at -= by;
    l->renew_at = now;
    l->jumped = 1;
    return now >= l->deadline ? lease_lose(l, LEASE_JUMPED, SQLOCK_WHY_CLOCK) : LEASE_ARM;
}

/* A server granted the lease, and this server may have lost it at a failover. A renewal will show
 * it. */
static unsigned lease_doubt(struct lease *l, int64_t now)
{
    unsigned report = l->state == SQLOCK_HELD ? LEASE_REPORT : 0;

    if (!lease_is_believed(l))
        return 0;
    lease_move(l, LEASE_MOVED, SQLOCK_AT_RISK);
    l->renew_at = now;
    return report | LEASE_ARM;
}

/* The new server has a lease that the library does not renew. It may end there earlier than was
 * believed. */
static unsigned lease_confirm(struct lease *l, int64_t now, int64_t end)
{
    if (l->state != SQLOCK_AT_RISK)
        return 0;
    if (end < l->deadline)
        l->deadline = end;
    if (now >= l->deadline)
        return lease_lose(l, LEASE_CONFIRMED, SQLOCK_WHY_EXPIRED);
    lease_move(l, LEASE_CONFIRMED, SQLOCK_HELD); /* a tick reports if its end is near */
    return LEASE_REPORT | LEASE_ARM;
}

static unsigned lease_advance(struct lease *l, enum lease_event event, int64_t now, int64_t arg)
{
    switch (event) {
    case LEASE_GRANTED:
        if (l->state != SQLOCK_UNSURE)
            return 0;
        if (l->hold > 0 && l->hold_until == INT64_MAX) /* the hold began with the first grant */
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
        return lease_is_believed(l) || l->state == SQLOCK_UNSURE
                   ? lease_lose(l, event, (sqlock_why)arg)
                   : 0;
    case LEASE_RELEASING:
        if (!lease_is_live(l))
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
        return lease_lose(l, event, SQLOCK_WHY_CLOSED) & ~LEASE_REPORT;
    default:
        return 0;
    }
}

unsigned lease_apply(struct lease *l, enum lease_event event, int64_t now, int64_t arg)
{
    unsigned todo = lease_advance(l, event, now, arg);

    lease_check(l);
    return todo;
}
