/* The manager's connections. They are opened when first needed, and again when lost. */
#include <assert.h>

#include "core/engine/call.h"
#include "core/engine/handshake.h"
#include "core/engine/hearing.h"
#include "core/engine/hold.h"
#include "core/engine/op.h"
#include "core/engine/opening.h"
#include "core/engine/pool.h"
#include "core/engine/queue.h"
#include "core/engine/renewals.h"
#include "core/engine/server.h"

#define URGENT_AFTER_US 100000
#define URGENT_LEAST_US 10000
#define URGENT_MOST_US  1000000
#define URGENT_PART     4

/* A free place for calls; one with an open connection comes first. m->mu is held. */
static struct conn *pool_find_call(sqlock *m)
{
    struct conn *found = NULL;

    for (int i = 1; i < m->n_conns; i++) {
        struct conn *c = &m->conns[i];

        if (!c->busy && c->native != NULL)
            return c;
        if (!c->busy && found == NULL)
            found = c;
    }
    return found;
}

static struct conn *pool_find_open(sqlock *m)
{
    struct conn *reserved = m->conns[0].busy ? NULL : &m->conns[0], *idle;

    if (reserved != NULL && reserved->native != NULL)
        return reserved;
    idle = pool_find_call(m);
    return idle != NULL && idle->native != NULL ? idle : reserved;
}

/* Renewals use an idle open connection if their own is not open, and if opening it failed the last
 * time or may take too long. */
static struct conn *pool_find_for_renewals(sqlock *m, int64_t deadline)
{
    const int opens =
        !m->conns[0].busy && !m->opening_fails && 2 * m->opening <= deadline - sqlock_now_us();

    return opens ? &m->conns[0] : pool_find_open(m);
}

/* Requests that end or settle a grant must not starve while acquires hang in the server on all
 * other connections. They may use the reserved one until a renewal needs it. Who looks for that one
 * by the clock does not take a place of the calls from the waiter that was woken for it. */
static struct conn *pool_find_urgent(sqlock *m, int64_t since, int woken)
{
    struct conn *found = since == 0 || woken ? pool_find_call(m) : NULL;
    int64_t now;

    if (found != NULL || since == 0)
        return found;
    now = sqlock_now_us();
    if (now < since + URGENT_AFTER_US || renewals_due(m) < now + URGENT_LEAST_US)
        return NULL;
    if (!m->conns[0].busy)
        return &m->conns[0];
    hearing_lend(m);
    return NULL;
}

/* A free place for this use. since: when the caller began to wait (0: it does not wait yet). woken:
 * one became free for it. m->mu is held. */
static struct conn *pool_find_free(sqlock *m, enum pool_use use, int64_t deadline, int64_t since,
                                   int woken)
{
    switch (use) {
    case POOL_URGENT:
        return pool_find_urgent(m, since, woken);
    case POOL_RENEWALS:
        return pool_find_for_renewals(m, deadline);
    case POOL_RESERVED:
        return m->conns[0].busy ? NULL : &m->conns[0];
    case POOL_OPEN:
        return pool_find_open(m);
    default:
        return pool_find_call(m);
    }
}

static int pool_none_free(const sqlock *m, enum pool_use use, sqlock_error *err)
{
    return use == POOL_RESERVED
               ? sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                  "the reserved connection was still being opened")
               : sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                  "no connection became free: all %d, without the "
                                  "reserved one, were in use (the option connections)",
                                  m->n_conns - 1);
}

/* Until when the reserved connection is lent. A renewal that becomes due meanwhile is not late: it
 * waits for the answer under way, but only for a part of its time. A cancel would cost more,
 * because the connection would have to be opened again. m->mu is held. */
static int64_t pool_lent_until(sqlock *m)
{
    int64_t now = sqlock_now_us();

    return now + time_min(URGENT_MOST_US, renewals_left(m, now) / URGENT_PART);
}

/* A place became free, or a waiter left without the one it was woken for: wake one that can use a
 * place. One that was woken before has one to look at. m->mu is held. */
static void pool_wake_next(sqlock *m)
{
    LIST_EACH(at, &m->waiting)
    {
        struct pool_waiter *w = LIST_MEMBER(at, struct pool_waiter, in_manager);

        if (!w->woken && pool_find_free(m, w->use, w->deadline, w->since, 1) != NULL) {
            w->woken = 1;
            cond_wake_all(w->wake);
            return;
        }
    }
}

void pool_wake_all(sqlock *m)
{
    assert(mutex_is_mine(&m->mu));
    LIST_EACH(at, &m->waiting)
    {
        cond_wake_all(LIST_MEMBER(at, struct pool_waiter, in_manager)->wake);
    }
}

void pool_hand_over(struct pool_waiter *w, struct conn *c)
{
    assert(c->busy && w->given == NULL);
    w->given = c;
    list_remove(&w->in_manager);
    cond_wake_all(w->wake);
}

/* One look: is the wait over, and how? m->mu is held. */
static int pool_wait_is_over(sqlock *m, struct pool_waiter *w, struct conn **out, int *out_rc,
                             sqlock_error *err)
{
    *out = w->given;
    *out_rc = 0;
    if (w->given != NULL)
        return 1;
    if (w->joined)
        *out_rc = POOL_JOINED;
    else if (m->stopping || (w->op != NULL && w->op->end_attempt))
        *out_rc = sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
    else if ((*out = pool_find_free(m, w->use, w->deadline, w->since, w->woken)) == NULL &&
             sqlock_now_us() >= w->deadline)
        *out_rc = pool_none_free(m, w->use, err);
    return *out != NULL || *out_rc != 0;
}

/* Sleep until a place may be free. m->mu is held. */
static void pool_sleep(sqlock *m, struct pool_waiter *w)
{
    int64_t now = sqlock_now_us();

    if (w->since == 0) {
        w->since = now;
        list_append(&m->waiting, &w->in_manager);
        hold_came(m, w->op);
    }
    w->woken = 0;
    if (w->use != POOL_CALLS && w->use != POOL_URGENT)
        hearing_lend(m);
    cond_wait_until(w->wake, &m->mu,
                    w->use == POOL_URGENT ? time_min(w->deadline, now + URGENT_AFTER_US)
                                          : w->deadline);
}

static int pool_wants_reserved(const sqlock *m)
{
    LIST_EACH(at, &m->waiting)
    {
        if (LIST_MEMBER(at, struct pool_waiter, in_manager)->use != POOL_CALLS)
            return 1;
    }
    return 0;
}

/* The connection that listens was lent: while it does not listen, waiters are not called. */
static void pool_end_lending(sqlock *m)
{
    if (m->queue.lent && !m->conns[0].busy && !pool_wants_reserved(m))
        hearing_take_back(m);
}

void *pool_part(sqlock *m, struct conn *c)
{
    void *native = c->native;

    c->native = NULL;
    if (native != NULL && c->listens)
        native = hearing_ends(m, native);
    c->listens = 0;
    return native;
}

/* Close a connection that is broken, or not to the manager's server any more. m->mu is held, and is
 * released meanwhile. */
static void pool_close(sqlock *m, struct conn *c)
{
    void *native = pool_part(m, c);

    if (native != NULL) {
        mutex_unlock(&m->mu);
        m->driver->close(native);
        mutex_lock(&m->mu);
    }
}

/* From now on the free place c is the caller's. m->mu is held. */
static void pool_claim(sqlock *m, enum pool_use use, struct conn *c)
{
    const int lent = use == POOL_URGENT && c == &m->conns[0];

    assert(!c->running);
    c->busy = 1;
    c->until = lent ? pool_lent_until(m) : TIME_NEVER;
    m->queue.lent |= lent && c->listens;
}

/* No place was free. Wait for one, and claim it. m->mu is held, and is released meanwhile. */
static int pool_wait(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline,
                     struct conn **out, sqlock_error *err)
{
    struct pool_waiter w = {.use = use, .deadline = deadline, .op = op};
    cond own;
    int rc = 0;

    if (op == NULL)
        cond_init(&own);
    w.wake = op != NULL ? op->wake : &own;
    list_init(&w.in_manager);
    if (op != NULL)
        op->attempt->waiter = &w;
    while (!pool_wait_is_over(m, &w, out, &rc, err))
        pool_sleep(m, &w);
    if (op != NULL)
        op->attempt->waiter = NULL;
    list_remove(&w.in_manager);
    if (w.woken && (rc != 0 || w.given != NULL))
        pool_wake_next(m);
    if (rc == 0 && w.given == NULL)
        pool_claim(m, use, *out);
    if (op == NULL)
        cond_free(&own);
    pool_end_lending(m);
    return rc;
}

/* The connection is open to the manager's server, or not open. m->mu is held, and is released
 * meanwhile. */
static int pool_take_place(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline,
                           struct conn **out, sqlock_error *err)
{
    struct conn *c = NULL;
    int rc = 0;

    if (!m->stopping && (op == NULL || !op->end_attempt))
        c = pool_find_free(m, use, deadline, 0, 0);
    if (c != NULL)
        pool_claim(m, use, c);
    else
        rc = pool_wait(m, use, op, deadline, &c, err);
    if (rc == 0 && !server_is_ours(m, c))
        pool_close(m, c);
    *out = c;
    return rc;
}

/* The place c is the caller's. Open its connection, or make the handshake again, or give it back.
 * m->mu is held, and is released meanwhile. */
static int pool_make_ready(sqlock *m, enum pool_use use, struct conn *c, sqlock_op *op,
                           int64_t deadline, sqlock_error *err)
{
    int64_t until = time_min(deadline, c->until), connect_by = opening_by(m, use, until);
    int rc;

    mutex_unlock(&m->mu);
    rc = c->native == NULL ? opening_run(m, c, op, connect_by, err)
                           : handshake(m, c, op, 1, until, err);
    mutex_lock(&m->mu);
    if (rc == 0)
        return 0;
    if (op != NULL && c->until != TIME_NEVER)
        op->patient = 1;
    pool_give(m, c, 1);
    return rc;
}

int pool_take(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline, struct conn **out,
              sqlock_error *err)
{
    int rc = pool_take_place(m, use, op, deadline, out, err);
    struct conn *c = *out;

    if (rc == 0 && (c->native == NULL || (op != NULL && op->needs_handshake)))
        rc = pool_make_ready(m, use, c, op, deadline, err);
    if (rc != 0)
        return rc;
    if (op != NULL)
        op->needs_handshake = 0;
    assert(c->busy && c->native != NULL);
    return 0;
}

/* The driver may have just left the call. Its number keeps the cancel from the next one. */
void pool_cancel_call(sqlock *m, struct conn *c)
{
    assert(mutex_is_mine(&m->mu));
    if (c->running) {
        assert(c->busy && c->native != NULL);
        m->driver->cancel(c->native, c->call);
    }
    if (c->wake >= 0)
        sqlock_wake_set(c->wake);
}

void pool_give(sqlock *m, struct conn *c, int broken)
{
    assert(c->busy && !c->running);
    if (broken || !server_is_ours(m, c))
        pool_close(m, c);
    c->busy = 0;
    c->used = 1;
    pool_wake_next(m);
    pool_end_lending(m);
}

void pool_close_all(sqlock *m)
{
    if (m->queue.parted != NULL)
        m->driver->close(m->queue.parted);
    m->queue.parted = NULL;
    for (int i = 0; i < m->n_conns; i++) {
        struct conn *c = &m->conns[i];
        void *native;

        mutex_lock(&m->mu); /* a caller that blocks in steps may still look at it */
        native = c->native;
        c->native = NULL;
        sqlock_wake_close(c->wake);
        c->wake = -1;
        mutex_unlock(&m->mu);
        if (native != NULL)
            m->driver->close(native);
    }
}
