/* What a task sends and learns, and what only exact time shows of it. */
#include "tests/lib/db.h"
#include "tests/sim/hand.h"

enum { SLACK_MS = 100, WAIT_LEAST_MS = 500 }; /* a task of a calm process may be kept waiting */

/* ---- what is sent and answered --------------------------------------------------------------- */

void hand_sends(struct hand *h, int verb, uint32_t name, int64_t token)
{
    h->now.verb = verb;
    h->now.name = name;
    h->now.token = token;
    h->now.outcome = 0;
    h->now.deadline_us = h->now.value = 0;
    h->at = record_invoke(&h->now);
}

void hand_learns(struct hand *h, int outcome, int64_t deadline_us, int64_t value)
{
    h->now.outcome = outcome;
    h->now.deadline_us = deadline_us;
    h->now.value = value;
    if (deadline_us > 0)
        h->told_us = deadline_us;
    record_return(h->at, &h->now);
}

void hand_steps_aside(struct hand *h)
{
    const struct event now = h->now;
    const int64_t at = h->at;

    h->now = h->beside;
    h->at = h->beside_at;
    h->beside = now;
    h->beside_at = at;
}

static bool hand_is_calm(const struct hand *h, int64_t since)
{
    return h->crew->process->calm_since <= since;
}

/* P8: it ends on time, whatever the network and the server do. */
void hand_judge_time(const struct hand *h, int32_t limit_ms)
{
    int64_t took = h->now.return_us - h->now.invoke_us;

    if (hand_is_calm(h, h->now.invoke_us) && took > (limit_ms + SLACK_MS) * INT64_C(1000))
        record_breach(&h->now, "a call took %lld us, and not %d ms at most", (long long)took,
                      limit_ms);
}

/* In peace each request has its answer, unless it has too little time for one. Then it may be
 * unsure, and settled in vain as long as it may arrive. Who cancels a request makes those unsure
 * that travel with it, if their time ends before they learn more. */
void hand_judge_outcome(const struct hand *h, int rc, const sqlock_error *err)
{
    bool short_of_time = event_acquires(&h->now) && h->wait_ms > 0 && h->wait_ms < WAIT_LEAST_MS;
    bool settles = h->now.verb == V_SETTLE || (h->now.verb == V_RELEASE && h->now.token == 0);

    if (rc == 0 || rc == SQLOCK_EBUSY || rc == SQLOCK_ELOST || !record_in_peace(&h->now))
        return;
    if (short_of_time || settles)
        return;
    if (h->fired && rc == SQLOCK_ECANCELLED)
        return;
    if (rc == SQLOCK_EUNSURE && h->crew->cancelled_us >= h->now.invoke_us)
        return;
    record_breach(&h->now, "in peace a request failed: %s", err->text);
}

/* A lease that is renewed does not run out in peace. */
void hand_judge_loss(const struct hand *h, int why)
{
    if (!h->manual && why == SQLOCK_WHY_EXPIRED && h->granted_us >= world.trouble_until)
        record_breach(&h->now, "in peace a lease ran out that is renewed");
}

/* ---- what a lease says of itself ------------------------------------------------------------- */

/* When the end is to be reported at the latest. A server that took over may lack the commit that
 * made a lease of the lock's offer, and knows the offer's end: that shows when it answers. Until
 * then the holder may believe what it was told. */
static int64_t hand_end_us(const struct hand *h, int64_t deadline)
{
    bool may_lack = world.replaced_us >= h->granted_us;

    return may_lack && deadline < h->told_us ? h->told_us : deadline;
}

/* P6: the holder learns of the end at the deadline. */
void hand_hears(sqlock_lock *lock, sqlock_state state, void *user)
{
    struct hand *h = user;
    int64_t deadline = sqlock_lock_deadline_us(lock), now = sqlock_now_us();

    if (state != SQLOCK_LOST)
        return;
    h->reported_lost_us = now;
    if (sqlock_lock_why(lock) == SQLOCK_WHY_EXPIRED && hand_is_calm(h, deadline) &&
        now > hand_end_us(h, deadline) + SLACK_MS * INT64_C(1000))
        record_breach(&h->now, "a loss was reported %lld us late", (long long)(now - deadline));
}

void hand_judge_report(struct hand *h, sqlock_lock *lock)
{
    int64_t deadline = sqlock_lock_deadline_us(lock), now = sqlock_now_us();

    if (sqlock_lock_state(lock) == SQLOCK_LOST && sqlock_lock_why(lock) == SQLOCK_WHY_EXPIRED &&
        hand_is_calm(h, deadline) && now > deadline + 2 * SLACK_MS * INT64_C(1000) &&
        h->reported_lost_us == 0)
        record_breach(&h->now, "a loss was not reported");
}
