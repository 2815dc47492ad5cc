/* Opens a connection of the pool: at one of the hosts, until a deadline, and with its handshake. */
#include <assert.h>
#include <string.h>

#include "core/engine/handshake.h"
#include "core/engine/hosts.h"
#include "core/engine/opening.h"

/* Only requests for locks have such codes. 0, or a number that is no code, counts as well. */
static int opening_code_is_of_lock(int code)
{
    return code > SQLOCK_ECANCELLED || code == SQLOCK_EDEADLOCK;
}

/* A connection factory belongs to the application. It may fail with any number and without a text.
 * Without a proper code its failure would look like a success, or like a lock that is held. */
static void opening_explain(sqlock_error *err, int code)
{
    char text[sizeof err->text];

    memcpy(text, err->text, sizeof text);
    sqlock_error_set(err, opening_code_is_of_lock(code) ? SQLOCK_EUNREACH : code,
                     err->flags | SQLOCK_RETRY, "cannot connect (%d): %.200s", code,
                     text[0] != '\0' ? text : "no reason given");
}

int opening_connect(sqlock *m, int wake_fd, uint32_t host, int64_t deadline, void **out_native,
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
    if (m->connect != NULL) /* the application's error, which may have any flags */
        failure.flags &= SQLOCK_RETRY | SQLOCK_RECONNECT;
    if (opening_code_is_of_lock(failure.code))
        opening_explain(&failure, failure.code != 0 ? failure.code : rc);
    return error_give(err, &failure);
}

/* From now on cancels, and the manager's end, end the opening, unless one came already. */
static int opening_enter(sqlock *m, struct conn *c, sqlock_op *op, sqlock_error *err)
{
    int rc = 0;

    mutex_lock(&m->mu);
    assert(c->busy && c->native == NULL);
    if (c->wake < 0)
        c->wake = sqlock_wake_make();
    if (c->wake < 0)
        rc = sqlock_error_set(err, SQLOCK_ESYS, SQLOCK_RETRY, "no file descriptor available");
    else if (m->stopping || (op != NULL && op->end_attempt))
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

/* Learn how long an opening takes, from the last ones. m->mu is held. */
static void opening_note(sqlock *m, int rc, int64_t took)
{
    int64_t known = rc == 0 ? m->opening / 2 : m->opening;

    assert(mutex_is_mine(&m->mu));
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

static int opening_visit(void *arg, uint32_t host, int last_resort, int64_t until,
                         sqlock_error *err)
{
    struct opening *o = arg;
    struct conn *c = o->c;
    int rc;

    if ((rc = opening_enter(o->m, c, o->op, err)) != 0)
        return rc;
    rc = opening_connect(o->m, c->wake, host, until, &c->native, err);
    mutex_lock(&o->m->mu);
    if (o->op != NULL)
        o->op->connecting = NULL;
    c->used = c->listens = 0;
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

int opening_run(sqlock *m, struct conn *c, sqlock_op *op, int64_t deadline, sqlock_error *err)
{
    struct opening o = {m, c, op};
    int64_t begun = sqlock_now_us();
    int rc = hosts_walk(m, opening_visit, &o, deadline, err);

    mutex_lock(&m->mu);
    m->reserved_tried |= c == &m->conns[0];
    opening_note(m, rc, sqlock_now_us() - begun);
    mutex_unlock(&m->mu);
    return rc;
}

/* Renewals give a call a third of the time that is left, which leaves time for other calls. An
 * opening may take three quarters, so that a usual opening is not broken off. */
int64_t opening_by(const sqlock *m, enum pool_use use, int64_t deadline)
{
    int64_t now = sqlock_now_us();

    return use != POOL_RENEWALS ? deadline
                                : time_max(deadline, time_min(now + 2 * m->opening,
                                                              deadline + (deadline - now) * 5 / 4));
}
