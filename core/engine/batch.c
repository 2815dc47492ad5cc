/* Many requests in one: a leader sends, and followers wait for their answers. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/batch.h"
#include "core/engine/locks.h"
#include "core/engine/pool.h"
#include "core/sql/requests.h"
#include "core/sql/rows.h"

#define PASS_ON_FACTOR 2 /* a successor has so many times the leader's time */
#define KINDS_MAX      8 /* of requests that may join */

int batch_most = 256;

struct batch_member {
    sqlock_op *op;     /* NULL: it has left */
    sqlock_lock *lock; /* the values point into it */
    size_t order;      /* of coming; the first leader is 0 */
    int answered;
};

struct batch {
    sqlock_op *leader;
    struct conn *conn; /* that it left to the next one */
    int64_t sent;      /* 0: not sent yet */
    sqlock_rows rows;
    size_t n, n_groups;
    sqlock_group groups[KINDS_MAX]; /* of the members, in their order */
    sqlock_value *values;
    struct batch_member members[];
};

int batch_may_join(const sqlock_op *op)
{
    const sqlock *m = op->m;
    sqlock_stmt stmt = op->request.stmt;

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
    sqlock_stmt k = x->op->request.stmt, l = y->op->request.stmt;

    return k != l ? (k > l ? -1 : 1) : batch_by_name(a, b);
}

static int batch_is_same_name(const struct batch_member *x, const struct batch_member *y)
{
    return lock_order(x->lock, y->lock) == 0;
}

static size_t batch_n_params(const sqlock_op *op)
{
    return texts_scripts(op->m->texts)[op->request.stmt].n_params;
}

/* Who was cancelled or is out of time has just not noticed yet: its request must not go out any
 * more. */
static int batch_is_ready(const sqlock_op *op, int64_t now)
{
    return op->joins && !op->end_attempt && now < op->until;
}

static int batch_is_of_kind(const sqlock_op *op, const sqlock_op *leader)
{
    return op->request.stmt == leader->request.stmt;
}

static int batch_may_go_along(const sqlock_op *op, const sqlock_op *leader, int64_t now)
{
    return batch_is_ready(op, now) &&
           (batch_is_of_kind(op, leader) ||
            (!leader->like && (op->m->driver->caps & SQLOCK_CAP_GROUPS)));
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

static void batch_free(struct batch *b)
{
    rows_end(&b->rows);
    sqlock_mem_free(b);
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
        sqlock_op *companion = LIST_MEMBER(at, sqlock_op, in_company);

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
        else if (g->leader->like)
            op->passed = 1;
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

        if (i == 0 || b->groups[b->n_groups - 1].stmt != op->request.stmt) {
            assert(b->n_groups < KINDS_MAX);
            b->groups[b->n_groups++] = (sqlock_group){op->request.stmt, values, 0};
        }
        b->groups[b->n_groups - 1].n++;
        memcpy(values, op->request.values, n_params * sizeof *values);
        values += n_params;
    }
}

static void batch_join(struct batch *b, sqlock_op *leader)
{
    batch_group(b);
    for (size_t i = 0; i < b->n; i++) {
        sqlock_op *op = b->members[i].op;

        op->place = i;
        b->members[i].lock->refs++; /* the member may leave, and its handle be freed */
        if (op == leader)
            continue;
        assert(op->batch == NULL && op->answer != NULL);
        op->batch = b;
        if (op->waiter != NULL) {
            op->waiter->joined = 1;
            list_remove(&op->waiter->in_manager);
        } else {
            op->taken_along = 1;
            list_remove(&op->in_company);
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

size_t batch_size(const struct batch *b)
{
    return b != NULL ? b->n : 1;
}

/* It still wants its answer. */
static int batch_wants(const sqlock_op *op, int64_t now)
{
    return op != NULL && !op->end_attempt && now < op->until;
}

/* Who leads when the leader leaves: of those whose threads wait for their answers, the one that can
 * wait longest. */
static sqlock_op *batch_heir(const struct batch *b, int64_t now)
{
    sqlock_op *best = NULL;

    for (size_t i = 0; i < b->n; i++) {
        sqlock_op *op = b->members[i].op;

        if (op != b->leader && batch_wants(op, now) && !op->taken_along &&
            (best == NULL || op->until > best->until))
            best = op;
    }
    return best;
}

/* The request may have been applied. Its answer, if one comes, finds no one. */
static int batch_leave(struct batch *b, sqlock_op *op)
{
    assert(b->members[op->place].op == op);
    b->members[op->place].op = NULL;
    op->batch = NULL;
    if (op->m->stopping || op->end_attempt)
        return sqlock_error_set(&op->err, SQLOCK_ECANCELLED, request_doubt(op->request.stmt),
                                "cancelled");
    return sqlock_error_set(&op->err, SQLOCK_ETIMEOUT,
                            SQLOCK_RETRY | request_doubt(op->request.stmt),
                            "the database did not answer in time");
}

/* The call pauses. If only the leader has no more time for it, another member's thread goes on: the
 * others' answers are still to come (P25). Returns 1 if the leader has left b and c to it. */
static int batch_hand_over(struct batch *b, struct conn *c, sqlock_op *leader)
{
    sqlock *m = leader->m;
    int64_t now = sqlock_now_us();
    sqlock_op *heir = NULL;

    assert(mutex_is_mine(&m->mu) && b->leader == leader);
    if (!batch_wants(leader, now) && !m->stopping)
        heir = batch_heir(b, now);
    if (heir != NULL) {
        call_stop(c, leader);
        batch_leave(b, leader);
        b->conn = c;
        b->leader = heir;
        cond_wake_all(&heir->wake);
    }
    return heir != NULL;
}

struct batch *batch_take_lead(sqlock_op *op, struct conn **out_conn)
{
    struct batch *b = op->batch;

    assert(mutex_is_mine(&op->m->mu) && b->leader == op && b->conn->busy);
    op->batch = NULL;
    op->stale = b->conn->used;
    *out_conn = b->conn;
    return b;
}

int batch_send(struct batch *b, struct conn *c, sqlock_op *leader, struct call *k)
{
    sqlock *m = leader->m;
    const sqlock_group *g = b->groups;
    int rc = 0;

    *k = (struct call){.stmt = g->stmt,
                       .values = g->values,
                       .n = g->n,
                       .deadline = k->deadline,
                       .sent = b->sent,
                       .rows = &b->rows,
                       .more = g + 1,
                       .n_more = b->n_groups - 1};
    if (m->driver->caps & SQLOCK_CAP_PAUSES)
        k->flags = SQLOCK_CALL_PAUSES;
    if (b->sent != 0)
        call_take_over(m, c, leader);
    else if ((rc = call_enter(m, c, leader, k, &leader->err)) != 0)
        return rc;
    rc = call_wait(m, c, k, &leader->err);
    b->sent = k->sent;
    if (rc == SQLOCK_NOT_YET) {
        if (batch_hand_over(b, c, leader))
            return BATCH_LEFT;
        k->flags = 0;
        rc = call_wait(m, c, k, &leader->err);
    }
    return call_leave(m, c, leader, k, rc, &leader->err);
}

/* The batch as a whole has failed and was not applied, and the same would happen again: one of the
 * requests may be the cause. */
static int batch_is_poisoned(const sqlock_error *err)
{
    return err->code != SQLOCK_ECANCELLED &&
           !(err->flags & (SQLOCK_MAYBE | SQLOCK_RETRY | SQLOCK_RECONNECT));
}

/* The failure of one who did not cause it. A cancel was the leader's, and the call did not
 * pause. */
static int batch_fail_follower(sqlock_op *op, const sqlock_error *err)
{
    op->alone = (err->flags & SQLOCK_MAYBE) != 0; /* it may have ended the session */
    if (err->code == SQLOCK_ECANCELLED && !op->m->stopping)
        return sqlock_error_set(&op->err, SQLOCK_ETIMEOUT, err->flags | SQLOCK_RETRY,
                                "a request in the same batch was cancelled");
    op->err = *err;
    return err->code;
}

/* Who was cancelled has left, even if its thread has not noticed yet. */
static int batch_unless_cancelled(sqlock_op *op, int result)
{
    return result == 0 && op->end_attempt
               ? sqlock_error_set(&op->err, SQLOCK_ECANCELLED, request_doubt(op->request.stmt),
                                  "cancelled")
               : result;
}

/* m->mu is held. */
static void batch_end_follower(sqlock_op *op, const struct conn *c, int result,
                               const sqlock_error *err, const struct answer *times)
{
    assert(op->batch != NULL);
    op->answer->sent = times->sent;
    op->answer->received = times->received;
    op->server = c->server;
    op->stale = c->used;
    op->answered = result < 0 ? batch_fail_follower(op, err) : batch_unless_cancelled(op, result);
    op->batch = NULL;
    cond_wake_all(&op->wake);
}

/* Row by row: whose is it? */
static void batch_read(struct batch *b, struct answer *a)
{
    const sqlock_rows *rows = &b->rows;

    for (size_t row = 0; row < sqlock_rows_count(rows); row++) {
        size_t i = rows_request(rows, row);

        if (i >= b->n)
            continue;
        b->members[i].answered = 1;
        if (b->members[i].op != NULL)
            answer_read(rows, row, b->members[i].op == b->leader ? a : b->members[i].op->answer);
    }
}

/* What became of one member's request: 0, the code of a failure, or BATCH_ALONE. */
static int batch_result(const struct batch *b, size_t i, int rc, const sqlock_error *err)
{
    if (rc != 0)
        return batch_is_poisoned(err) ? BATCH_ALONE : rc;
    return b->members[i].answered ? 0 : BATCH_ALONE;
}

int batch_answer(struct batch *b, const struct conn *c, int rc, struct answer *a)
{
    sqlock_op *leader = b->leader;
    int result;

    assert(mutex_is_mine(&leader->m->mu));
    if (rc == 0)
        batch_read(b, a);
    for (size_t i = 0; i < b->n; i++) {
        struct batch_member *member = &b->members[i];

        if (member->op != NULL && member->op != leader)
            batch_end_follower(member->op, c, batch_result(b, i, rc, &leader->err), &leader->err,
                               a);
        lock_unref_locked(member->lock);
    }
    result = batch_unless_cancelled(leader, batch_result(b, leader->place, rc, &leader->err));
    leader->alone = rc != 0 && (leader->err.flags & SQLOCK_MAYBE); /* as the others */
    batch_free(b);
    return result;
}

int batch_await(sqlock_op *op)
{
    sqlock *m = op->m;

    assert(mutex_is_mine(&m->mu));
    op->taken_along = 0;
    while (op->batch != NULL) {
        if (op->batch->leader == op)
            return BATCH_LEADS;
        if (m->stopping || op->end_attempt || sqlock_now_us() >= op->until)
            return batch_leave(op->batch, op);
        cond_wait_until(&op->wake, &m->mu, op->until);
    }
    return op->answered;
}

/* Of those whose requests could go with the leader's, the one that can wait longest. */
static struct pool_waiter *batch_successor(sqlock_op *leader, int64_t now)
{
    sqlock_op *best = NULL;

    LIST_EACH(at, &leader->m->waiting)
    {
        sqlock_op *op = batch_waiting_op(at, now);

        if (op != NULL && batch_may_go_along(op, leader, now) &&
            (best == NULL || op->until > best->until))
            best = op;
    }
    return best != NULL ? best->waiter : NULL;
}

int batch_pass_on(sqlock_op *leader, struct conn *c)
{
    struct pool_waiter *next;
    int64_t now;

    if (list_is_empty(&leader->m->waiting) || !batch_may_join(leader))
        return 0;
    now = sqlock_now_us();
    next = batch_successor(leader, now);
    if (next == NULL || next->op->until - now <= PASS_ON_FACTOR * (leader->until - now))
        return 0;
    pool_hand_over(next, c);
    return 1;
}
