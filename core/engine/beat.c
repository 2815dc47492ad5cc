/* The beat: the database learns that this client lives, and the client how its waiters stand. */
#include "core/engine/beat.h"

#include "core/engine/leavers.h"
#include "core/engine/lines.h"
#include "core/engine/op.h"

#define BEAT_US    INT64_C(1000000)
#define LOOK_LEAST INT64_C(1000) /* where there are no notifications; also to begin to listen */
#define LOOK_MOST  INT64_C(75000)
#define LOOK_PLACE INT64_C(4000)   /* for each one before the first of ours */
#define GHOSTS_US  INT64_C(900000) /* looks that come often take those for ghosts that just left */
#define FAILED_US  INT64_C(250000) /* a beat that failed: several fit into the time of a client */

/* Without notifications: often while its turn is near, less often the longer nothing has changed.
 */
static int64_t beat_interval(const sqlock *m, int64_t now)
{
    const struct queue *q = &m->queue;
    int64_t young = time_max((now - q->best_at) / 8, LOOK_LEAST);

    if (q->hears)
        return BEAT_US;
    return time_min(time_max(young, (q->best - 1) * LOOK_PLACE), LOOK_MOST);
}

static void beat_note_best(sqlock *m, int64_t best, int64_t now)
{
    if (best != m->queue.best)
        m->queue.best_at = now;
    m->queue.best = best;
}

void beat_soon(sqlock *m, int64_t now)
{
    beat_note_best(m, 0, now);
    if (!m->queue.hears)
        m->queue.beat_at = time_min(m->queue.beat_at, now + LOOK_LEAST);
}

/* The next in line looks when the holder's lease ends. Others need not look. A place behind another
 * of ours may be missing.
 *
 * A waiter of this client that no op is behind is a ghost, and leaves. A server that took over has
 * lost the request that took it out, or one that queued it came late. ghosts: all others that are
 * to leave have left, so whoever is unknown is one. */
static void beat_read_row(sqlock *m, const sqlock_rows *rows, size_t row, int64_t sent, int ghosts)
{
    int64_t left = rows_int(rows, row, SQLOCK_COL_LEFT, INT64_MIN), number, due;
    size_t len = 0, ns_len = 0, name_len = 0;
    const void *owner = rows_bytes(rows, row, SQLOCK_COL_BEAT_OWNER, &len);
    const void *ns = rows_bytes(rows, row, SQLOCK_COL_BEAT_NS, &ns_len);
    const void *name = rows_bytes(rows, row, SQLOCK_COL_BEAT_NAME, &name_len);
    struct place *p;

    if (owner == NULL || len != SQLOCK_OWNER_SIZE || ns == NULL || name == NULL)
        return;
    if ((p = queue_find(m, ns, ns_len, name, name_len, owner)) == NULL) {
        if (ghosts)
            leavers_take_out(m, ns, ns_len, name, name_len, owner, GIVES_NOTHING);
        return;
    }
    line_queue(p);
    if ((number = rows_int(rows, row, SQLOCK_COL_BEAT_PLACE, 0)) > 0)
        line_number(p, number);
    else
        p->number = time_max(p->number, 2);
    p->since = p->since != 0 ? p->since : sent;
    p->seen = 1;
    due = place_due(p, left < 0 ? sent : sent + left, op_last_try(p->op));
    place_look_at(p,
                  left < 0 ? time_min(due, p->op->next_at) : due); /* it may be due since before */
}

/* Who was in the queue when this was sent, and is not any more, was offered the lock or passed
 * over. */
static void beat_read(sqlock *m, const sqlock_rows *rows, int64_t sent)
{
    int ghosts = list_is_empty(&m->queue.leavers) && sent >= m->queue.ghosts_at;
    int64_t now = sqlock_now_us(), best = 0;

    if (ghosts)
        m->queue.ghosts_at = sent + GHOSTS_US;
    LIST_EACH(at, &m->queue.places)
    {
        LIST_MEMBER(at, struct place, in_queue)->seen = 0;
    }
    for (size_t row = 0; row < sqlock_rows_count(rows); row++)
        beat_read_row(m, rows, row, sent, ghosts);
    LIST_EACH(at, &m->queue.places)
    {
        struct place *p = LIST_MEMBER(at, struct place, in_queue);

        if (!p->seen && p->since != 0 && p->since < sent && p->line->passing <= now)
            place_call(p);
        if (p->seen && p->number > 0 && (best == 0 || p->number < best))
            best = p->number;
    }
    beat_note_best(m, best, sent);
}

/* The database needs the connection that listened no more, or takes the client for dead. */
static void beat_part(sqlock *m, int rc)
{
    void *parted = m->queue.parted;

    if (parted == NULL || (rc != 0 && sqlock_now_us() < m->queue.alive_until))
        return;
    m->queue.parted = NULL;
    mutex_unlock(&m->mu);
    m->driver->close(parted);
    mutex_lock(&m->mu);
}

/* Only the session that listens may say that its own life shows the client's: others could end
 * sooner. While something else uses it, the time has to do. When it has ended there is no time to
 * open a connection: until this beat the database takes the client for dead (P21). */
void beat_run(sqlock *m)
{
    const int by_session = m->queue.hears && (!m->conns[0].busy || m->queue.hearing);
    const enum pool_use use = by_session                ? POOL_RESERVED
                              : m->queue.parted != NULL ? POOL_OPEN
                                                        : POOL_RENEWALS;
    sqlock_value values[] = {value_bytes(m->queue.client, sizeof m->queue.client),
                             value_int(QUEUE_ALIVE_US), value_int(by_session)};
    int64_t sent;
    sqlock_rows rows;
    int rc;

    rows_init(&rows);
    rc = queue_send(m, use, SQLOCK_STMT_BEAT, values, &rows, &sent, NULL);
    if (rc == 0) {
        queue_lives(m, sent);
        beat_read(m, &rows, sent);
        m->queue.beat_at = time_max(sent + beat_interval(m, sent), sqlock_now_us() + LOOK_LEAST);
    } else {
        m->queue.beat_at = sqlock_now_us() + FAILED_US;
    }
    rows_end(&rows);
    beat_part(m, rc);
}

void beat_end(sqlock *m)
{
    sqlock_value values[] = {value_bytes(m->queue.client, sizeof m->queue.client), value_int(0),
                             value_int(0)};
    sqlock_rows rows;
    int64_t sent;

    rows_init(&rows);
    queue_send(m, POOL_RENEWALS, SQLOCK_STMT_BEAT, values, &rows, &sent, NULL);
    rows_end(&rows);
    m->queue.end = QUEUE_ENDED;
    cond_wake_all(&m->queue.left);
}
