/* Waiting in the database's queues: who of this manager waits there, and who was called. */
#include <assert.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/beat.h"
#include "core/engine/circles.h"
#include "core/engine/errand.h"
#include "core/engine/hearing.h"
#include "core/engine/leavers.h"
#include "core/engine/lines.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define PAST_END_US  INT64_C(1000)   /* a look a moment before the lease's end would be in vain */
#define BEHIND_US    INT64_C(20000)  /* so much later looks each one behind the first, */
#define NEAR         64              /* up to this place */
#define FIRST_US     INT64_C(200000) /* the first of a manager at most this much later, */
#define FIRST_EACH   INT64_C(1000)   /* and this for each place before its own */
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
    list_init(&q->alone);
    leavers_init(m);
    q->has_client = random_bytes(q->client, sizeof q->client) == 0;
}

void queue_free(sqlock *m)
{
    struct queue *q = &m->queue;

    assert(list_is_empty(&q->places));
    leavers_free(m);
    circles_free(&q->circles);
    hash_free(&q->owners);
    hash_free(&q->names);
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

/* With room to leave, when there may be no memory. */
static struct place *place_new(sqlock_op *op)
{
    const size_t size = leaver_size(op->lock);
    struct place *p = sqlock_mem_alloc(size > sizeof *p ? size : sizeof *p);

    if (p == NULL)
        return NULL;
    p->op = op;
    p->came = sqlock_now_us();
    list_init(&p->in_queue);
    list_init(&p->in_line);
    list_init(&p->in_alone);
    return p;
}

int queue_enter(sqlock_op *op, int alone)
{
    sqlock *m = op->m;
    struct place *p;

    assert(mutex_is_mine(&m->mu));
    if (op->in_queue != NULL)
        return 1;
    if (manager_start_threads(m) != 0 || (p = place_new(op)) == NULL)
        return 0;
    if (!line_join(p, alone)) {
        sqlock_mem_free(p);
        return 0;
    }
    list_append(&m->queue.places, &p->in_queue);
    hash_put(&m->queue.owners, &p->by_owner, owner_key(op->lock->owner));
    op->in_queue = p;
    beat_soon(m, sqlock_now_us());
    circles_come(p);
    worker_wake(m, time_min(queue_due(m), hearing_due(m)));
    return 1;
}

void queue_end(sqlock_op *op, int code)
{
    struct place *p = op->in_queue;
    sqlock *m = op->m;

    circles_go(p);
    op->in_queue = NULL;
    line_part(p);
    op->lock->contended = 1;
    op->lock->gave_up = code != 0 && code != SQLOCK_EUNSURE;
    op->lock->queued = code == SQLOCK_EUNSURE && p->sent;
    hash_remove(&m->queue.owners, &p->by_owner);
    list_remove(&p->in_queue);
    if (list_is_empty(&m->queue.places)) {
        hearing_stop(m);
        cond_wake_all(&m->queue.left);
    }
    if (code == 0 || m->stopping || !p->sent)
        sqlock_mem_free(p);
    else if (code == SQLOCK_EUNSURE) /* its handle settles what became of the request */
        leavers_add(p, op->lock, GIVES_NOTHING);
    else
        leavers_add(p, op->lock, leavers_give(op->lock));
}

static int place_is_for(const struct place *p, const void *ns, size_t ns_len, const void *name,
                        size_t name_len)
{
    const sqlock_lock *lock = p->op->lock;

    return lock->name_len == name_len && memcmp(lock->name, name, name_len) == 0 &&
           lock->ns_len == ns_len && memcmp(lock->ns, ns, ns_len) == 0;
}

/* From there on in a chain; NULL: no more. */
static struct place *queue_next_of(struct hash_node *at,
                                   const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    for (; at != NULL; at = at->next) {
        struct place *p = LIST_MEMBER(at, struct place, by_owner);

        if (memcmp(p->op->lock->owner, owner, SQLOCK_OWNER_SIZE) == 0)
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
    const int64_t before = p->number - 1;
    int64_t behind = p->number <= NEAR ? before * BEHIND_US : TIME_NEVER;

    if (p->line->first == p)
        behind = time_min(behind, FIRST_US + before * FIRST_EACH);
    return behind == TIME_NEVER ? last : time_min(end + PAST_END_US + behind, last);
}

void place_call(struct place *p)
{
    place_look_at(p, 0);
    p->called = 1;
}

void queue_cancel_all(sqlock *m)
{
    LIST_EACH(at, &m->queue.places)
    {
        struct place *p = LIST_MEMBER(at, struct place, in_queue);

        p->op->cancelled = 1;
        place_look_at(p, 0);
        ops_plan(p->op); /* it may pause */
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
int place_hears(struct place *p, const struct answer *a, int64_t now)
{
    if (p == NULL)
        return 0;
    line_queue(p);
    if (a->next_token > 0 && p->op->parked && p->op->driven_by == NULL &&
        a->server == p->op->m->server && p->line->for_seats != p)
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
    if (q->end != QUEUE_LASTS)
        return q->end == QUEUE_ENDS ? 0 : TIME_NEVER;
    return !list_is_empty(&q->places) || q->parted != NULL ? q->beat_at : TIME_NEVER;
}

int64_t queue_due(const sqlock *m)
{
    const struct queue *q = &m->queue;

    return time_min(time_min(queue_beats_at(q), lines_due(m)),
                    time_min(leavers_due(q), circles_due(&q->circles)));
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

void queue_run(sqlock *m)
{
    struct queue *q = &m->queue;
    int64_t now = sqlock_now_us();

    if (q->end == QUEUE_ENDS)
        beat_end(m);
    else if (lines_due(m) <= now)
        lines_run(m, now);
    else if (queue_beats_at(q) <= now) /* many may leave: the client is to live all the same */
        beat_run(m);
    else if (circles_due(&q->circles) <= now)
        circles_run(m);
    else
        leavers_run(m);
}
