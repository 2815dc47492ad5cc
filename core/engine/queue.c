/* Waiting in the database's queues: who of this manager waits there, that it lives, who was called,
 * and who leaves. */
#include <assert.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/errand.h"
#include "core/engine/lines.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define BEAT_US      INT64_C(1000000)
#define LOOK_LEAST   INT64_C(2000) /* where there are no notifications */
#define LOOK_MOST    INT64_C(50000)
#define LOOK_PLACE   INT64_C(4000) /* for each one before the first of ours */
#define AGAIN_US     INT64_C(20000)
#define GHOSTS_US    INT64_C(900000) /* looks that come often take those for ghosts that just left */
#define FAILED_US    INT64_C(250000) /* a beat that failed: several fit into the time of a client */
#define ERRAND_MOST  INT64_C(500000)
#define ERRAND_LEAST INT64_C(50000)
#define PAST_END_US  INT64_C(1000)   /* a look a moment before the lease's end would be in vain */
#define LENT_US      INT64_C(200000) /* to others who need the connection now */

static uint64_t owner_key(const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    uint64_t key;

    memcpy(&key, owner, sizeof key);
    return key;
}

void queue_init(sqlock *m)
{
    struct queue *q = &m->queue;

    list_init(&q->places);
    list_init(&q->leavers);
    list_init(&q->alone);
    cond_init(&q->left);
    q->leave_at = TIME_NEVER;
    q->has_client = random_bytes(q->client, sizeof q->client) == 0;
}

void queue_free(sqlock *m)
{
    struct queue *q = &m->queue;

    assert(list_is_empty(&q->places));
    while (!list_is_empty(&q->leavers)) {
        struct place *p = LIST_MEMBER(q->leavers.next, struct place, in_queue);

        list_remove(&p->in_queue);
        sqlock_mem_free(p);
    }
    hash_free(&q->owners);
    hash_free(&q->names);
    cond_free(&q->left);
}

int queue_serves(const sqlock *m)
{
    return m->queue.has_client && texts_has(m->texts, SQLOCK_STMT_QUEUE, NULL) == 0 &&
           texts_has(m->texts, SQLOCK_STMT_BEAT, NULL) == 0 &&
           texts_has(m->texts, SQLOCK_STMT_LEAVE, NULL) == 0;
}

int queue_is_alive(const sqlock *m, int64_t now)
{
    return now < m->queue.alive_until - QUEUE_ALIVE_US / 2;
}

/* Without notifications: often while its turn is near, less often the longer nothing has changed.
 */
static int64_t queue_interval(const sqlock *m, int64_t now)
{
    const struct queue *q = &m->queue;
    int64_t young = time_max((now - q->best_at) / 8, LOOK_LEAST);

    if (q->hears)
        return BEAT_US;
    return time_min(time_max(young, (q->best - 1) * LOOK_PLACE), LOOK_MOST);
}

static void queue_note_best(sqlock *m, int64_t best, int64_t now)
{
    if (best != m->queue.best)
        m->queue.best_at = now;
    m->queue.best = best;
}

/* Its place is not known before the next look. */
static void queue_look_soon(sqlock *m, int64_t now)
{
    queue_note_best(m, 0, now);
    if (!m->queue.hears)
        m->queue.beat_at = time_min(m->queue.beat_at, now + LOOK_LEAST);
}

void queue_lives(sqlock *m, int64_t sent)
{
    m->queue.alive_until = time_max(m->queue.alive_until, sent + QUEUE_ALIVE_US);
}

/* NULL: no memory. */
static struct place *place_new(sqlock *m, const void *ns, size_t ns_len, const void *name,
                               size_t name_len, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    struct place *p = sqlock_mem_alloc(sizeof *p + ns_len + name_len);

    if (p == NULL)
        return NULL;
    p->m = m;
    p->ns_len = ns_len;
    p->name_len = name_len;
    memcpy(p->ns, ns, ns_len);
    p->name = p->ns + ns_len;
    memcpy(p->ns + ns_len, name, name_len);
    memcpy(p->owner, owner, sizeof p->owner);
    list_init(&p->in_queue);
    list_init(&p->in_line);
    list_init(&p->in_alone);
    return p;
}

int queue_enter(sqlock_op *op, int alone)
{
    sqlock_lock *lock = op->lock;
    sqlock *m = op->m;
    struct place *p;

    assert(mutex_is_mine(&m->mu));
    if (op->in_queue != NULL)
        return 1;
    if (manager_start_threads(m) != 0 ||
        (p = place_new(m, lock->ns, lock->ns_len, lock->name, lock->name_len, lock->owner)) == NULL)
        return 0;
    if (!line_join(p, alone)) {
        sqlock_mem_free(p);
        return 0;
    }
    p->op = op;
    list_append(&m->queue.places, &p->in_queue);
    hash_put(&m->queue.owners, &p->by_owner, owner_key(p->owner));
    op->in_queue = p;
    queue_look_soon(m, sqlock_now_us());
    worker_wake(m, queue_due(m));
    return 1;
}

static void place_let_leave(sqlock *m, struct place *p)
{
    list_append(&m->queue.leavers, &p->in_queue);
    m->queue.leave_at = 0;
    worker_wake(m, 0);
}

void queue_end(sqlock_op *op, int code)
{
    struct place *p = op->in_queue;
    sqlock *m = op->m;

    if (p == NULL)
        return;
    op->in_queue = NULL;
    p->op = NULL;
    line_part(p);
    op->lock->contended = 1;
    op->lock->gave_up = code != 0 && code != SQLOCK_EUNSURE;
    hash_remove(&m->queue.owners, &p->by_owner);
    list_remove(&p->in_queue);
    if (list_is_empty(&m->queue.places))
        queue_stop_hearing(m);
    if (code == 0 || m->stopping || !p->sent) {
        sqlock_mem_free(p);
        return;
    }
    p->gives = code != SQLOCK_EUNSURE; /* else its handle settles what became of the request */
    place_let_leave(m, p);
}

struct place *queue_find(const sqlock *m, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    struct hash_node *at = hash_chain(&m->queue.owners, owner_key(owner));

    for (; at != NULL; at = at->next) {
        struct place *p = LIST_MEMBER(at, struct place, by_owner);

        if (memcmp(p->owner, owner, sizeof p->owner) == 0)
            return p;
    }
    return NULL;
}

static void place_look_at(struct place *p, int64_t at)
{
    if (p->op->parked)
        op_wake(p->op, at);
}

void place_call(struct place *p)
{
    p->called = 1;
    place_look_at(p, 0);
}

static void queue_wake(sqlock *m, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    struct place *p = queue_find(m, owner);

    if (p != NULL)
        place_call(p);
}

void queue_give_back(const sqlock_lock *lock, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    struct place *p = place_new(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len, owner);

    if (p == NULL)
        return; /* its lease runs out */
    p->gives = 1;
    place_let_leave(lock->m, p);
}

void queue_cancel_all(sqlock *m)
{
    LIST_EACH(at, &m->queue.places)
    {
        struct place *p = LIST_MEMBER(at, struct place, in_queue);

        p->op->cancelled = 1;
        place_look_at(p, 0);
    }
}

/* The lease counts from the request that made the grant, whichever that was. */
static void place_grant(struct place *p, const struct answer *from, int64_t now)
{
    struct answer a;

    answer_clear(&a);
    a.outcome = SQLOCK_OUT_DONE;
    a.token = from->next_token;
    a.left = from->next_left;
    a.now = a.since = from->now;
    a.sent = from->sent;
    a.received = from->received;
    a.server = from->server;
    op_take_answer(p->op, &a, now);
}

/* An op that a lane has been started for looks by itself: no one else ends it now. */
int queue_call(sqlock *m, const struct answer *a, int64_t now)
{
    struct place *p = a->has_next ? queue_find(m, a->next_owner) : NULL;

    if (p == NULL)
        return 0;
    line_queue(p);
    if (a->next_token > 0 && p->op->parked && p->op->driven_by == NULL && a->server == m->server)
        place_grant(p, a, now);
    else
        place_call(p);
    return 1;
}

int64_t queue_due(const sqlock *m)
{
    const struct queue *q = &m->queue;

    return time_min(time_min(list_is_empty(&q->places) ? TIME_NEVER : q->beat_at, lines_due(m)),
                    list_is_empty(&q->leavers) ? TIME_NEVER : q->leave_at);
}

/* ---- the beat -------------------------------------------------------------------------------- */

/* A waiter of this client that no op is behind: a server that took over has lost the request that
 * took it out, or one that queued it came late. It leaves. */
static void queue_read_ghost(sqlock *m, const sqlock_rows *rows, size_t row,
                             const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    size_t ns_len = 0, name_len = 0;
    const void *ns = rows_bytes(rows, row, SQLOCK_COL_BEAT_NS, &ns_len);
    const void *name = rows_bytes(rows, row, SQLOCK_COL_BEAT_NAME, &name_len);
    struct place *p =
        ns != NULL && name != NULL ? place_new(m, ns, ns_len, name, name_len, owner) : NULL;

    if (p != NULL)
        place_let_leave(m, p);
}

/* The next in line looks when the holder's lease ends. Others need not look. A place behind another
 * of ours may be missing. ghosts: the others that are to leave have left, so who is unknown is a
 * ghost. */
static void queue_read_row(sqlock *m, const sqlock_rows *rows, size_t row, int64_t sent, int ghosts)
{
    int64_t left = rows_int(rows, row, SQLOCK_COL_LEFT, INT64_MIN);
    size_t len = 0;
    const void *owner = rows_bytes(rows, row, SQLOCK_COL_BEAT_OWNER, &len);
    struct place *p;

    if (owner == NULL || len != SQLOCK_OWNER_SIZE)
        return;
    if ((p = queue_find(m, owner)) == NULL) {
        if (ghosts)
            queue_read_ghost(m, rows, row, owner);
        return;
    }
    line_queue(p);
    p->number = rows_int(rows, row, SQLOCK_COL_BEAT_PLACE, time_max(p->number, 2));
    p->since = p->since != 0 ? p->since : sent;
    p->seen = 1;
    if (p->number == 1)
        place_look_at(p, left < 0 ? 0 : sent + left + PAST_END_US);
    else
        place_look_at(p, op_last_try(p->op));
}

/* Who was in the queue when this was sent, and is not any more, was offered the lock or passed
 * over. */
static void queue_read_beat(sqlock *m, const sqlock_rows *rows, int64_t sent)
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
        queue_read_row(m, rows, row, sent, ghosts);
    LIST_EACH(at, &m->queue.places)
    {
        struct place *p = LIST_MEMBER(at, struct place, in_queue);

        if (!p->seen && p->since != 0 && p->since < sent && p->line->passing <= now)
            place_call(p);
        if (p->seen && p->number > 0 && (best == 0 || p->number < best))
            best = p->number;
    }
    queue_note_best(m, best, sent);
}

/* A part of the time that the renewals have left. */
static int64_t queue_errand_end(sqlock *m, int64_t now)
{
    int64_t left = renewals_left(m, now);

    return now + time_max(time_min(time_min(m->request_us, ERRAND_MOST), left / 4), ERRAND_LEAST);
}

static int queue_send(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, sqlock_rows *rows,
                      int64_t *out_sent, sqlock_error *err)
{
    struct errand e = {.use = POOL_RENEWALS,
                       .stmt = stmt,
                       .values = values,
                       .n = 1,
                       .deadline = queue_errand_end(m, sqlock_now_us()),
                       .rows = rows};
    int rc;

    mutex_unlock(&m->mu);
    rc = errand_run(m, &e);
    mutex_lock(&m->mu);
    *out_sent = e.sent;
    if (rc != 0 && err != NULL)
        *err = e.err;
    return rc;
}

static void queue_beat(sqlock *m)
{
    sqlock_value values[] = {value_bytes(m->queue.client, sizeof m->queue.client),
                             value_int(QUEUE_ALIVE_US), value_int(m->queue.hears)};
    int64_t sent;
    sqlock_rows rows;

    rows_init(&rows);
    if (queue_send(m, SQLOCK_STMT_BEAT, values, &rows, &sent, NULL) == 0) {
        queue_lives(m, sent);
        queue_read_beat(m, &rows, sent);
        m->queue.beat_at = sent + queue_interval(m, sent);
    } else {
        m->queue.beat_at = sqlock_now_us() + FAILED_US;
    }
    rows_end(&rows);
}

/* ---- notifications ----------------------------------------------------------------------------
 */

static const unsigned char no_owner[SQLOCK_OWNER_SIZE];

/* The reserved connection, which renewals and beats need only now and then. Behind a pooler none:
 * to listen would leave something in a session that others get. */
int64_t queue_hear_due(const sqlock *m)
{
    const struct conn *c = &m->conns[0];
    int can = m->driver->hear != NULL && !list_is_empty(&m->queue.places) && !c->busy &&
              c->native != NULL && !m->queue.deaf && !(m->flags & SQLOCK_OPEN_UNPREPARED) &&
              texts_has(m->texts, SQLOCK_STMT_NOTIFY, NULL) == 0;

    return can ? m->queue.hear_at : TIME_NEVER;
}

void queue_is_deaf(sqlock *m)
{
    m->queue.hears = 0;
    m->queue.beat_at = 0;
    worker_wake(m, queue_due(m));
}

void queue_lend(sqlock *m)
{
    if (!m->queue.hearing)
        return;
    m->queue.hear_at = sqlock_now_us() + LENT_US;
    queue_stop_hearing(m);
}

void queue_lent_back(sqlock *m)
{
    if (m->queue.hear_at <= sqlock_now_us())
        return;
    m->queue.hear_at = 0;
    worker_wake(m, 0);
}

void queue_stop_hearing(sqlock *m)
{
    if (m->queue.hearing)
        pool_cancel_call(m, &m->conns[0]);
}

/* A pooler may take the request and never pass a notification on. So the client first notifies
 * itself. Until it hears that, its waiters look. */
static int queue_listen(sqlock *m, struct conn *c, sqlock_error *err)
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

static void queue_read_calls(sqlock *m, const sqlock_rows *rows)
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
            queue_wake(m, owner);
    }
}

static int queue_hear_on(sqlock *m, struct conn *c, int64_t until, sqlock_error *err)
{
    sqlock_rows rows;
    int rc = 0;

    if (!c->listens) {
        m->queue.hears = 0;
        rc = queue_listen(m, c, err);
    }
    rows_init(&rows);
    if (rc == 0) {
        m->queue.hearing = 1;
        rc = call_hear(m, c, until, &rows, err);
        m->queue.hearing = 0;
    }
    queue_read_calls(m, &rows);
    rows_end(&rows);
    return rc;
}

void queue_hear(sqlock *m, int64_t until)
{
    sqlock_error err = {0};
    struct conn *c;

    if (pool_take(m, POOL_RESERVED, NULL, sqlock_now_us() + ERRAND_LEAST, &c, &err) != 0)
        return;
    if (queue_hear_on(m, c, until, &err) != 0) {
        m->queue.hears = 0;
        m->queue.deaf = !(err.flags & SQLOCK_RECONNECT) && err.code != SQLOCK_ECANCELLED;
    }
    pool_give(m, c, err.flags & SQLOCK_RECONNECT);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void queue_notify(sqlock *m, const struct answer *a)
{
    sqlock_value values[] = {value_bytes(a->next_client, sizeof a->next_client),
                             value_bytes(a->next_owner, sizeof a->next_owner)};
    sqlock_rows rows;
    int64_t sent;

    if (!a->has_next || queue_call(m, a, sqlock_now_us()) ||
        texts_has(m->texts, SQLOCK_STMT_NOTIFY, NULL) != 0)
        return;
    rows_init(&rows);
    queue_send(m, SQLOCK_STMT_NOTIFY, values, &rows, &sent, NULL);
    rows_end(&rows);
}

/* Returns when to try again. TIME_NEVER: it has left, or never can. While no server answers it
 * stays in the list: a place that no one wants would cost others an offer. */
static int64_t place_leave(sqlock *m, struct place *p)
{
    sqlock_value values[] = {value_bytes(p->ns, p->ns_len), value_bytes(p->name, p->name_len),
                             value_bytes(p->owner, sizeof p->owner), value_int(p->gives)};
    sqlock_error err = {0};
    struct answer a;
    sqlock_rows rows;
    int64_t sent;

    rows_init(&rows);
    queue_send(m, SQLOCK_STMT_LEAVE, values, &rows, &sent, &err);
    answer_clear(&a);
    if (sqlock_rows_count(&rows) > 0)
        answer_read(&rows, 0, &a);
    rows_end(&rows);
    queue_notify(m, &a);
    if (err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT))
        return sqlock_now_us() + FAILED_US;
    return a.outcome == SQLOCK_OUT_SKIPPED ? sqlock_now_us() + AGAIN_US : TIME_NEVER;
}

static void queue_let_leave(sqlock *m)
{
    struct queue *q = &m->queue;
    struct place *p = LIST_MEMBER(q->leavers.next, struct place, in_queue);
    int64_t again;

    list_remove(&p->in_queue);
    q->leaving++;
    q->leave_at = 0;
    again = place_leave(m, p);
    if (again == TIME_NEVER) {
        sqlock_mem_free(p);
    } else {
        list_append(&q->leavers, &p->in_queue);
        q->leave_at = again;
    }
    q->leaving--;
    cond_wake_all(&q->left);
}

void queue_run(sqlock *m)
{
    struct queue *q = &m->queue;
    int64_t now = sqlock_now_us();

    if (lines_due(m) <= now)
        lines_run(m, now);
    else if (!list_is_empty(&q->leavers) && q->leave_at <= now)
        queue_let_leave(m);
    else
        queue_beat(m);
}

/* Without threads those that are left cost others an offer each. */
void queue_flush(sqlock *m, int64_t until)
{
    struct queue *q = &m->queue;

    while (m->worker_runs && (!list_is_empty(&q->leavers) || q->leaving) && sqlock_now_us() < until)
        cond_wait_until(&q->left, &m->mu, until);
}
