/* Many requests in one: a leader sends, and followers wait for their answers. */
#include <assert.h>

#include "core/engine/batch_parts.h"
#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/sql/requests.h"
#include "core/sql/rows.h"

void batch_free(struct batch *b)
{
    rows_end(&b->rows);
    sqlock_mem_free(b);
}

size_t batch_size(const struct batch *b)
{
    return b != NULL ? b->n : 1;
}

/* It still wants its answer. */
static int batch_wants(const sqlock_op *op, int64_t now)
{
    return op != NULL && !op->end_attempt && now < op->attempt->until;
}

/* Who leads when the leader leaves: of those whose threads wait for their answers, the one that can
 * wait longest. */
static sqlock_op *batch_heir(const struct batch *b, int64_t now)
{
    sqlock_op *best = NULL;

    for (size_t i = 0; i < b->n; i++) {
        sqlock_op *op = b->members[i].op;

        if (op != b->leader && batch_wants(op, now) && !op->attempt->taken_along &&
            (best == NULL || op->attempt->until > best->attempt->until))
            best = op;
    }
    return best;
}

static unsigned batch_doubt(const sqlock_op *op)
{
    return request_doubt(op->attempt->request.stmt);
}

/* The request may have been applied. Its answer, if one comes, finds no one. */
static int batch_leave(struct batch *b, sqlock_op *op)
{
    assert(b->members[op->attempt->place].op == op);
    b->members[op->attempt->place].op = NULL;
    op->attempt->batch = NULL;
    if (op->m->stopping || op->end_attempt)
        return op_error_set(op, SQLOCK_ECANCELLED, batch_doubt(op), "cancelled");
    return op_error_set(op, SQLOCK_ETIMEOUT, SQLOCK_RETRY | batch_doubt(op),
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
        cond_wake_all(heir->wake);
    }
    return heir != NULL;
}

struct batch *batch_take_lead(sqlock_op *op, struct conn **out_conn)
{
    struct batch *b = op->attempt->batch;

    assert(mutex_is_mine(&op->m->mu) && b->leader == op && b->conn->busy);
    op->attempt->batch = NULL;
    op->stale = b->conn->used;
    *out_conn = b->conn;
    return b;
}

int batch_send(struct batch *b, struct conn *c, sqlock_op *leader, struct call *k,
               sqlock_error *err)
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
    else if ((rc = call_enter(m, c, leader, k, err)) != 0)
        return rc;
    rc = call_wait(m, c, k, err);
    b->sent = k->sent;
    if (rc == SQLOCK_NOT_YET) {
        if (batch_hand_over(b, c, leader))
            return BATCH_LEFT;
        k->flags = 0;
        rc = call_wait(m, c, k, err);
    }
    return call_leave(m, c, leader, k, rc, err);
}

/* The batch as a whole has failed and was not applied, and the same would happen again: one of the
 * requests may be the cause. */
static int batch_is_poisoned(const struct kept_error *err)
{
    return err->code != SQLOCK_ECANCELLED &&
           !(err->flags & (SQLOCK_MAYBE | SQLOCK_RETRY | SQLOCK_RECONNECT));
}

/* The failure of one who did not cause it. A cancel was the leader's, and the call did not
 * pause. */
static int batch_fail_follower(sqlock_op *op, const struct kept_error *err)
{
    op->alone = (err->flags & SQLOCK_MAYBE) != 0; /* it may have ended the session */
    if (err->code == SQLOCK_ECANCELLED && !op->m->stopping)
        return op_error_set(op, SQLOCK_ETIMEOUT, err->flags | SQLOCK_RETRY,
                            "a request in the same batch was cancelled");
    error_share(&op->err, err);
    return err->code;
}

/* Who was cancelled has left, even if its thread has not noticed yet. */
static int batch_unless_cancelled(sqlock_op *op, int result)
{
    return result == 0 && op->end_attempt
               ? op_error_set(op, SQLOCK_ECANCELLED, batch_doubt(op), "cancelled")
               : result;
}

/* m->mu is held. */
static void batch_end_follower(sqlock_op *op, const struct conn *c, int result,
                               const struct kept_error *err, const struct answer *times)
{
    assert(op->attempt->batch != NULL);
    op->attempt->answer.sent = times->sent;
    op->attempt->answer.received = times->received;
    op->server = c->server;
    op->stale = c->used;
    op->attempt->answered =
        result < 0 ? batch_fail_follower(op, err) : batch_unless_cancelled(op, result);
    op->attempt->batch = NULL;
    cond_wake_all(op->wake);
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
            answer_read(rows, row,
                        b->members[i].op == b->leader ? a : &b->members[i].op->attempt->answer);
    }
}

/* What became of one member's request: 0, the code of a failure, or BATCH_ALONE. */
static int batch_result(const struct batch *b, size_t i, int rc, const struct kept_error *err)
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
    result =
        batch_unless_cancelled(leader, batch_result(b, leader->attempt->place, rc, &leader->err));
    leader->alone = rc != 0 && (leader->err.flags & SQLOCK_MAYBE); /* as the others */
    batch_free(b);
    return result;
}

int batch_await(sqlock_op *op)
{
    sqlock *m = op->m;

    assert(mutex_is_mine(&m->mu));
    op->attempt->taken_along = 0;
    while (op->attempt->batch != NULL) {
        if (op->attempt->batch->leader == op)
            return BATCH_LEADS;
        if (m->stopping || op->end_attempt || sqlock_now_us() >= op->attempt->until)
            return batch_leave(op->attempt->batch, op);
        cond_wait_until(op->wake, &m->mu, op->attempt->until);
    }
    return op->attempt->answered;
}
