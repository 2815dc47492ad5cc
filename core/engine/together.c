/* Several ops that one thread drives: a list of names, or a release and an acquire. */
#include <assert.h>

#include "core/engine/batch.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/queue.h"

#define NAMES_IN_TIME 16 /* as many are given back in a request's time, or it begins anew */

struct member {
    sqlock_op *op;
    int has_request; /* in this round: */
    struct attempt attempt;
};

struct together {
    sqlock *m;
    struct link company; /* of those whose requests wait to be sent */
    int has_waited;      /* one of them has tried for its lock */
    int answered;        /* the last request of those that do not wait for locks */
    int64_t end;         /* of these, at the latest */
    cond wake;
    size_t n;
    struct member members[];
};

/* A cancelled one is due at once. */
static int64_t together_due(const sqlock_op *op)
{
    return op->cancelled ? 0 : op->next_at;
}

/* Of those that are not done, the one that has been due for longest, or will be due next. t->n: all
 * are done. */
static size_t together_first(const struct together *t)
{
    size_t first = t->n;
    int64_t due = TIME_NEVER;

    for (size_t i = 0; i < t->n; i++) {
        const sqlock_op *op = t->members[i].op;

        if (op->done || (first < t->n && together_due(op) >= due))
            continue;
        first = i;
        due = together_due(op);
    }
    return first;
}

/* Its next request may go with others: it is none to wait in a queue, and none for a seat. */
static int together_may_join(const sqlock_op *op)
{
    return !op_waits(op) ||
           (op->lock->mode == SQLOCK_EXCLUSIVE && (op->in_queue == NULL || op->in_queue->called));
}

/* Each op that is due chooses its request, from the first one on. Of those that wait for locks so
 * many as fill a batch, or one that takes no others along: all but the first of those are left for
 * a round of their own. Its answer may change what is due, and the others' time may end meanwhile
 * (P8). Returns how many have a request. */
static int together_choose(struct together *t, size_t first, int64_t now)
{
    int n = 0;

    for (size_t i = 0; i < t->n; i++) {
        struct member *member = &t->members[(first + i) % t->n];
        sqlock_op *op = member->op;

        op->behind = t->has_waited && !op->once;
        member->has_request = !op_end_if_over(op, now) && (i == 0 || together_may_join(op)) &&
                              now >= op->next_at && op_choose(op, now, &member->attempt);
        if (!member->has_request)
            continue;
        op_offer(op, now);
        list_append(&t->company, &op->attempt->in_company);
        n++;
        if (op_waits(op) && (!op->attempt->joins || n >= batch_most))
            break;
    }
    return n;
}

/* Who has most time leads: it takes the others along, and none of them can wait longer than it. */
static size_t together_leader(const struct together *t)
{
    const struct member *members = t->members;
    size_t best = t->n;

    for (size_t i = 0; i < t->n; i++)
        if (members[i].has_request &&
            (best == t->n || members[i].op->attempt->until > members[best].op->attempt->until))
            best = i;
    return best;
}

/* A long list that gives its locks back goes on while it is answered: what is left would stand for
 * its lease. So the time of each one begins with its first request. */
static void together_extend(const struct together *t, sqlock_op *op, int64_t now)
{
    if (t->answered && op->tries == 0 && !op_waits(op))
        op->deadline = time_max(op->deadline, time_min(now + t->m->request_us, t->end));
}

/* Who waits for this lock gets it before the next one is given back. */
static void together_go_on(struct together *t, struct member *member)
{
    sqlock_op *op = member->op;
    int64_t now;

    while (!op->done && !op_waits(op) && op->next_at <= (now = sqlock_now_us())) {
        if (op_end_if_over(op, now) || !op_choose(op, now, &member->attempt))
            return;
        t->answered = op_request(op, now);
    }
}

/* Send the member's request, with those that may go along. Or take its answer. */
static void together_request(struct together *t, size_t i, int64_t now)
{
    struct member *member = &t->members[i];
    sqlock_op *op = member->op;
    const int waits = op_waits(op);
    int answered;

    list_remove(&op->attempt->in_company);
    member->has_request = 0;
    t->has_waited |= waits;
    together_extend(t, op, now);
    answered = op_request(op, now);
    if (waits)
        return;
    t->answered = answered;
    together_go_on(t, member);
}

static void together_round(struct together *t, size_t first, int64_t now)
{
    int n = together_choose(t, first, now);

    if (n == 0)
        return;
    together_request(t, together_leader(t), now);
    for (size_t i = 0; n > 1 && i < t->n; i++)
        if (t->members[i].has_request)
            together_request(t, i, sqlock_now_us());
    assert(list_is_empty(&t->company));
}

static struct together *together_new(sqlock_op *const *ops, size_t n)
{
    struct together *t = sqlock_mem_alloc(sizeof *t + n * sizeof t->members[0]);

    if (t == NULL)
        return NULL;
    t->m = ops[0]->m;
    t->n = n;
    t->end = ops[0]->begun + t->m->request_us * (1 + (int64_t)n / NAMES_IN_TIME);
    list_init(&t->company);
    cond_init(&t->wake);
    for (size_t i = 0; i < n; i++) {
        assert(ops[i]->m == t->m && !ops[i]->async);
        t->members[i].op = ops[i];
        ops[i]->company = &t->company;
        ops[i]->wake = &t->wake;
    }
    return t;
}

/* Without memory, one after the other. */
static void together_drive(sqlock_op *const *ops, size_t n)
{
    struct together *t = n > 1 ? together_new(ops, n) : NULL;
    size_t first;

    for (size_t i = 0; t == NULL && i < n; i++)
        op_drive_alone(ops[i]);
    if (t == NULL)
        return;
    while ((first = together_first(t)) < n) {
        int64_t due = together_due(ops[first]), now = sqlock_now_us();

        if (now < due)
            cond_wait_until(&t->wake, &t->m->mu, due);
        else
            together_round(t, first, now);
    }
    for (size_t i = 0; i < n; i++)
        ops[i]->wake = NULL;
    cond_free(&t->wake);
    sqlock_mem_free(t);
}

void ops_drive_together(sqlock_op *const *ops, size_t n)
{
    sqlock *m = ops[0]->m;

    mutex_lock(&m->mu); /* so that no step begins between two of them */
    for (size_t i = 0; m->loop != NULL && i < n; i++)
        op_leave_to_steps(ops[i]);
    if (m->loop == NULL)
        together_drive(ops, n);
    mutex_unlock(&m->mu);
}
