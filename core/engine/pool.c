/* The manager's connections: opened when first needed, opened again when lost. */
#include <string.h>

#include "core/engine/call.h"
#include "core/engine/handshake.h"
#include "core/engine/hosts.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"
#include "core/engine/server.h"

#define URGENT_AFTER_US 100000
#define URGENT_LEAST_US 10000
#define URGENT_MOST_US  1000000
#define URGENT_PART     4

/* A free place of the calls, one with an open connection first. m->mu is held. */
static struct conn *find_call(sqlock *m)
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

/* Renewals do not wait for their own connection to be opened while an open one idles, if opening
 * failed the last time, or is not likely to be done in time. */
static struct conn *find_for_renewals(sqlock *m, int64_t deadline)
{
    struct conn *kept = m->conns[0].busy ? NULL : &m->conns[0], *idle = find_call(m);

    if (kept != NULL && kept->native != NULL)
        return kept;
    if (idle == NULL || idle->native == NULL)
        return kept;
    return kept == NULL || m->opening_fails || 2 * m->opening > deadline - sqlock_now_us() ? idle
                                                                                           : kept;
}

/* Those that end or settle a grant do not starve behind acquires that are stuck in the server and
 * keep all connections of the calls. They may have the kept one until a renewal needs it. */
static struct conn *find_urgent(sqlock *m, int64_t since)
{
    struct conn *found = find_call(m);
    int64_t now;

    if (found != NULL || m->conns[0].busy || since == 0)
        return found;
    now = sqlock_now_us();
    return now < since + URGENT_AFTER_US || renewals_due(m) < now + URGENT_LEAST_US ? NULL
                                                                                    : &m->conns[0];
}

/* A free place for this use, for one who waits since then (0: has just come). m->mu is held. */
static struct conn *find_free(sqlock *m, enum pool_use use, int64_t deadline, int64_t since)
{
    switch (use) {
    case POOL_URGENT:
        return find_urgent(m, since);
    case POOL_RENEWALS:
        return find_for_renewals(m, deadline);
    case POOL_KEPT:
        return m->conns[0].busy ? NULL : &m->conns[0];
    default:
        return find_call(m);
    }
}

static int none_free(const sqlock *m, enum pool_use use, sqlock_error *err)
{
    return use == POOL_KEPT
               ? sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                  "the connection for renewals was still being opened")
               : sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                  "no connection came free: all %d but that of the renewals were "
                                  "in use (the option connections)",
                                  m->n_conns - 1);
}

/* Until when the kept place is lent. A renewal that falls due meanwhile is not late yet: it waits
 * for an answer that is on its way, for a part of the time that it has. Cutting that costs more,
 * for the connection has to be opened again. m->mu is held. */
static int64_t lent_until(sqlock *m)
{
    int64_t now = sqlock_now_us();

    return now + time_min(URGENT_MOST_US, renewals_left(m, now) / URGENT_PART);
}

static int wait_free(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline,
                     struct conn **out, sqlock_error *err)
{
    int64_t since = 0, now;
    int rc = 0;

    mutex_lock(&m->mu);
    while ((*out = find_free(m, use, deadline, since)) == NULL) {
        now = sqlock_now_us();
        since = since != 0 ? since : now;
        if (m->stopping || (op != NULL && op->cut))
            rc = sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
        else if (now >= deadline)
            rc = none_free(m, use, err);
        if (rc != 0)
            break;
        cond_wait_until(&m->conn_free, &m->mu,
                        use == POOL_URGENT ? time_min(deadline, now + URGENT_AFTER_US) : deadline);
    }
    if (rc == 0) {
        (*out)->busy = 1;
        (*out)->until = use == POOL_URGENT && *out == &m->conns[0] ? lent_until(m) : TIME_NEVER;
    }
    mutex_unlock(&m->mu);
    return rc;
}

/* Only a request for a lock can be told that; or it is 0, or no code at all. */
static int is_of_a_lock(int code)
{
    return code > SQLOCK_ECANCELLED;
}

/* A connection factory is the application's, and may have failed with any number and without a
 * word. Without a code the failure would be taken for a success, or for somebody who holds the
 * lock. */
static void connect_word(sqlock_error *err, int code)
{
    char text[sizeof err->text];

    memcpy(text, err->text, sizeof text);
    sqlock_error_set(err, is_of_a_lock(code) ? SQLOCK_EUNREACH : code, err->flags | SQLOCK_RETRY,
                     "no connection was made (%d): %.200s", code,
                     text[0] != '\0' ? text : "and no reason was given");
}

int pool_connect(sqlock *m, int wake_fd, uint32_t host, int64_t deadline, void **out_native,
                 sqlock_error *err)
{
    sqlock_conn_opts opts = {
        sizeof opts, m->flags, m->url, m->connect, m->connect_user, texts_scripts(m->texts),
        wake_fd,     host};
    sqlock_error failure = {0};
    int rc;

    *out_native = NULL;
    rc = m->driver->open(&opts, deadline, out_native, &failure);
    if (rc == 0)
        return 0;
    if (is_of_a_lock(failure.code))
        connect_word(&failure, failure.code != 0 ? failure.code : rc);
    return error_give(err, &failure);
}

/* Let cancels and the manager's end cut the opening from now on, unless one came already. */
static int pool_enter(sqlock *m, struct conn *c, sqlock_op *op, sqlock_error *err)
{
    int rc = 0;

    mutex_lock(&m->mu);
    if (c->wake < 0)
        c->wake = sqlock_wake_make();
    if (c->wake < 0)
        rc = sqlock_error_set(err, SQLOCK_ESYS, SQLOCK_RETRY, "no descriptor to be had");
    else if (m->stopping || (op != NULL && op->cut))
        rc = sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
    else {
        sqlock_wake_clear(c->wake);
        c->server = m->server;
        c->accepted = 0;
        if (op != NULL)
            op->connecting = c;
    }
    mutex_unlock(&m->mu);
    return rc;
}

/* What an opening takes, by the last ones. m->mu is held. */
static void note_opening(sqlock *m, int rc, int64_t took)
{
    int64_t known = rc == 0 ? m->opening / 2 : m->opening;

    if (rc == SQLOCK_ECANCELLED)
        return;
    m->opening = took > known ? took : known;
    m->opening_fails = rc != 0;
}

struct opening {
    sqlock *m;
    struct conn *c;
    sqlock_op *op;
};

static int pool_visit(void *arg, uint32_t host, int last_resort, int64_t until, sqlock_error *err)
{
    struct opening *o = arg;
    struct conn *c = o->c;
    int rc;

    if ((rc = pool_enter(o->m, c, o->op, err)) != 0)
        return rc;
    rc = pool_connect(o->m, c->wake, host, until, &c->native, err);
    mutex_lock(&o->m->mu);
    if (o->op != NULL)
        o->op->connecting = NULL;
    c->used = c->cut = 0;
    c->host = host > 0 ? host - 1 : 0;
    mutex_unlock(&o->m->mu);
    if (rc == 0)
        rc = handshake(o->m, c, o->op, last_resort, until, err);
    if (rc != 0 && c->native != NULL) {
        o->m->driver->close(c->native);
        c->native = NULL;
    }
    return rc;
}

static int connect_place(sqlock *m, struct conn *c, sqlock_op *op, int64_t deadline,
                         sqlock_error *err)
{
    struct opening o = {m, c, op};
    int64_t begun = sqlock_now_us();
    int rc = hosts_walk(m, pool_visit, &o, deadline, err);

    mutex_lock(&m->mu);
    note_opening(m, rc, sqlock_now_us() - begun);
    mutex_unlock(&m->mu);
    return rc;
}

/* Of another server than the manager's, by now. */
static void close_stray(sqlock *m, struct conn *c)
{
    int strays;

    mutex_lock(&m->mu);
    strays = c->native != NULL && !server_is_ours(m, c);
    mutex_unlock(&m->mu);
    if (strays) {
        m->driver->close(c->native);
        c->native = NULL;
    }
}

/* Renewals give a call half of the time that is left, to have room for another. An opening that
 * takes as long as openings do is not thrown away for that: it may have three quarters. */
static int64_t connect_by(sqlock *m, enum pool_use use, int64_t deadline)
{
    int64_t now = sqlock_now_us(), by;

    if (use != POOL_RENEWALS)
        return deadline;
    mutex_lock(&m->mu);
    by = time_min(now + 2 * m->opening, deadline + (deadline - now) / 2);
    mutex_unlock(&m->mu);
    return by > deadline ? by : deadline;
}

int pool_take(sqlock *m, enum pool_use use, sqlock_op *op, int64_t deadline, struct conn **out,
              sqlock_error *err)
{
    struct conn *c;
    int rc;

    if ((rc = wait_free(m, use, op, deadline, &c, err)) != 0)
        return rc;
    deadline = time_min(deadline, c->until);
    close_stray(m, c);
    if (c->native == NULL)
        rc = connect_place(m, c, op, connect_by(m, use, deadline), err);
    else if (op != NULL && op->greet)
        rc = handshake(m, c, op, 1, deadline, err);
    if (rc != 0) {
        if (op != NULL && c->until != TIME_NEVER)
            op->patient = 1;
        pool_give(m, c, 1);
        return rc;
    }
    if (op != NULL)
        op->greet = 0;
    *out = c;
    return 0;
}

int pool_keep(sqlock *m, sqlock_op *op, int64_t deadline, sqlock_error *err)
{
    struct conn *c;
    int rc;

    if ((rc = wait_free(m, POOL_KEPT, op, deadline, &c, err)) != 0)
        return rc;
    close_stray(m, c);
    if (c->native == NULL && (rc = connect_place(m, c, op, deadline, err)) != 0)
        error_prefix(err, "the connection for renewals");
    mutex_lock(&m->mu);
    m->kept = rc == 0;
    mutex_unlock(&m->mu);
    pool_give(m, c, rc != 0);
    return rc;
}

/* A cut may come when the driver has just left the call that it was for: then it would hit the next
 * one, of whoever that is. Nobody can tell, so nobody gets that connection. */
void pool_cancel_call(sqlock *m, struct conn *c)
{
    if (c->running) {
        c->cut = 1;
        m->driver->cancel(c->native);
    }
    if (c->wake >= 0)
        sqlock_wake_set(c->wake);
}

void pool_give(sqlock *m, struct conn *c, int broken)
{
    if ((broken || c->cut) && c->native != NULL) {
        m->driver->close(c->native);
        c->native = NULL;
    }
    close_stray(m, c);
    mutex_lock(&m->mu);
    c->busy = 0;
    c->used = 1;
    cond_wake_all(&m->conn_free);
    mutex_unlock(&m->mu);
}

void pool_close_all(sqlock *m)
{
    for (int i = 0; i < m->n_conns; i++) {
        if (m->conns[i].native != NULL)
            m->driver->close(m->conns[i].native);
        m->conns[i].native = NULL;
        sqlock_wake_close(m->conns[i].wake);
        m->conns[i].wake = -1;
    }
}
