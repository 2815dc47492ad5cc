/* Who of this manager has ended its wait, and leaves the queues of the database. */
#include "core/engine/leavers.h"

#include <string.h>

#include "core/engine/lines.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"

#define AGAIN_US    INT64_C(20000)
#define MANY        8 /* they may take longer to leave than a manager takes to close */
#define TRIES       3 /* an answer without a row: there is no such lock, or MariaDB met a deadlock */
#define FAILED_US   INT64_C(250000)  /* until the next try, where no server answered, */
#define READONLY_US INT64_C(1000000) /* or it may only be read */

/* Who waits no more, but may have a place in a queue. */
struct leaver {
    struct link in_leavers; /* of queue.leavers */
    int gives;              /* what it gives back of what it was given, GIVES_... */
    int unanswered;         /* so often its request to leave found no lock */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    size_t ns_len, name_len;
    const char *name; /* behind ns, both without a NUL */
    char ns[];
};

void leavers_init(sqlock *m)
{
    list_init(&m->queue.leavers);
    cond_init(&m->queue.left);
    m->queue.leave_at = TIME_NEVER;
}

void leavers_free(sqlock *m)
{
    struct queue *q = &m->queue;

    while (!list_is_empty(&q->leavers)) {
        struct leaver *l = LIST_MEMBER(q->leavers.next, struct leaver, in_leavers);

        list_remove(&l->in_leavers);
        sqlock_mem_free(l);
    }
    cond_free(&q->left);
}

int64_t leavers_due(const struct queue *q)
{
    return list_is_empty(&q->leavers) ? TIME_NEVER : q->leave_at;
}

/* Others may have an owner that the application gave, and so may its own next wait. What has been
 * taken up may be theirs, however late the request that gives it back comes. */
int leavers_give(const sqlock_lock *lock)
{
    return lock->given ? GIVES_OFFERS : GIVES_ALL;
}

static void leavers_put(sqlock *m, struct leaver *l, const void *ns, size_t ns_len,
                        const void *name, size_t name_len,
                        const unsigned char owner[SQLOCK_OWNER_SIZE], int gives)
{
    list_init(&l->in_leavers);
    l->gives = gives;
    l->unanswered = 0;
    memcpy(l->owner, owner, sizeof l->owner);
    l->ns_len = ns_len;
    l->name_len = name_len;
    l->name = l->ns + ns_len;
    memcpy(l->ns, ns, ns_len);
    memcpy(l->ns + ns_len, name, name_len);
    list_append(&m->queue.leavers, &l->in_leavers);
    m->queue.leave_at = 0;
    worker_wake(m, 0);
}

size_t leaver_size(const sqlock_lock *lock)
{
    return sizeof(struct leaver) + lock->ns_len + lock->name_len;
}

void leavers_add(void *room, const sqlock_lock *lock, int gives)
{
    leavers_put(lock->m, room, lock->ns, lock->ns_len, lock->name, lock->name_len, lock->owner,
                gives);
}

void leavers_take_out(sqlock *m, const void *ns, size_t ns_len, const void *name, size_t name_len,
                      const unsigned char owner[SQLOCK_OWNER_SIZE], int gives)
{
    struct leaver *l = sqlock_mem_alloc(sizeof *l + ns_len + name_len);

    if (l != NULL) /* else it costs others an offer, and its lease runs out */
        leavers_put(m, l, ns, ns_len, name, name_len, owner, gives);
}

void leavers_give_back(const sqlock_lock *lock)
{
    leavers_take_out(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len, lock->owner,
                     leavers_give(lock));
}

static uint64_t leaver_key(const struct leaver *l)
{
    return line_key(l->ns, l->ns_len, l->name, l->name_len);
}

int leavers_had(const sqlock_lock *lock, int64_t since)
{
    const struct queue *q = &lock->m->queue;
    uint64_t key = line_key(lock->ns, lock->ns_len, lock->name, lock->name_len);

    LIST_EACH(at, &q->leavers)
    {
        if (leaver_key(LIST_MEMBER(at, struct leaver, in_leavers)) == key)
            return 1;
    }
    return q->left_key == key && q->left_at >= since;
}

/* The next one behind the place that has left. */
static void leavers_notify(sqlock *m, const struct leaver *left, const struct answer *a)
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
static int64_t leaver_leave(sqlock *m, struct leaver *l)
{
    struct place *again = queue_find(m, l->ns, l->ns_len, l->name, l->name_len, l->owner);
    sqlock_value values[] = {value_bytes(l->ns, l->ns_len), value_bytes(l->name, l->name_len),
                             value_bytes(l->owner, sizeof l->owner), value_int(l->gives)};
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
    leavers_notify(m, l, &a);
    if (err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT))
        return sqlock_now_us() + (err.code == SQLOCK_EREADONLY ? READONLY_US : FAILED_US);
    if (a.outcome == SQLOCK_OUT_SKIPPED ||
        (err.code == 0 && a.outcome == SQLOCK_OUT_NONE && ++l->unanswered < TRIES))
        return sqlock_now_us() + AGAIN_US;
    return TIME_NEVER;
}

void leavers_run(sqlock *m)
{
    struct queue *q = &m->queue;
    struct leaver *l = LIST_MEMBER(q->leavers.next, struct leaver, in_leavers);
    const uint64_t key = leaver_key(l);
    int64_t again;

    list_remove(&l->in_leavers);
    q->leaving++;
    q->left_key = key;
    q->left_at = TIME_NEVER;
    q->leave_at = 0;
    again = leaver_leave(m, l);
    if (again == TIME_NEVER) {
        sqlock_mem_free(l);
    } else {
        list_append(&q->leavers, &l->in_leavers);
        q->leave_at = again;
    }
    q->leaving--;
    if (q->left_key == key)
        q->left_at = sqlock_now_us();
    cond_wake_all(&q->left);
}

static int leavers_are_many(const struct queue *q)
{
    int n = 0;

    LIST_EACH(at, &q->leavers)
    {
        if (++n == MANY)
            return 1;
    }
    return 0;
}

/* What it was granted no one will use. */
static void leavers_end_grant(const sqlock_op *op)
{
    if (op->code == 0 && op->gives_lock && !op->m->stopping)
        leavers_give_back(op->lock);
}

void leavers_end_op(const sqlock_op *op)
{
    leavers_end_grant(op);
    cond_wake_all(&op->m->queue.left);
}

/* A request of an event loop for a lock, also one that has no place yet. */
static int leavers_op_waits(const sqlock *m)
{
    LIST_EACH(at, &m->ops)
    {
        const sqlock_op *op = LIST_MEMBER(at, sqlock_op, in_manager);

        if (!op->done && op_waits(op))
            return 1;
    }
    return 0;
}

/* Those that wait for locks end, and those that have ended were never finished. */
static void leavers_cancel_ops(sqlock *m)
{
    LIST_EACH(at, &m->ops)
    {
        sqlock_op *op = LIST_MEMBER(at, sqlock_op, in_manager);

        if (op->done)
            leavers_end_grant(op);
        else if (op_waits(op)) {
            op->cancelled = 1;
            ops_plan(op);
        }
    }
}

static int leavers_are_left(const sqlock *m)
{
    const struct queue *q = &m->queue;

    return !list_is_empty(&q->leavers) || !list_is_empty(&q->places) || q->leaving ||
           q->end == QUEUE_ENDS || leavers_op_waits(m);
}

/* Those that are left cost others an offer. So where there is no time for all, or some wait still,
 * the client ends first. Who waits still gives up, and gives back what it was offered. */
void leavers_flush(sqlock *m, int64_t until)
{
    struct queue *q = &m->queue;
    const int steps = m->loop != NULL && !loop_is_mine(m);

    if (leavers_are_many(q) || !list_is_empty(&q->places) || leavers_op_waits(m)) {
        q->end = QUEUE_ENDS;
        queue_cancel_all(m);
        worker_wake(m, 0);
    }
    leavers_cancel_ops(m);
    while ((steps || m->worker_runs) && leavers_are_left(m) && sqlock_now_us() < until) {
        if (steps)
            loop_pump(m, -1, until);
        else
            cond_wait_until(&q->left, &m->mu, until);
    }
}
