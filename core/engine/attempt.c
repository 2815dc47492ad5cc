/* One attempt of a request: its time, its connection, the request itself, and what a missing answer
 * says about the connection and its server. */
#include <assert.h>
#include <string.h>

#include "core/engine/handshake.h"
#include "core/engine/hosts.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"
#include "core/engine/server.h"

#define ROOM_LEAST_US  5000  /* time for one more attempt, if a late one does no harm */
#define ROOM_US        50000 /* ... and if a missing answer would spoil the last answer */
#define GRACE_US       50000 /* past the end of a wait, to receive an answer under way */
#define ASYNC_LEAST_US 50000 /* an attempt on the worker thread lasts at least so long */

/* Twice the time that answers took of late. m->round belongs to the manager, because a first
 * attempt has no time of its own. */
static int64_t attempt_two_rounds(const sqlock_op *op)
{
    int64_t round;

    mutex_lock(&op->m->mu);
    round = op->m->round;
    mutex_unlock(&op->m->mu);
    return 2 * round;
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

/* The request waits for another holder's lock, or tries for it. It does not settle or end a
 * grant. */
static int attempt_waits(const sqlock_op *op)
{
    int is;

    mutex_lock(&op->m->mu);
    is = op->lock->pending == PENDING_ACQUIRE && !op->settle;
    mutex_unlock(&op->m->mu);
    return is;
}

/* Until when an attempt may go on. A wait that was sent in time may receive its answer a little
 * late. That does no harm, because the server grants nothing after the wait's end. A locked file is
 * an exception: no answer is under way from it. */
static int64_t attempt_end(const sqlock_op *op, int64_t now)
{
    int late = attempt_waits(op) && !op->once && op->deadline != TIME_NEVER &&
               !(op->m->driver->caps & SQLOCK_CAP_ONE_WRITER);

    return late ? time_max(op->deadline, now) + GRACE_US : op->deadline;
}

/* An attempt on the worker thread must not delay the renewals. */
static int64_t attempt_async_limit(sqlock *m, int64_t now)
{
    int64_t left;

    mutex_lock(&m->mu);
    left = time_min(m->request_us, renewals_left(m, now) / 4);
    mutex_unlock(&m->mu);
    return now + time_max(left, ASYNC_LEAST_US);
}

/* Take a connection for the request. A grant that will be renewed opens the reserved connection
 * first. */
static int attempt_connect(sqlock_op *op, sqlock_stmt stmt, int64_t deadline, struct conn **out)
{
    sqlock *m = op->m;
    enum lock_pending pending;
    int reserved, rc = 0;

    assert(op->lock->m == m);
    mutex_lock(&m->mu);
    pending = op->lock->pending;
    reserved = m->reserved_opened;
    mutex_unlock(&m->mu);
    if (op->refused && attempt_waits(op))
        deadline = time_min(deadline, op_last_try(op));
    else
        deadline = time_min(deadline, op->deadline);
    if ((pending == PENDING_ACQUIRE || pending == PENDING_IMPORT) &&
        !(op->lock->flags & SQLOCK_NO_RENEW) && !reserved)
        rc = pool_open_reserved(m, op, deadline, &op->err);
    if (rc == 0)
        rc = pool_take(m,
                       (pending == PENDING_ACQUIRE && !op->settle) || op->patient ? POOL_CALLS
                                                                                  : POOL_URGENT,
                       op, deadline, out, &op->err);
    if (rc == 0) {
        op->stale = (*out)->used;
        rc = handshake_serves(m, *out, op, stmt, time_min(deadline, (*out)->until), &op->err);
        if (rc != 0)
            pool_give(m, *out, op->err.flags & SQLOCK_RECONNECT);
    }
    op->err.flags &= ~SQLOCK_MAYBE; /* the handshake says nothing about this request */
    if (rc == SQLOCK_ETIMEOUT)
        op->err.flags |= SQLOCK_RETRY;
    return rc;
}

/* A call that was cancelled for the sake of another request counts as late, not as cancelled: it
 * may go on. */
static int attempt_cancelled(sqlock_op *op, int rc)
{
    int was_cut;

    if (rc != SQLOCK_ECANCELLED)
        return rc;
    mutex_lock(&op->m->mu);
    was_cut = op->end_attempt && !op->cancelled;
    mutex_unlock(&op->m->mu);
    if (!was_cut)
        return rc;
    return sqlock_error_set(&op->err, SQLOCK_ETIMEOUT, op->err.flags | SQLOCK_RETRY,
                            "the database did not answer, and other requests waited");
}

/* What an old server has granted, extended, broken or noted may be unknown to the new one. Such a
 * request is sent again to the new server. */
static int attempt_needs(sqlock_stmt stmt)
{
    return stmt == SQLOCK_STMT_ACQUIRE || stmt == SQLOCK_STMT_RENEW || stmt == SQLOCK_STMT_BREAK ||
           stmt == SQLOCK_STMT_BREAK_NOTED || stmt == SQLOCK_STMT_LONGEST;
}

static int attempt_lost_with_server(sqlock_op *op, const struct conn *c, sqlock_stmt stmt, int rc)
{
    int moved;

    mutex_lock(&op->m->mu);
    op->server = c->server;
    moved = !server_is_ours(op->m, c);
    mutex_unlock(&op->m->mu);
    if (!moved || rc != 0 || !attempt_needs(stmt))
        return rc;
    return sqlock_error_set(&op->err, SQLOCK_EUNREACH,
                            SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE,
                            "another server took over while this one answered");
}

/* A slow answer counts for less and less. */
static void attempt_note_round(sqlock *m, int64_t took)
{
    mutex_lock(&m->mu);
    m->round = time_max(took, m->round / 4 * 3);
    mutex_unlock(&m->mu);
}

int op_attempt_rows(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                    sqlock_rows *rows, int64_t *out_sent)
{
    sqlock *m = op->m;
    struct conn *c;
    int64_t now = sqlock_now_us(), deadline = time_min(attempt_end(op, now), now + m->request_us);
    int rc;

    assert(!op->done && op->running == NULL && op->connecting == NULL);
    if (op->async)
        deadline = time_min(deadline, attempt_async_limit(m, now));
    op->tries++;
    op->stale = 0;
    *out_sent = now;
    memset(&op->err, 0, sizeof op->err);
    if ((rc = attempt_connect(op, stmt, deadline, &c)) != 0)
        return attempt_cancelled(op, rc);
    rc = call_rows(m, c, op, stmt, values, n, hosts_room(m, time_min(deadline, c->until)), rows,
                   out_sent, &op->err);
    assert(op->running == NULL);
    if ((rc = attempt_lost_with_server(op, c, stmt, rc)) != 0)
        hosts_failed(m, c, *out_sent, &op->err);
    if (rc == SQLOCK_ETIMEOUT) /* the attempt's time is up, but perhaps not the op's */
        op->err.flags |= SQLOCK_RETRY;
    if (rc == 0 && stmt == SQLOCK_STMT_ACQUIRE)
        attempt_note_round(m, sqlock_now_us() - *out_sent);
    if (rc != 0 && c->until != TIME_NEVER)
        op->patient = 1;
    pool_give(m, c, rc != 0 && (op->err.flags & SQLOCK_RECONNECT));
    return attempt_cancelled(op, rc);
}

int op_attempt(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, struct answer *out)
{
    sqlock_rows rows;
    int rc;

    memset(out, 0, sizeof *out);
    rows_init(&rows);
    rc = op_attempt_rows(op, stmt, values, 1, &rows, &out->sent);
    out->received = sqlock_now_us();
    out->server = op->server;
    answer_read(&rows, 0, out);
    rows_end(&rows);
    return rc;
}
