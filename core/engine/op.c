/* Requests made of attempts: their life, their deadline, their retries. */
#include <assert.h>
#include <string.h>

#include "core/engine/hello.h"
#include "core/engine/hosts.h"
#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"
#include "core/engine/server.h"
#include "core/model/backoff.h"

#define SERIALIZATION_FAILURE "40001" /* SQLSTATE */
#define HURRY_SLEEP_US        2000
#define ROOM_LEAST_US         5000  /* for one attempt more, if nothing is lost by a late one */
#define ROOM_US               50000 /* ... where one without an answer spoils the last answer */
#define GRACE_US              50000 /* past the end of a wait, to hear what is under way */
#define ASYNC_LEAST_US        50000 /* the talker's attempt for an op lasts at least so long */

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void cut_now(struct cut *cut)
{
    op_interrupt(LIST_MEMBER(cut, sqlock_op, cut_by));
}

int op_start(sqlock *m, sqlock_lock *lock, void (*advance)(sqlock_op *), int32_t wait_ms,
             sqlock_cancel *cancel, sqlock_op **out, sqlock_error *err)
{
    sqlock_op *op = sqlock_mem_alloc(sizeof *op);
    int64_t now = sqlock_now_us();
    int rc;

    if (op == NULL)
        return error_nomem(err);
    mutex_lock(&m->mu);
    rc = manager_start_threads(m);
    if (rc == 0)
        lock->refs++; /* until it is finished, whatever becomes of the handle */
    mutex_unlock(&m->mu);
    if (rc != 0) {
        sqlock_mem_free(op);
        return sqlock_error_set(err, rc, SQLOCK_RETRY, "no thread or descriptor to be had");
    }
    op->m = m;
    op->lock = lock;
    op->advance = advance;
    op->begun = op->next_at = now;
    op->once = wait_ms == 0;
    op->deadline = wait_ms == SQLOCK_WAIT_FOREVER ? TIME_NEVER
                   : wait_ms == 0                 ? now + m->request_us
                                                  : now + wait_ms * INT64_C(1000);
    op->fd = -1;
    list_init(&op->in_manager);
    cond_init(&op->wake);
    cut_listen(&op->cut_by, cancel, cut_now);
    *out = op;
    return 0;
}

void op_drive(sqlock_op *op)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    while (!op_end_if_over(op)) {
        mutex_unlock(&m->mu);
        op->advance(op);
        mutex_lock(&m->mu);
        while (!op->done && !op->cancelled && sqlock_now_us() < op->next_at)
            cond_wait_until(&op->wake, &m->mu, op->next_at);
    }
    mutex_unlock(&m->mu);
}

void op_cut(sqlock_op *op)
{
    sqlock *m = op->m;

    op->cut = 1;
    if (op->running != NULL)
        pool_cut(m, op->running);
    if (op->connecting != NULL)
        pool_cut(m, op->connecting);
    cond_wake_all(&m->conn_free);
}

void op_interrupt(sqlock_op *op)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    op->cancelled = 1;
    if (op->async && op != m->driving) /* the talker may be kept by a call of another one */
        op_end_if_over(op);
    else
        op_cut(op);
    cond_wake_all(&op->wake);
    mutex_unlock(&m->mu);
}

/* As much as an older caller's struct has room for. */
static void give_holder(sqlock_holder *out, const sqlock_holder *holder)
{
    uint32_t size = out->size;

    memcpy(out, holder, size < sizeof *holder ? size : sizeof *holder);
    out->size = size;
}

int op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock *m = op->m;
    int code;

    mutex_lock(&m->mu);
    while (!op->done)
        cond_wait_until(&op->wake, &m->mu, TIME_NEVER);
    list_remove(&op->in_manager);
    m->refs++; /* the lock's may be the last one */
    lock_unref_locked(op->lock);
    manager_unref_locked(m);
    cut_deafen(&op->cut_by);
    code = op->code;
    if (code != 0)
        error_give(err, &op->err);
    if (op->refused && op->out_holder != NULL)
        give_holder(op->out_holder, &op->holder);
    if (op->gives_lock && (code == 0 || code == SQLOCK_EUNSURE) && out_lock != NULL)
        *out_lock = op->lock;
    else if (op->gives_lock)
        lock_free(op->lock);
    sqlock_wake_close(op->fd);
    cond_free(&op->wake);
    sqlock_mem_free(op);
    return code;
}

static void done_locked(sqlock_op *op, int code)
{
    if (op->m->driving == op)
        op->m->driving = NULL;
    op->code = code;
    op->done = 1;
    if (op->fd >= 0)
        sqlock_wake_set(op->fd);
    cond_wake_all(&op->wake);
}

/* The finisher may free op as soon as the mutex is let go. */
void op_done(sqlock_op *op, int code)
{
    sqlock *m = op->m;

    mutex_lock(&m->mu);
    done_locked(op, code);
    mutex_unlock(&m->mu);
}

void op_abandon(sqlock_op *op)
{
    if (op->done)
        return;
    if (op->unsure)
        done_locked(op, sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                         "the manager was closed before an answer came"));
    else
        done_locked(op, sqlock_error_set(&op->err, SQLOCK_ECANCELLED, 0, "the manager was closed"));
}

void op_again(sqlock_op *op, int64_t at)
{
    mutex_lock(&op->m->mu);
    op->next_at = time_min(at, op->deadline); /* no pause makes it end late (P8) */
    mutex_unlock(&op->m->mu);
}

void op_hurry(sqlock_op *op)
{
    int64_t now = sqlock_now_us();

    op_again(op, op->hurries++ % HURRIES < HURRIES - 1 ? now : now + HURRY_SLEEP_US);
}

int64_t op_pause(sqlock_op *op)
{
    int64_t half = backoff_span(op->refusals++) / 2;

    return half + sqlock_random_below((uint32_t)half);
}

void op_greet(sqlock_op *op)
{
    op->greet = 1;
    op_hurry(op);
}

/* Twice what answers take, of late. m->round is the manager's: a first try has none of its own. */
static int64_t two_rounds(const sqlock_op *op)
{
    int64_t round;

    mutex_lock(&op->m->mu);
    round = op->m->round;
    mutex_unlock(&op->m->mu);
    return 2 * round;
}

/* A wait that was told of a holder has its answer. Another try that is still under way when time is
 * up would turn that into EUNSURE; so it is made only with room to spare: for what answers take,
 * and for the hiccups of a machine under load. Of a short wait a quarter has to do, and half of it
 * where answers are slow: an answer that took longer leaves no time for a second one anyway. */
int64_t op_last_try(const sqlock_op *op)
{
    int64_t wait = op->deadline - op->begun;

    if (op->deadline == TIME_NEVER)
        return TIME_NEVER;
    if (op->unsure || op->settle)
        return op->deadline - ROOM_LEAST_US;
    return op->deadline - longer(time_min(ROOM_US, wait / 4), time_min(two_rounds(op), wait / 2));
}

/* Waits for somebody else's lock, or tries for it: not what settles or ends a grant. */
static int is_wait(const sqlock_op *op)
{
    int is;

    mutex_lock(&op->m->mu);
    is = op->lock->pending == PENDING_ACQUIRE && !op->settle;
    mutex_unlock(&op->m->mu);
    return is;
}

/* Until when an attempt may go on. What a wait has asked for in time it hears a little later too:
 * that does no harm, for a request that the server runs after the wait grants nothing. A file that
 * is locked is no answer under way. */
static int64_t attempt_end(const sqlock_op *op, int64_t now)
{
    int late = is_wait(op) && !op->once && op->deadline != TIME_NEVER &&
               !(op->m->driver->caps & SQLOCK_CAP_ONE_WRITER);

    return late ? longer(op->deadline, now) + GRACE_US : op->deadline;
}

/* An attempt of the talker's must not make it late for the renewals. */
static int64_t async_limit(sqlock *m, int64_t now)
{
    int64_t left;

    mutex_lock(&m->mu);
    left = time_min(m->request_us, renewals_left(m, now) / 4);
    mutex_unlock(&m->mu);
    return now + longer(left, ASYNC_LEAST_US);
}

/* Which connection it takes; one that asks for a grant to be renewed sees to that of the renewals.
 */
static int take(sqlock_op *op, sqlock_stmt stmt, int64_t deadline, struct conn **out)
{
    sqlock *m = op->m;
    enum lock_pending pending;
    int kept, rc = 0;

    mutex_lock(&m->mu);
    pending = op->lock->pending;
    kept = m->kept;
    mutex_unlock(&m->mu);
    if (op->refused && is_wait(op))
        deadline = time_min(deadline, op_last_try(op));
    else
        deadline = time_min(deadline, op->deadline);
    if ((pending == PENDING_ACQUIRE || pending == PENDING_IMPORT) &&
        !(op->lock->flags & SQLOCK_NO_RENEW) && !kept)
        rc = pool_keep(m, op, deadline, &op->err);
    if (rc == 0)
        rc = pool_take(m,
                       (pending == PENDING_ACQUIRE && !op->settle) || op->patient ? POOL_CALLS
                                                                                  : POOL_URGENT,
                       op, deadline, out, &op->err);
    if (rc == 0) {
        op->stale = (*out)->used;
        rc = hello_serves(m, *out, op, stmt, time_min(deadline, (*out)->until), &op->err);
        if (rc != 0)
            pool_give(m, *out, op->err.flags & SQLOCK_RECONNECT);
    }
    op->err.flags &= ~SQLOCK_MAYBE; /* hello said nothing about this request */
    if (rc == SQLOCK_ETIMEOUT)
        op->err.flags |= SQLOCK_RETRY;
    return rc;
}

/* What was cut for another request was not cancelled: it may go on. */
static int after_cut(sqlock_op *op, int rc)
{
    int was_cut;

    if (rc != SQLOCK_ECANCELLED)
        return rc;
    mutex_lock(&op->m->mu);
    was_cut = op->cut && !op->cancelled;
    mutex_unlock(&op->m->mu);
    if (!was_cut)
        return rc;
    return sqlock_error_set(&op->err, SQLOCK_ETIMEOUT, op->err.flags | SQLOCK_RETRY,
                            "the database did not answer, and others waited");
}

/* What a server that is not the manager's any more has granted, prolonged, broken or taken note of
 * may be unknown to the one that is: it is asked there. */
static int must_be_there(sqlock_stmt stmt)
{
    return stmt == SQLOCK_STMT_ACQUIRE || stmt == SQLOCK_STMT_RENEW || stmt == SQLOCK_STMT_BREAK ||
           stmt == SQLOCK_STMT_BREAK_NOTED || stmt == SQLOCK_STMT_LONGEST;
}

static int lost_with_server(sqlock_op *op, const struct conn *c, sqlock_stmt stmt, int rc)
{
    int moved;

    mutex_lock(&op->m->mu);
    op->server = c->server;
    moved = !server_is_ours(op->m, c);
    mutex_unlock(&op->m->mu);
    if (!moved || rc != 0 || !must_be_there(stmt))
        return rc;
    return sqlock_error_set(&op->err, SQLOCK_EUNREACH,
                            SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE,
                            "another server took over while this one answered");
}

/* One slow answer does not count for long. */
static void note_round(sqlock *m, int64_t took)
{
    mutex_lock(&m->mu);
    m->round = longer(took, m->round / 4 * 3);
    mutex_unlock(&m->mu);
}

int op_attempt_rows(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                    sqlock_rows *rows, int64_t *out_sent)
{
    sqlock *m = op->m;
    struct conn *c;
    int64_t now = sqlock_now_us(), deadline = time_min(attempt_end(op, now), now + m->request_us);
    int rc;

    if (op->async)
        deadline = time_min(deadline, async_limit(m, now));
    op->tries++;
    op->stale = 0;
    *out_sent = now;
    memset(&op->err, 0, sizeof op->err);
    if ((rc = take(op, stmt, deadline, &c)) != 0)
        return after_cut(op, rc);
    rc = call_rows(m, c, op, stmt, values, n, hosts_room(m, time_min(deadline, c->until)), rows,
                   out_sent, &op->err);
    if ((rc = lost_with_server(op, c, stmt, rc)) != 0)
        hosts_failed(m, c, *out_sent, &op->err);
    if (rc == SQLOCK_ETIMEOUT) /* the attempt's time is up, which need not be the op's */
        op->err.flags |= SQLOCK_RETRY;
    if (rc == 0 && stmt == SQLOCK_STMT_ACQUIRE)
        note_round(m, sqlock_now_us() - *out_sent);
    if (rc != 0 && c->until != TIME_NEVER)
        op->patient = 1;
    pool_give(m, c, rc != 0 && (op->err.flags & SQLOCK_RECONNECT));
    return after_cut(op, rc);
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

static int unsure(sqlock_op *op)
{
    char last[sizeof op->err.text];

    memcpy(last, op->err.text, sizeof last);
    return sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE, "the reply was lost: %.200s",
                            last);
}

int op_end_if_over(sqlock_op *op)
{
    if (op->done)
        return 1;
    if (!op->cancelled && (sqlock_now_us() < op->deadline || (op->tries == 0 && !op->async)))
        return 0; /* a thread that was kept from running asks once all the same */
    if (op->unsure)
        done_locked(op, unsure(op));
    else if (op->cancelled)
        done_locked(op, sqlock_error_set(&op->err, SQLOCK_ECANCELLED, 0, "cancelled"));
    else if (op->refused) { /* the last answer stands, whatever was tried after it in vain */
        op->err = op->refusal;
        done_locked(op, op->refused);
    } else if (op->err.code != 0)
        done_locked(op, op->err.code);
    else
        done_locked(op, sqlock_error_set(&op->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                         "the database did not answer in time"));
    return 1;
}

void op_unknown_kind(sqlock_op *op)
{
    op_done(op, sqlock_error_set(&op->err, SQLOCK_ESCHEMA, 0,
                                 "the name's row is of a kind that this version does not know"));
}

int op_is_over(sqlock_op *op)
{
    sqlock *m = op->m;
    int over;

    mutex_lock(&m->mu);
    over = op_end_if_over(op);
    mutex_unlock(&m->mu);
    return over;
}

/* A server that cannot be reached; or of several none that can be written to. */
static int is_unreachable(const sqlock_op *op)
{
    return op->err.code == SQLOCK_EUNREACH ||
           (op->err.code == SQLOCK_EREADONLY && (op->err.flags & SQLOCK_RETRY));
}

/* Can another attempt help? A connection that broke under a request is opened again even for a try;
 * a server that cannot be reached is waited for only by those who wait. */
static int worth_again(const sqlock_op *op)
{
    if (op->err.code == SQLOCK_ECANCELLED)
        return 1; /* an earlier call's, which came late; not ours */
    if (!(op->err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)))
        return 0;
    if (is_unreachable(op))
        return !op->once || op->tries == 1 || op->stale || op->unsure;
    return op->err.code == SQLOCK_EDB || op->err.code == SQLOCK_EGUARDED ||
           op->err.code == SQLOCK_ETIMEOUT;
}

static int was_not_sent(const sqlock_op *op)
{
    if (op->err.flags & SQLOCK_MAYBE)
        return 0;
    return op->err.code == SQLOCK_ETIMEOUT ||
           (is_unreachable(op) &&
            (op->stale || sqlock_now_us() >= op_last_try(op))); /* opening took too long */
}

/* What is locked is tried again as long as there is time. Of a file that is locked nobody knows
 * whether it is a guard; a holder that was told of before has the lock for as long as its lease was
 * to last. */
static void note_locked(sqlock_op *op)
{
    if (error_contention(&op->err) != SQLOCK_EGUARDED)
        return;
    if ((op->err.flags & SQLOCK_MAYBE) || op->unsure)
        return;
    if (op->refused == SQLOCK_EBUSY && sqlock_now_us() < op->held_until)
        return;
    memset(&op->holder, 0, sizeof op->holder);
    op->holder.size = sizeof op->holder;
    op->refusal = op->err;
    op->refused = SQLOCK_EGUARDED;
}

void op_failed(sqlock_op *op)
{
    assert(op->err.code != 0); /* it would end as a success */
    note_locked(op);
    /* Time ran out before the attempt was sent, or its connection had died in the pool: the word of
     * the one before stands (P18), and another connection is asked for while there is time. */
    if (op->refused && was_not_sent(op)) {
        int64_t now = sqlock_now_us();
        int died = is_unreachable(op);

        op->err = op->refusal;
        op_again(op, now >= op_last_try(op) ? op->deadline : died ? now : now + op_pause(op));
        return;
    }
    if (op->err.code != SQLOCK_EGUARDED)
        op->refused = 0;
    if (op->err.flags & SQLOCK_MAYBE)
        op->unsure = 1;
    /* Sessions that we set up fail so in lost races alone. A pooler's may have been put to another
     * isolation since they were greeted, which is to be refused, not tried for long. */
    if ((op->m->flags & SQLOCK_OPEN_UNPREPARED) &&
        strcmp(op->err.sqlstate, SERIALIZATION_FAILURE) == 0)
        op->greet = 1;
    if (op_is_over(op))
        return;
    if (!worth_again(op)) {
        op_done(op, op->unsure ? unsure(op) : op->err.code);
        return;
    }
    op_again(op, sqlock_now_us() + (op->tries == 1 ? 0 : op_pause(op)));
}
