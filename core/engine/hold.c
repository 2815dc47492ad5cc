/* A leader holds its batch back for a moment, for those who were just answered. */
#include <assert.h>

#include "core/engine/hold.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"

void hold_expect(struct hold *h, size_t n, size_t waiting, int64_t call_us)
{
    h->expected = n + waiting;
    h->call_us = call_us;
}

/* If more than half are ready, others wait for the same names, or have not come back before. */
size_t hold_missing(struct hold *h, size_t ready)
{
    if (h->expected < HOLD_LEAST || 2 * ready > h->expected)
        return 0;
    if (h->skips > 0) {
        h->skips--;
        return 0;
    }
    return h->expected - ready;
}

int64_t hold_limit(const struct hold *h)
{
    return time_min(h->call_us / HOLD_PART, HOLD_MOST_US);
}

void hold_judge(struct hold *h, size_t missing)
{
    if (2 * h->missing > missing)
        h->skips = HOLD_SKIPS;
}

/* A thread that drives several ops brings the requests of all. */
static size_t hold_count(const sqlock_op *op)
{
    size_t n = 1;

    if (op->company == NULL)
        return n;
    LIST_EACH(at, op->company)
    {
        n++;
    }
    return n;
}

static size_t hold_count_waiting(const sqlock *m)
{
    size_t n = 0;

    LIST_EACH(at, &m->waiting)
    {
        const sqlock_op *op = LIST_MEMBER(at, struct pool_waiter, in_manager)->op;

        n += op != NULL && op->attempt->joins ? hold_count(op) : 0;
    }
    return n;
}

void hold_answered(sqlock *m, size_t n, int64_t call_us)
{
    assert(mutex_is_mine(&m->mu));
    hold_expect(&m->hold, n, hold_count_waiting(m), call_us);
}

void hold_came(sqlock *m, const sqlock_op *op)
{
    struct hold *h = &m->hold;
    size_t n = op != NULL && op->attempt->joins ? hold_count(op) : 0;

    assert(mutex_is_mine(&m->mu));
    if (h->leader == NULL || n == 0)
        return;
    h->missing -= n < h->missing ? n : h->missing;
    if (h->missing == 0)
        cond_wake_all(h->leader->wake);
}

/* Who brings several requests wants them to go together. */
int hold_allows_like(const sqlock_op *waiting, const sqlock_op *leader)
{
    return waiting->company == NULL &&
           (!waiting->attempt->passed ||
            waiting->attempt->request.stmt == leader->attempt->request.stmt);
}

static int hold_may_be_like(const sqlock_op *leader)
{
    int may = leader->company == NULL;

    LIST_EACH(at, &leader->m->waiting)
    {
        const sqlock_op *op = LIST_MEMBER(at, struct pool_waiter, in_manager)->op;

        may = may && (op == NULL || hold_allows_like(op, leader));
    }
    return may;
}

/* Not for one whose time would be short of it, and not with a connection that is lent. */
void hold_back(sqlock_op *op, const struct conn *c)
{
    sqlock *m = op->m;
    struct hold *h = &m->hold;
    int64_t now, until;
    size_t missing;

    assert(mutex_is_mine(&m->mu) && op->attempt->joins);
    if (h->leader != NULL || c->until != TIME_NEVER ||
        (missing = hold_missing(h, hold_count(op) + hold_count_waiting(m))) == 0)
        return;
    now = sqlock_now_us();
    until = now + hold_limit(h);
    if (time_min(op->attempt->until, op->deadline) - until < 2 * h->call_us)
        return;
    h->leader = op;
    h->missing = missing;
    while (h->missing > 0 && !op->end_attempt && !m->stopping && sqlock_now_us() < until)
        cond_wait_until(op->wake, &m->mu, until);
    h->leader = NULL;
    hold_judge(h, missing);
    op->attempt->like = h->missing == 0 && hold_may_be_like(op);
}
