/* Waiting in the database's queues: who of this manager waits there, who was called, and who
 * leaves. */
#include <assert.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/beat.h"
#include "core/engine/circles.h"
#include "core/engine/errand.h"
#include "core/engine/hearing.h"
#include "core/engine/lines.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define AGAIN_US     INT64_C(20000)
#define PAST_END_US  INT64_C(1000)    /* a look a moment before the lease's end would be in vain */
#define BEHIND_US    INT64_C(20000)   /* so much later looks each one behind the first */
#define NEAR         64               /* places from which one looks */
#define FAILED_US    INT64_C(250000)  /* until the next try, where no server answered, */
#define READONLY_US  INT64_C(1000000) /* or it may only be read */
#define ERRAND_MOST  INT64_C(500000)
#define ERRAND_LEAST INT64_C(50000)

/* Its first bytes may be an actor's, who has many. */
static uint64_t owner_key(const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    uint64_t key;

    memcpy(&key, owner + SQLOCK_OWNER_SIZE - sizeof key, sizeof key);
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
    circles_free(&q->circles);
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

/* A database that notifies no one gives a client half of the time, and writes nothing while it has
 * half of that left. */
int queue_is_alive(const sqlock *m, int64_t now)
{
    int64_t sure = m->queue.hears ? QUEUE_ALIVE_US / 2 : QUEUE_ALIVE_US / 4;

    return now < m->queue.alive_until - QUEUE_ALIVE_US + sure;
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
    p->came = sqlock_now_us();
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
    beat_soon(m, sqlock_now_us());
    circles_come(p);
    worker_wake(m, time_min(queue_due(m), hearing_due(m)));
    return 1;
}

/* Others may have an owner that the application gave, and so may its own next wait. What has been
 * taken up may be theirs, however late the request that gives it back comes. */
static int queue_gives(const sqlock_lock *lock)
{
    return lock->given ? GIVES_OFFERS : GIVES_ALL;
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

    circles_go(p);
    op->in_queue = NULL;
    p->op = NULL;
    line_part(p);
    op->lock->contended = 1;
    op->lock->gave_up = code != 0 && code != SQLOCK_EUNSURE;
    op->lock->queued = code == SQLOCK_EUNSURE && p->sent;
    hash_remove(&m->queue.owners, &p->by_owner);
    list_remove(&p->in_queue);
    if (list_is_empty(&m->queue.places))
        hearing_stop(m);
    if (code == 0 || m->stopping || !p->sent) {
        sqlock_mem_free(p);
        return;
    }
    if (code != SQLOCK_EUNSURE) /* else its handle settles what became of the request */
        p->gives = queue_gives(op->lock);
    place_let_leave(m, p);
}

static int place_is_for(const struct place *p, const void *ns, size_t ns_len, const void *name,
                        size_t name_len)
{
    return p->name_len == name_len && memcmp(p->name, name, name_len) == 0 && p->ns_len == ns_len &&
           memcmp(p->ns, ns, ns_len) == 0;
}

/* From there on in a chain; NULL: no more. */
static struct place *queue_next_of(struct hash_node *at,
                                   const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    for (; at != NULL; at = at->next) {
        struct place *p = LIST_MEMBER(at, struct place, by_owner);

        if (memcmp(p->owner, owner, sizeof p->owner) == 0)
            return p;
    }
    return NULL;
}

struct place *queue_find(const sqlock *m, const void *ns, size_t ns_len, const void *name,
                         size_t name_len, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    struct hash_node *chain = hash_chain(&m->queue.owners, owner_key(owner));
    struct place *p = queue_next_of(chain, owner);

    while (p != NULL && !place_is_for(p, ns, ns_len, name, name_len))
        p = queue_next_of(p->by_owner.next, owner);
    return p;
}

struct place *queue_find_for(const sqlock_lock *lock, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    return queue_find(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len, owner);
}

void queue_call_owner(sqlock *m, const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    struct place *p = queue_next_of(hash_chain(&m->queue.owners, owner_key(owner)), owner);

    for (; p != NULL; p = queue_next_of(p->by_owner.next, owner))
        place_call(p);
}

/* Not later than at once, if it was called while this was found out. */
void place_look_at(struct place *p, int64_t at)
{
    if (p->op->parked && !p->called)
        op_wake(p->op, at);
}

int64_t place_due(const struct place *p, int64_t end, int64_t last)
{
    return p->number <= NEAR ? time_min(end + PAST_END_US + (p->number - 1) * BEHIND_US, last)
                             : last;
}

void place_call(struct place *p)
{
    place_look_at(p, 0);
    p->called = 1;
}

void queue_take_out(sqlock *m, const void *ns, size_t ns_len, const void *name, size_t name_len,
                    const unsigned char owner[SQLOCK_OWNER_SIZE], int gives)
{
    struct place *p = place_new(m, ns, ns_len, name, name_len, owner);

    if (p == NULL)
        return; /* it costs others an offer, and its lease runs out */
    p->gives = gives;
    place_let_leave(m, p);
}

void queue_give_back(const sqlock_lock *lock)
{
    queue_take_out(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len, lock->owner,
                   queue_gives(lock));
}

static uint64_t place_key(const struct place *p)
{
    return line_key(p->ns, p->ns_len, p->name, p->name_len);
}

int queue_is_left(const sqlock_lock *lock, int64_t since)
{
    const struct queue *q = &lock->m->queue;
    uint64_t key = line_key(lock->ns, lock->ns_len, lock->name, lock->name_len);

    LIST_EACH(at, &q->leavers)
    {
        if (place_key(LIST_MEMBER(at, struct place, in_queue)) == key)
            return 1;
    }
    return q->left_key == key && q->left_at >= since;
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
static int place_hears(struct place *p, const struct answer *a, int64_t now)
{
    if (p == NULL)
        return 0;
    line_queue(p);
    if (a->next_token > 0 && p->op->parked && p->op->driven_by == NULL &&
        a->server == p->m->server && p->line->for_seats != p)
        place_grant(p, a, now);
    else
        place_call(p);
    return 1;
}

int queue_call(const sqlock_lock *lock, const struct answer *a, int64_t now)
{
    return a->has_next && place_hears(queue_find_for(lock, a->next_owner), a, now);
}

static int64_t queue_beats_at(const struct queue *q)
{
    return !list_is_empty(&q->places) || q->parted != NULL ? q->beat_at : TIME_NEVER;
}

int64_t queue_due(const sqlock *m)
{
    const struct queue *q = &m->queue;

    return time_min(
        time_min(queue_beats_at(q), lines_due(m)),
        time_min(list_is_empty(&q->leavers) ? TIME_NEVER : q->leave_at, circles_due(&q->circles)));
}

int64_t queue_errand_end(sqlock *m, int64_t now)
{
    int64_t left = renewals_left(m, now);

    return now + time_max(time_min(time_min(m->request_us, ERRAND_MOST), left / 4), ERRAND_LEAST);
}

int queue_send(sqlock *m, enum pool_use use, sqlock_stmt stmt, const sqlock_value *values,
               sqlock_rows *rows, int64_t *out_sent, sqlock_error *err)
{
    struct errand e = {.use = use,
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

/* ---- leaving --------------------------------------------------------------------------------- */

/* The next one behind the place that has left. */
static void queue_notify(sqlock *m, const struct place *left, const struct answer *a)
{
    sqlock_value values[] = {value_bytes(a->next_client, sizeof a->next_client),
                             value_bytes(a->next_owner, sizeof a->next_owner)};
    sqlock_rows rows;
    int64_t sent;

    if (!a->has_next ||
        place_hears(
            queue_find(m, left->ns, left->ns_len, left->name, left->name_len, a->next_owner), a,
            sqlock_now_us()) ||
        texts_has(m->texts, SQLOCK_STMT_NOTIFY, NULL) != 0)
        return;
    rows_init(&rows);
    queue_send(m, POOL_RENEWALS, SQLOCK_STMT_NOTIFY, values, &rows, &sent, NULL);
    rows_end(&rows);
}

/* Returns when to try again. TIME_NEVER: it has left, or never can. While no server answers it
 * stays in the list: a place that no one wants would cost others an offer. If its owner waits again
 * by now, the place in the database is that wait's. */
static int64_t place_leave(sqlock *m, struct place *p)
{
    struct place *again = queue_find(m, p->ns, p->ns_len, p->name, p->name_len, p->owner);
    sqlock_value values[] = {value_bytes(p->ns, p->ns_len), value_bytes(p->name, p->name_len),
                             value_bytes(p->owner, sizeof p->owner), value_int(p->gives)};
    sqlock_error err = {0};
    struct answer a;
    sqlock_rows rows;
    int64_t sent;

    if (again != NULL) {
        again->sent = 1;
        return TIME_NEVER;
    }
    rows_init(&rows);
    queue_send(m, POOL_RENEWALS, SQLOCK_STMT_LEAVE, values, &rows, &sent, &err);
    answer_clear(&a);
    if (sqlock_rows_count(&rows) > 0)
        answer_read(&rows, 0, &a);
    rows_end(&rows);
    queue_notify(m, p, &a);
    if (err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT))
        return sqlock_now_us() + (err.code == SQLOCK_EREADONLY ? READONLY_US : FAILED_US);
    return a.outcome == SQLOCK_OUT_SKIPPED ? sqlock_now_us() + AGAIN_US : TIME_NEVER;
}

static void queue_let_leave(sqlock *m)
{
    struct queue *q = &m->queue;
    struct place *p = LIST_MEMBER(q->leavers.next, struct place, in_queue);
    const uint64_t key = place_key(p);
    int64_t again;

    list_remove(&p->in_queue);
    q->leaving++;
    q->left_key = key;
    q->left_at = TIME_NEVER;
    q->leave_at = 0;
    again = place_leave(m, p);
    if (again == TIME_NEVER) {
        sqlock_mem_free(p);
    } else {
        list_append(&q->leavers, &p->in_queue);
        q->leave_at = again;
    }
    q->leaving--;
    if (q->left_key == key)
        q->left_at = sqlock_now_us();
    cond_wake_all(&q->left);
}

void queue_run(sqlock *m)
{
    struct queue *q = &m->queue;
    int64_t now = sqlock_now_us();

    if (lines_due(m) <= now)
        lines_run(m, now);
    else if (queue_beats_at(q) <= now) /* many may leave: the client is to live all the same */
        beat_run(m);
    else if (circles_due(&q->circles) <= now)
        circles_run(m);
    else
        queue_let_leave(m);
}

/* Those that are left cost others an offer each. */
void queue_flush(sqlock *m, int64_t until)
{
    struct queue *q = &m->queue;
    const int steps = m->loop != NULL && !loop_is_mine(m);

    while ((steps || m->worker_runs) && (!list_is_empty(&q->leavers) || q->leaving) &&
           sqlock_now_us() < until) {
        if (steps)
            loop_pump(m, -1, until);
        else
            cond_wait_until(&q->left, &m->mu, until);
    }
}
