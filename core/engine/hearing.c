/* Notifications: on one connection, the database says who should look at its lock. */
#include "core/engine/hearing.h"

#include <string.h>

#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define TAKE_US   INT64_C(50000)  /* for the connection, which may be in use */
#define OPEN_US   INT64_C(500000) /* to open it, if it is not known how long that takes */
#define FAILED_US INT64_C(500000) /* until it is tried again to begin */
#define LENT_US   INT64_C(200000) /* to others who need the connection now */

static const unsigned char no_owner[SQLOCK_OWNER_SIZE];

/* The reserved connection, which renewals and beats need only now and then. Behind a pooler none:
 * to listen would leave something in a session that others get. None either until the one that
 * listened before has been closed. */
int64_t hearing_due(const sqlock *m)
{
    const struct conn *c = &m->conns[0];
    int can = m->driver->hear != NULL && !list_is_empty(&m->queue.places) && !c->busy &&
              m->queue.parted == NULL && !m->queue.deaf && !(m->flags & SQLOCK_OPEN_UNPREPARED) &&
              texts_has(m->texts, SQLOCK_STMT_NOTIFY, NULL) == 0;

    return can ? m->queue.hear_at : TIME_NEVER;
}

/* The database may take the session's end for the client's, and let others pass its waiters. So the
 * connection stays open until a beat has said that the client lives without it. With no waiters,
 * the next one to come beats first. */
void *hearing_ends(sqlock *m, void *native)
{
    struct queue *q = &m->queue;
    void *before = q->parted;

    q->hears = 0;
    q->beat_at = 0;
    if (list_is_empty(&q->places)) {
        q->alive_until = 0;
        return native;
    }
    q->parted = native;
    worker_wake(m, queue_due(m));
    return before;
}

void hearing_lend(sqlock *m)
{
    if (!m->queue.hearing)
        return;
    m->queue.lent = 1;
    m->queue.hear_at = sqlock_now_us() + LENT_US;
    hearing_stop(m);
}

void hearing_take_back(sqlock *m)
{
    m->queue.lent = 0;
    m->queue.hear_at = 0;
    worker_wake(m, 0);
}

void hearing_stop(sqlock *m)
{
    if (m->queue.hearing)
        pool_cancel_call(m, &m->conns[0]);
}

/* A pooler may take the request and never pass a notification on. So the client first notifies
 * itself. Until it hears that, its waiters look. */
static int hearing_listen(sqlock *m, struct conn *c, sqlock_error *err)
{
    sqlock_value values[] = {value_bytes(m->queue.client, sizeof m->queue.client),
                             value_bytes(no_owner, sizeof no_owner)};
    int64_t until = queue_errand_end(m, sqlock_now_us());
    sqlock_rows rows;
    int rc;

    mutex_unlock(&m->mu);
    rows_init(&rows);
    rc = m->driver->listen(c->native, m->queue.client, until, err);
    if (rc == 0)
        rc = call_rows(m, c, NULL, SQLOCK_STMT_NOTIFY, values, 1, until, &rows, NULL, err);
    rows_end(&rows);
    mutex_lock(&m->mu);
    c->listens = rc == 0;
    return rc;
}

static void hearing_read(sqlock *m, const sqlock_rows *rows)
{
    size_t len;

    for (size_t row = 0; row < sqlock_rows_count(rows); row++) {
        const void *owner = rows_bytes(rows, row, 0, &len);

        if (owner == NULL || len != SQLOCK_OWNER_SIZE)
            continue;
        if (memcmp(owner, no_owner, len) == 0) {
            m->queue.hears = 1;
            m->queue.beat_at = 0; /* a notification may have come before that */
        } else
            queue_call_owner(m, owner);
    }
}

static int hearing_run_on(sqlock *m, struct conn *c, int64_t until, sqlock_error *err)
{
    sqlock_rows rows;
    int rc = 0;

    if (!c->listens) {
        m->queue.hears = 0;
        rc = hearing_listen(m, c, err);
    }
    rows_init(&rows);
    if (rc == 0) {
        m->queue.hearing = 1;
        rc = call_hear(m, c, until, &rows, err);
        m->queue.hearing = 0;
    }
    hearing_read(m, &rows);
    rows_end(&rows);
    return rc;
}

/* For good. A process that was stopped on the way had no time left, and tries again. */
static int hearing_is_refused(const sqlock_error *err)
{
    return !(err->flags & (SQLOCK_RECONNECT | SQLOCK_RETRY)) && err->code != SQLOCK_ECANCELLED &&
           err->code != SQLOCK_ETIMEOUT;
}

/* Meanwhile this thread sends no beats and no renewals. */
static int64_t hearing_opening_time(const sqlock *m, int64_t now)
{
    int64_t most = time_min(time_max(2 * m->opening, OPEN_US), QUEUE_ALIVE_US / 2);

    return time_min(time_min(most, m->request_us), renewals_left(m, now) / 4);
}

void hearing_run(sqlock *m, int64_t until)
{
    const int opens = m->conns[0].native == NULL;
    int64_t now = sqlock_now_us();
    sqlock_error err = {0};
    struct conn *c;

    if (pool_take(m, POOL_RESERVED, NULL, now + (opens ? hearing_opening_time(m, now) : TAKE_US),
                  &c, &err) != 0) {
        if (opens)
            m->queue.hear_at = sqlock_now_us() + FAILED_US;
        return;
    }
    if (hearing_run_on(m, c, until, &err) != 0) {
        m->queue.hears = 0;
        m->queue.deaf = hearing_is_refused(&err);
        if (!c->listens && err.code != SQLOCK_ECANCELLED)
            m->queue.hear_at = sqlock_now_us() + FAILED_US;
    }
    pool_give(m, c, err.flags & SQLOCK_RECONNECT);
}
