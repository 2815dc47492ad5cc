/* Ops that begin behind another one, which waits. */
#include <assert.h>
#include <string.h>

#include "core/engine/party.h"

/* The least time that each has for its answer: a busy machine needs it even where answers come
 * soon. */
#define ANSWER_US INT64_C(10000)
/* A place in the queue is worth a wait of that length (leases/waiting.c), and more. */
#define HIGHER_US INT64_C(100000)

void party_lead(struct party *c, sqlock_op *op)
{
    assert(mutex_is_mine(&op->m->mu) && op->tries == 0 && op->party == NULL);
    c->ahead = op;
    c->begun = 0;
    list_init(&c->behind);
    op->party = c;
}

void party_follow(struct party *c, sqlock_op *op)
{
    assert(mutex_is_mine(&op->m->mu) && op->tries == 0);
    op->deadline = op->next_at = TIME_NEVER;
    list_append(&c->behind, &op->in_party);
}

/* The first of those that have not begun is taken out. NULL: there is none. */
static sqlock_op *party_take(struct party *c)
{
    sqlock_op *op =
        list_is_empty(&c->behind) ? NULL : LIST_MEMBER(c->behind.next, sqlock_op, in_party);

    if (op != NULL)
        list_remove(&op->in_party);
    return op;
}

/* Its time counts from now. While one is held, others are waited for upwards only, by name: of
 * callers that want the same names each then waits for one that has more of them, and none for
 * itself. For a larger name there is time for a place in its queue, where newcomers come later. */
static void party_begin_one(const struct party *c, sqlock_op *op, int64_t now)
{
    const int lower = strcmp(op->lock->name, c->ahead->lock->name) < 0;
    int64_t left = c->deadline == TIME_NEVER ? TIME_NEVER : c->deadline - now;
    int64_t wait = time_min(c->wait + HIGHER_US + time_max(2 * op->m->round, ANSWER_US), left);

    op->begun = now;
    op->once = lower || wait <= 0;
    op->deadline = op->once ? time_min(now + op->m->request_us, c->until) : now + wait;
    op_wake(op, now);
}

static void party_begin(struct party *c, int64_t now)
{
    sqlock_op *op;

    c->begun = 1;
    while ((op = party_take(c)) != NULL)
        party_begin_one(c, op, now);
}

void party_sends(sqlock_op *op, int64_t now)
{
    if (!party_takes_along(op) || op->party->begun ||
        !(op->attempt->request.flags & SQLOCK_CALL_LIKELY))
        return;
    op->deadline = time_min(op->deadline, now + op->m->request_us);
    party_begin(op->party, now);
}

/* It was not sent. One that a lane has been started for ends by itself: no one else ends it now. */
static void party_leave_out(sqlock_op *op)
{
    if (op->driven_by != NULL)
        op->cancelled = 1;
    else
        op_done_locked(op, op_error_set(op, SQLOCK_ECANCELLED, 0, "not sent"));
}

void party_ends(sqlock_op *op)
{
    struct party *c = op->party;

    assert(mutex_is_mine(&op->m->mu) && op->done);
    list_remove(&op->in_party);
    if (c == NULL || c->begun)
        return;
    if (op->code == 0)
        party_begin(c, sqlock_now_us());
    else
        while ((op = party_take(c)) != NULL)
            party_leave_out(op);
}
