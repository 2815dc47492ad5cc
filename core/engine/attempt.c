/* One attempt of an op: its time, its connection, the request itself, and what a missing answer
 * says about the connection and its server. */
#include <assert.h>

#include "core/engine/batch.h"
#include "core/engine/handshake.h"
#include "core/engine/hold.h"
#include "core/engine/hosts.h"
#include "core/engine/locks.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"
#include "core/engine/server.h"
#include "core/sql/requests.h"

#define ROOM_LEAST_US  5000  /* time for one more attempt, if a late one does no harm */
#define ROOM_US        50000 /* ... and if a missing answer would spoil the last answer */
#define GRACE_US       50000 /* past the end of a wait, to receive an answer under way */
#define ASYNC_LEAST_US 50000 /* an attempt on the worker thread lasts at least so long */
#define OFFER_US       (LOCK_TURN_US / 2) /* what may use up an offer, lasts so long at most */

/* Twice the time that answers took of late. m->round belongs to the manager, because a first
 * attempt has no time of its own. */
static int64_t attempt_two_rounds(const sqlock_op *op)
{
    return 2 * op->m->round;
}

/* A wait that learned of a holder has its answer. If another attempt is under way when time is up,
 * that answer becomes EUNSURE. So the attempt is made only with time to spare: for an answer, and
 * for delays of a busy machine. A short wait spares a quarter of its time, or half where answers
 * are slow. A slow answer leaves no time for a second attempt anyway. */
int64_t op_last_try(const sqlock_op *op)
{
    int64_t wait = op->deadline - op->begun;

    if (op->deadline == TIME_NEVER)
        return TIME_NEVER;
    if (op->unsure || op->settle)
        return op->deadline - ROOM_LEAST_US;
    return op->deadline -
           time_max(time_min(ROOM_US, wait / 4), time_min(attempt_two_rounds(op), wait / 2));
}

int op_waits(const sqlock_op *op)
{
    return op->lock->pending == PENDING_ACQUIRE && !op->settle;
}

/* Until when an attempt may go on. A wait that was sent in time may receive its answer a little
 * late. That does no harm, because the server grants nothing after the wait's end. A locked file is
 * an exception: no answer is under way from it. */
static int64_t attempt_end(const sqlock_op *op, int64_t now)
{
    int late =
        op_waits(op) && !op->once && op->deadline != TIME_NEVER && !manager_has_one_writer(op->m);

    return late ? time_max(op->deadline, now) + GRACE_US : op->deadline;
}

/* The lock is offered for about a second. A request that takes it up goes out again before, perhaps
 * over another connection, if there is no answer: unless answers are as slow as that. */
static int64_t attempt_in_an_offer(const sqlock *m)
{
    return time_max(OFFER_US, 4 * m->round);
}

/* An attempt on the worker thread must not delay the renewals, nor those whom the worker is to
 * call. */
static int64_t attempt_async_limit(sqlock *m, int64_t now)
{
    int64_t most = time_min(m->request_us, renewals_left(m, now) / 4);

    if (!list_is_empty(&m->queue.places))
        most = time_min(most, attempt_in_an_offer(m));
    return now + time_max(most, ASYNC_LEAST_US);
}

/* What an attempt needs of values that the mutex guards. */
struct plan {
    int64_t deadline, connected; /* until when it may go on, and until when it needs a connection */
    enum pool_use use;
};

static void attempt_plan(const sqlock_op *op, int64_t now, struct plan *p)
{
    sqlock *m = op->m;
    int waits = op_waits(op);

    p->deadline = time_min(attempt_end(op, now), now + m->request_us);
    if (op->async && m->loop == NULL)
        p->deadline = time_min(p->deadline, attempt_async_limit(m, now));
    if (op->attempt->request.flags & SQLOCK_CALL_LIKELY)
        p->deadline = time_min(p->deadline, now + attempt_in_an_offer(m));
    p->connected = time_min(p->deadline, op->refused && waits ? op_last_try(op) : op->deadline);
    p->use = waits || op->patient ? POOL_CALLS : POOL_URGENT;
}

/* With the mutex, which is released meanwhile. Returns POOL_JOINED if the request went into another
 * op's batch. */
static int attempt_connect(sqlock_op *op, const struct plan *p, struct conn **out)
{
    sqlock *m = op->m;
    sqlock_error err;
    int rc;

    assert(op->lock->m == m);
    error_clear(&err);
    rc = pool_take(m, p->use, op, p->connected, out, &err);
    if (rc == POOL_JOINED)
        return rc;
    if (rc == 0) {
        op->stale = (*out)->used;
        if ((*out)->schema < request_kind(op->attempt->request.stmt)->since)
            rc = handshake_serves(m, *out, op, op->attempt->request.stmt,
                                  time_min(p->connected, (*out)->until), &err);
        if (rc != 0)
            pool_give(m, *out, err.flags & SQLOCK_RECONNECT);
    }
    if (rc == SQLOCK_ETIMEOUT)
        err.flags |= SQLOCK_RETRY;
    if (rc != 0)
        error_keep(&op->err, &err);
    return rc;
}

/* A call that was cancelled for the sake of another request counts as late, not as cancelled: it
 * may go on. */
static int attempt_cancelled(sqlock_op *op, int rc)
{
    if (rc != SQLOCK_ECANCELLED || !op->end_attempt || op->cancelled)
        return rc;
    return op_error_set(op, SQLOCK_ETIMEOUT, op->err.flags | SQLOCK_RETRY,
                        "the database did not answer, and other requests waited");
}

/* Send the request over c, alone or in the batch b, or go on with b. With the mutex, which is
 * released meanwhile. Returns BATCH_LEFT if c belongs to another then. */
static int attempt_send(sqlock_op *op, const struct plan *p, struct conn *c, struct batch *b,
                        sqlock_rows *rows, struct answer *a)
{
    sqlock *m = op->m;
    const struct request *r = &op->attempt->request;
    struct call k = {
        .stmt = r->stmt, .values = r->values, .n = r->n, .rows = rows, .flags = r->flags};
    sqlock_error err;
    int rc;

    error_clear(&err);
    k.deadline = time_min(p->deadline, c->until);
    if (m->n_hosts > 1)
        k.deadline = hosts_room(m, sqlock_now_us(), k.deadline);
    rc = b != NULL ? batch_send(b, c, op, &k, &err) : call_run(m, c, op, &k, &err);
    assert(op->running == NULL);
    if (rc == BATCH_LEFT)
        return rc;
    if (rc != 0)
        error_keep(&op->err, &err);
    a->sent = k.sent;
    a->received = k.received;
    if (rc != 0 && c->until != TIME_NEVER)
        op->patient = 1;
    hold_answered(m, batch_size(b), k.received - k.sent);
    if (b != NULL)
        return batch_answer(b, c, rc, a);
    answer_read(rows, 0, a);
    return rc;
}

/* The same, and give c back. */
static int attempt_finish(sqlock_op *op, const struct plan *p, struct conn *c, struct batch *b,
                          sqlock_rows *rows, struct answer *a)
{
    int rc = attempt_send(op, p, c, b, rows, a);

    if (rc == BATCH_LEFT)
        return op->err.code;
    pool_give(op->m, c, rc != 0 && (op->err.flags & SQLOCK_RECONNECT));
    return rc;
}

/* Others may go along who will be ready in a moment. With the mutex, which is released meanwhile.
 */
static void attempt_let_others(sqlock_op *op, const struct conn *c)
{
    if (op->m->loop != NULL)
        loop_let_others(op->m);
    else
        hold_back(op, c);
}

/* Another server was found while c was made ready, or was held back: nothing has been sent. With
 * the mutex, which is released meanwhile. */
static int attempt_moved(sqlock_op *op, struct conn *c)
{
    pool_give(op->m, c, 1);
    return op_error_set(op, SQLOCK_EUNREACH, SQLOCK_RETRY,
                        "another server took over before the request");
}

/* With the mutex, which is released meanwhile. */
static int attempt_once(sqlock_op *op, const struct plan *p, sqlock_rows *rows, struct answer *a)
{
    struct batch *b;
    struct conn *c;
    int rc = POOL_JOINED;

    if (!op->attempt->taken_along) /* by another op */
        do
            rc = attempt_connect(op, p, &c);
        while (rc == 0 && batch_pass_on(op, c));
    if (rc == 0) {
        if (op->attempt->joins)
            attempt_let_others(op, c);
        if (!server_is_ours(op->m, c))
            return attempt_moved(op, c);
        b = op->end_attempt ? NULL : batch_collect(op);
    } else {
        if (rc == POOL_JOINED)
            rc = batch_await(op);
        if (rc != BATCH_LEADS)
            return rc;
        b = batch_take_lead(op, &c);
    }
    return attempt_finish(op, p, c, b, rows, a);
}

static void attempt_begin(sqlock_op *op, int64_t now, struct plan *p)
{
    struct attempt *at = op->attempt;

    answer_clear(&at->answer);
    error_forget(&op->err);
    op->stale = false;
    at->like = at->passed = 0;
    at->answer.received = at->answer.sent = now;
    attempt_plan(op, now, p);
    at->until = p->deadline;
    at->joins = batch_may_join(op);
}

void op_offer(sqlock_op *op, int64_t now)
{
    struct plan p;

    assert(!op->attempt->taken_along && op->attempt->batch == NULL);
    attempt_begin(op, now, &p);
}

/* m->round: a slow answer counts for less and less. */
int op_attempt(sqlock_op *op, int64_t now, sqlock_rows *rows)
{
    sqlock *m = op->m;
    struct answer *out = &op->attempt->answer;
    struct plan p = {.deadline = op->attempt->until};
    int64_t server;
    int rc;

    assert(!op->done && op->running == NULL && op->connecting == NULL);
    assert(op->attempt->batch == NULL || op->attempt->taken_along);
    op->tries++;
    rows = op->attempt->request.rows != NULL ? op->attempt->request.rows : rows;
    for (;; now = sqlock_now_us()) {
        if (!op->attempt->taken_along)
            attempt_begin(op, now, &p);
        out->rows = rows;
        server = m->server;
        rc = attempt_once(op, &p, rows, out);
        if (rc != 0 && m->server != server)
            op->stale = 1;
        op->alone = rc == BATCH_ALONE || (rc != 0 && op->alone);
        if (rc != BATCH_ALONE)
            break;
    }
    out->server = op->server;
    if (rc == 0 && request_is(op->attempt->request.stmt, SQLOCK_REQ_PACES))
        m->round = time_max(out->received - out->sent, m->round / 4 * 3);
    return attempt_cancelled(op, rc);
}
