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

/* Who waits no more, but may have a place in a queue. Or a grant that no one wants. */
struct leaver {
    struct link in_leavers; /* of queue.leavers */
    int64_t token;          /* of the grant; 0: none, it leaves a queue */
    int gives;              /* what it gives back of what it was given, GIVES_... */
    int unanswered;         /* so often its request to leave found no lock */
    bool seat;              /* the grant is a seat, and the name its row's */
    bool passes;            /* others wait for what was granted */
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
    l->token = 0;
    l->gives = gives;
    l->unanswered = 0;
    l->seat = l->passes = false;
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

/* NULL: no memory. It costs others an offer, and its lease runs out. */
static struct leaver *leavers_new(sqlock *m, const void *ns, size_t ns_len, const void *name,
                                  size_t name_len, const unsigned char owner[SQLOCK_OWNER_SIZE],
                                  int gives)
{
    struct leaver *l = sqlock_mem_alloc(sizeof *l + ns_len + name_len);

    if (l != NULL)
        leavers_put(m, l, ns, ns_len, name, name_len, owner, gives);
    return l;
}

void leavers_take_out(sqlock *m, const void *ns, size_t ns_len, const void *name, size_t name_len,
                      const unsigned char owner[SQLOCK_OWNER_SIZE], int gives)
{
    leavers_new(m, ns, ns_len, name, name_len, owner, gives);
}

void leavers_give_back(const sqlock_lock *lock)
{
    leavers_take_out(lock->m, lock->ns, lock->ns_len, lock->name, lock->name_len, lock->owner,
                     leavers_give(lock));
}

void leavers_pass_turn(const sqlock_lock *lock, int64_t token)
{
    sqlock *m = lock->m;
    struct leaver *l = leavers_new(m, lock->ns, lock->ns_len, lock->name, lock->name_len,
                                   lock->owner, leavers_give(lock));

    if (l != NULL && texts_has(m->texts, SQLOCK_STMT_PASS, NULL) == 0) {
        l->token = token;
        l->passes = true;
    }
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

/* Its place goes, or the grant is released. Where that is passed on, no one who waits in this
 * manager alone gets it, so nothing is said of a lease. */
static void leaver_send(sqlock *m, const struct leaver *l, sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_value ns = value_bytes(l->ns, l->ns_len), name = value_bytes(l->name, l->name_len),
                       owner = value_bytes(l->owner, sizeof l->owner), token = value_int(l->token),
                       client = value_bytes(m->queue.client, sizeof m->queue.client),
                       none = {.type = SQLOCK_NULL}, no_text = value_bytes("", 0),
                       no = value_int(0);
    const sqlock_value leave[] = {ns, name, owner, value_int(l->gives)};
    const sqlock_value release[] = {ns, name, owner, token, value_int(l->seat)};
    const sqlock_value pass[] = {ns, name, owner, token, none, no, no, no_text, client, no, no};
    int64_t sent;

    if (l->token == 0)
        queue_send(m, POOL_RENEWALS, SQLOCK_STMT_LEAVE, leave, rows, &sent, err);
    else if (l->passes)
        queue_send(m, POOL_RENEWALS, SQLOCK_STMT_PASS, pass, rows, &sent, err);
    else
        queue_send(m, POOL_RENEWALS, SQLOCK_STMT_RELEASE, release, rows, &sent, err);
}

/* Others wait for the grant; or the turn has another token, and goes with all that its owner has
 * in the lock's own row, if no one else has that owner. Returns 1 if there is another request to
 * send, and l says which. */
static int leaver_asks_again(struct leaver *l, const struct answer *a)
{
    if (l->token == 0 || a->outcome == SQLOCK_OUT_NONE || a->outcome == SQLOCK_OUT_SKIPPED ||
        a->outcome == SQLOCK_OUT_DONE)
        return 0;
    if (a->outcome == SQLOCK_OUT_QUEUED && !l->passes) {
        l->passes = true;
        return 1;
    }
    l->token = 0;
    return l->gives == GIVES_ALL;
}

/* Returns when to try again. TIME_NEVER: it has left, or never can. While no server answers it
 * stays in the list: a place that no one wants would cost others an offer. If its owner waits again
 * by now, the place or the turn in the database is that wait's. */
static int64_t leaver_leave(sqlock *m, struct leaver *l)
{
    struct place *again = queue_find(m, l->ns, l->ns_len, l->name, l->name_len, l->owner);
    sqlock_error err = {0};
    struct answer a;
    sqlock_rows rows;

    if (again != NULL && (l->token == 0 || l->gives != GIVES_NOTHING)) {
        again->sent = 1;
        return TIME_NEVER;
    }
    rows_init(&rows);
    leaver_send(m, l, &rows, &err);
    answer_clear(&a);
    if (sqlock_rows_count(&rows) > 0)
        answer_read(&rows, 0, &a);
    rows_end(&rows);
    if (a.outcome == SQLOCK_OUT_DONE)
        leavers_notify(m, l, &a);
    if (err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT))
        return sqlock_now_us() + (err.code == SQLOCK_EREADONLY ? READONLY_US : FAILED_US);
    if (leaver_asks_again(l, &a))
        return 0;
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

/* What it was granted no one will use. By its token, for its owner may have more. */
static void leavers_end_grant(const sqlock_op *op)
{
    const sqlock_lock *lock = op->lock;
    struct leaver *l;

    if (op->code != 0 || !op->gives_lock || op->m->stopping)
        return;
    l = leavers_new(op->m, lock->ns, lock->ns_len, lock->name, lock->key_len, lock->owner,
                    GIVES_NOTHING);
    if (l == NULL)
        return;
    l->token = lock->token;
    l->seat = lock->seat >= 0;
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
