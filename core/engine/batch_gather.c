/* Whose requests go with a leader's in one batch, and in which order. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/batch_parts.h"
#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/sql/requests.h"

#define PASS_ON_FACTOR 2 /* a successor has so many times the leader's time */

int batch_most = 256;

int batch_may_join(const sqlock_op *op)
{
    const sqlock *m = op->m;
    sqlock_stmt stmt = op->attempt->request.stmt;

    assert(mutex_is_mine(&m->mu));
    return batch_most > 1 && !op->alone && !op->needs_handshake &&
           request_is(stmt, SQLOCK_REQ_JOINS) &&
           ((m->driver->caps & SQLOCK_CAP_BATCH) ||
            texts_scripts(m->texts)[stmt].n_array_steps > 0);
}

/* By key. Of one name, who came first. */
static int batch_by_name(const void *a, const void *b)
{
    const struct batch_member *x = a, *y = b;
    int order = lock_order(x->lock, y->lock);

    return order != 0 ? order : x->order < y->order ? -1 : 1;
}

/* Acquires stand before all others in the table of requests. Here they come last. Within a kind by
 * key, so that all batches lock rows in the same order. */
static int batch_by_kind(const void *a, const void *b)
{
    const struct batch_member *x = a, *y = b;
    sqlock_stmt k = x->op->attempt->request.stmt, l = y->op->attempt->request.stmt;

    return k != l ? (k > l ? -1 : 1) : batch_by_name(a, b);
}

static int batch_is_same_name(const struct batch_member *x, const struct batch_member *y)
{
    return lock_order(x->lock, y->lock) == 0;
}

static size_t batch_n_params(const sqlock_op *op)
{
    return texts_scripts(op->m->texts)[op->attempt->request.stmt].n_params;
}

/* Who was cancelled or is out of time has just not noticed yet: its request must not go out any
 * more. */
static int batch_is_ready(const sqlock_op *op, int64_t now)
{
    return op->attempt->joins && !op->end_attempt && now < op->attempt->until;
}

static int batch_is_of_kind(const sqlock_op *op, const sqlock_op *leader)
{
    return op->attempt->request.stmt == leader->attempt->request.stmt;
}

static int batch_may_go_along(const sqlock_op *op, const sqlock_op *leader, int64_t now)
{
    return batch_is_ready(op, now) &&
           (batch_is_of_kind(op, leader) ||
            (!leader->attempt->like && (op->m->driver->caps & SQLOCK_CAP_GROUPS)));
}

/* Who waits for the reserved connection is not ready to send. */
static sqlock_op *batch_waiting_op(struct link *at, int64_t now)
{
    struct pool_waiter *w = LIST_MEMBER(at, struct pool_waiter, in_manager);

    return w->use != POOL_RESERVED && now < w->deadline ? w->op : NULL;
}

/* Those that go along with a leader. The first pass counts them, and the second one finds the same
 * ones. */
struct gathering {
    sqlock_op *leader;
    int64_t now;
    size_t n, n_values;
    struct batch *into; /* NULL: count */
};

/* values follow the members. */
static struct batch *batch_new(size_t n, size_t n_values)
{
    size_t head = sizeof(struct batch) + n * sizeof(struct batch_member);
    struct batch *b = sqlock_mem_alloc(head + n_values * sizeof(sqlock_value));

    if (b == NULL)
        return NULL;
    rows_init(&b->rows);
    b->values = (sqlock_value *)(void *)((char *)b + head);
    return b;
}

static void batch_add(struct batch *b, sqlock_op *op)
{
    b->members[b->n] = (struct batch_member){op, op->lock, b->n, 0};
    b->n++;
}

static void batch_gather_one(struct gathering *g, sqlock_op *op)
{
    if (g->n >= (size_t)batch_most)
        return;
    g->n++;
    g->n_values += batch_n_params(op);
    if (g->into != NULL)
        batch_add(g->into, op);
}

/* op's companions. */
static void batch_gather_company(struct gathering *g, const sqlock_op *op)
{
    if (op->company == NULL)
        return;
    LIST_EACH(at, op->company)
    {
        sqlock_op *companion = LIST_MEMBER(at, struct attempt, in_company)->op;

        if (batch_may_go_along(companion, g->leader, g->now))
            batch_gather_one(g, companion);
    }
}

static void batch_gather(struct gathering *g)
{
    batch_gather_one(g, g->leader);
    batch_gather_company(g, g->leader);
    LIST_EACH(at, &g->leader->m->waiting)
    {
        sqlock_op *op = batch_waiting_op(at, g->now);

        if (op == NULL)
            continue;
        if (batch_may_go_along(op, g->leader, g->now))
            batch_gather_one(g, op);
        else if (g->leader->attempt->like)
            op->attempt->passed = 1;
        batch_gather_company(g, op);
    }
}

/* Later requests for a name stay behind. */
static void batch_keep_each_name_once(struct batch *b)
{
    size_t kept = 1;

    qsort(b->members, b->n, sizeof *b->members, batch_by_name);
    for (size_t i = 1; i < b->n; i++)
        if (!batch_is_same_name(&b->members[kept - 1], &b->members[i]))
            b->members[kept++] = b->members[i];
    b->n = kept;
}

/* A group for each kind, with the values of its members. */
static void batch_group(struct batch *b)
{
    sqlock_value *values = b->values;

    qsort(b->members, b->n, sizeof *b->members, batch_by_kind);
    for (size_t i = 0; i < b->n; i++) {
        const sqlock_op *op = b->members[i].op;
        size_t n_params = batch_n_params(op);

        if (i == 0 || b->groups[b->n_groups - 1].stmt != op->attempt->request.stmt) {
            assert(b->n_groups < KINDS_MAX);
            b->groups[b->n_groups++] = (sqlock_group){op->attempt->request.stmt, values, 0};
        }
        b->groups[b->n_groups - 1].n++;
        memcpy(values, op->attempt->request.values, n_params * sizeof *values);
        values += n_params;
    }
}

static void batch_join(struct batch *b, sqlock_op *leader)
{
    batch_group(b);
    for (size_t i = 0; i < b->n; i++) {
        sqlock_op *op = b->members[i].op;

        op->attempt->place = i;
        b->members[i].lock->refs++; /* the member may leave, and its handle be freed */
        if (op == leader)
            continue;
        assert(op->attempt->batch == NULL);
        op->attempt->batch = b;
        if (op->attempt->waiter != NULL) {
            op->attempt->waiter->joined = 1;
            list_remove(&op->attempt->waiter->in_manager);
        } else {
            op->attempt->taken_along = 1;
            list_remove(&op->attempt->in_company);
        }
    }
    b->leader = leader;
}

struct batch *batch_collect(sqlock_op *leader)
{
    struct gathering g;
    struct batch *b;

    if ((leader->company == NULL && list_is_empty(&leader->m->waiting)) || !batch_may_join(leader))
        return NULL;
    g = (struct gathering){leader, sqlock_now_us(), 0, 0, NULL};
    batch_gather(&g);
    if (g.n <= 1 || (b = batch_new(g.n, g.n_values)) == NULL)
        return NULL;
    g = (struct gathering){leader, g.now, 0, 0, b};
    batch_gather(&g);
    batch_keep_each_name_once(b);
    if (b->n > 1) {
        batch_join(b, leader);
        return b;
    }
    batch_free(b);
    return NULL;
}

/* Of those whose requests could go with the leader's, the one that can wait longest. */
static struct pool_waiter *batch_successor(sqlock_op *leader, int64_t now)
{
    sqlock_op *best = NULL;

    LIST_EACH(at, &leader->m->waiting)
    {
        sqlock_op *op = batch_waiting_op(at, now);

        if (op != NULL && batch_may_go_along(op, leader, now) &&
            (best == NULL || op->attempt->until > best->attempt->until))
            best = op;
    }
    return best != NULL ? best->attempt->waiter : NULL;
}

int batch_pass_on(sqlock_op *leader, struct conn *c)
{
    struct pool_waiter *next;
    int64_t now;

    if (list_is_empty(&leader->m->waiting) || !batch_may_join(leader))
        return 0;
    now = sqlock_now_us();
    next = batch_successor(leader, now);
    if (next == NULL ||
        next->op->attempt->until - now <= PASS_ON_FACTOR * (leader->attempt->until - now))
        return 0;
    pool_hand_over(next, c);
    return 1;
}
