/* Automatic renewal (P7). One statement renews the leases of a manager that are due now or soon.
 * - The statement skips a row that another session has locked, which is tried again alone.
 * - A denial is believed when it came twice.
 * - A renewal without an answer is tried again until the deadline. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/errand.h"
#include "core/engine/locks.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define SKIPPED_AGAIN_US 20000 /* a locked row: pause before the next try */
#define FAILED_AGAIN_US  50000 /* no answer: doubled each time, at most an eighth of the lease */
#define CALL_LEAST_US    20000
#define MEND_AGAIN_US    1000000
#define MEND_PART        10 /* an opening that hangs keeps the worker for a tenth of its time at most */

/* Until when renewals of this lease make sense. That is its deadline, except for a lease that a
 * transaction pins by then. The worker plans the first renewal after the deadline before the timer
 * pins the lease, and the timer does not wake it for that. */
static int64_t renewal_last_moment(const sqlock_lock *lock, int64_t now)
{
    const struct lease *l = &lock->lease;
    int pinned = lease_is_pinned(l) || (l->guarded != 0 && now >= l->deadline);

    return pinned ? lease_deadline(l, now) : l->deadline;
}

int64_t renewals_lock_due(const sqlock_lock *lock)
{
    const struct lease *l = &lock->lease;
    int64_t at = l->renew_at > lock->retry_at ? l->renew_at : lock->retry_at;

    if (lock->renewing || lock->quiet || lock->paused || (lock->flags & SQLOCK_NO_RENEW) ||
        !lease_is_live(l))
        return TIME_NEVER;
    return at < l->hold_until && at < renewal_last_moment(lock, at) ? at : TIME_NEVER;
}

int64_t renewals_due(const sqlock *m)
{
    assert(mutex_is_mine(&m->mu));
    return heap_due(&m->renewals);
}

/* A lease whose deadline has just passed, and which the timer has not seen yet, leaves nothing. */
int64_t renewals_left(const sqlock *m, int64_t now)
{
    assert(mutex_is_mine(&m->mu));
    return m->ends.first == NULL ? TIME_NEVER : time_max(heap_due(&m->ends) - now, 0);
}

/* From now on the lock is in the batch, and not due. */
static void renewals_add(struct renewal_batch *b, sqlock_lock *lock, int64_t now)
{
    assert(!lock->renewing && lock->refs > 0);
    lock->renewing = 1;
    lock->refs++;
    lock_act(lock);
    b->locks[b->n++] = lock;
    /* A lease that is nearly over does not shorten the time of the others. */
    if (renewal_last_moment(lock, now) > now + 2 * CALL_LEAST_US)
        b->first_deadline = time_min(b->first_deadline, renewal_last_moment(lock, now));
}

/* Collect the leases that are due now, and those behind them that are due within a quarter of their
 * interval. So leases that were taken one by one come to be renewed together. */
static void renewals_collect(sqlock *m, struct renewal_batch *b)
{
    int64_t now = sqlock_now_us();

    b->n = 0;
    b->first_deadline = TIME_NEVER;
    while (b->n < RENEWALS_MAX && m->renewals.first != NULL) {
        sqlock_lock *lock = HEAP_FIRST(&m->renewals, sqlock_lock, renewal);
        int64_t early = lock->failures > 0 ? 0 : lock->lease.every / 4;

        if (heap_due(&m->renewals) - early > now)
            break;
        renewals_add(b, lock, now);
    }
}

static int renewal_order(const void *a, const void *b)
{
    const sqlock_lock *x = *(sqlock_lock *const *)a, *y = *(sqlock_lock *const *)b;
    int order = memcmp(x->ns, y->ns, x->ns_len < y->ns_len ? x->ns_len : y->ns_len);

    if (x->behind != y->behind)
        return x->behind - y->behind;
    if (order == 0 && x->ns_len != y->ns_len)
        order = x->ns_len < y->ns_len ? -1 : 1;
    return order != 0 ? order : lock_order(x, y);
}

/* A renewal that runs after its lease's deadline must do nothing: the loss was reported by then. */
static void renewals_fill(sqlock *m, struct renewal_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        sqlock_lock *lock = b->locks[i];
        sqlock_value *v = &b->values[i * RENEWAL_VALUES];

        v[0] = value_bytes(lock->ns, lock->ns_len);
        v[1] = value_bytes(lock->name, lock->key_len);
        v[2] = value_bytes(lock->owner, sizeof lock->owner);
        v[3] = value_int(lock->token);
        v[4] = value_int(lock->lease.ttl);
        v[5] = value_int(skew_server_latest(&m->skew, renewal_last_moment(lock, sqlock_now_us())));
    }
}

static void renewal_failed(sqlock_lock *lock, int64_t now)
{
    int64_t most = lock->lease.ttl / 8, wait = FAILED_AGAIN_US;

    for (int i = 0; i < lock->failures && wait < most; i++)
        wait *= 2;
    lock->failures++;
    lock->retry_at = now + time_min(wait, most);
}

/* The answer may have seen what a change of its mode has done, whose own answer is still to come.
 */
static int renewal_may_be_replaced(const sqlock_lock *lock)
{
    return lock->changes && (lock->paused || lock->mode == SQLOCK_EXCLUSIVE);
}

static void renewal_answered(sqlock_lock *lock, const struct answer *a, int64_t now)
{
    sqlock_why why = lock_denied(lock, a);

    lock->behind = a->outcome == SQLOCK_OUT_SKIPPED;
    if (lock->quiet) {
        return; /* a release is under way, and its answer decides */
    } else if (a->outcome == SQLOCK_OUT_DONE) {
        lock_renewed(lock, a, now);
    } else if (renewal_may_be_replaced(lock) || a->outcome == SQLOCK_OUT_SKIPPED ||
               a->outcome == SQLOCK_OUT_LATE) {
        lock->retry_at = now + SKIPPED_AGAIN_US;
    } else if (why != SQLOCK_WHY_NONE && lock->doubted) {
        lock_change(lock, LEASE_DENIED, now, why);
    } else if (why != SQLOCK_WHY_NONE) {
        lock->doubted = 1; /* the row may have been seen before another session's change */
        lock->retry_at = now;
        lock->lease.renew_at = now;
    } else {
        renewal_failed(lock, now);
    }
}

void renewals_judge(struct renewal_batch *b, const sqlock_rows *rows, int64_t now)
{
    unsigned char answered[RENEWALS_MAX] = {0};
    struct answer a;
    int waited = 1;

    for (size_t row = 0; row < sqlock_rows_count(rows); row++) {
        size_t i = rows_request(rows, row);

        if (i >= b->n || answered[i])
            continue;
        answer_clear(&a);
        answer_read(rows, row, &a);
        a.sent = b->sent;
        a.server = b->server;
        renewal_answered(b->locks[i], &a, now);
        answered[i] = 1;
    }
    for (size_t i = 0; i < b->n; i++) {
        if (answered[i])
            continue;
        if (waited) /* perhaps this one used up the time of those after it */
            b->locks[i]->behind = 1;
        waited = 0;
        renewal_failed(b->locks[i], now);
    }
}

/* They are out of the batch, and due again when their fields say so. If the server changed
 * meanwhile, the old one's answers did not count, and that is at once. m->mu is held. */
static void renewals_end(struct renewal_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        sqlock_lock *lock = b->locks[i];

        assert(lock->renewing);
        lock->renewing = 0;
        lock_act(lock);
        lock_unref_locked(lock);
    }
}

/* A call takes a third of the time that is left at most, because a call that hangs must leave time
 * for another, on a new connection. With several hosts it takes a quarter, to find the new primary.
 * So there is time also for a program that prepares for the end before the deadline, as `sqlock
 * run` does. */
static int64_t renewals_until(const struct errand *e, int64_t now)
{
    const struct renewal_batch *b = e->arg;
    const sqlock *m = b->m;
    int64_t left = b->first_deadline == TIME_NEVER ? 0 : b->first_deadline - now;
    int64_t part = left / (m->n_hosts > 1 ? 4 : 3);

    return now + time_min(m->request_us, part > CALL_LEAST_US ? part : CALL_LEAST_US);
}

/* Note what the use of this connection has shown. If a call's connection failed, too, try the
 * reserved one next. */
static void renewals_note_use(sqlock *m, const struct errand *e, int rc)
{
    if (!e->took || !e->borrowed)
        return;
    mutex_lock(&m->mu);
    if (rc != 0)
        m->opening_fails = 0;
    else
        m->mend_at = time_min(m->mend_at, sqlock_now_us());
    mutex_unlock(&m->mu);
}

static void renewals_send(sqlock *m, struct renewal_batch *b, sqlock_rows *rows)
{
    struct errand e = {.use = POOL_RENEWALS,
                       .stmt = SQLOCK_STMT_RENEW,
                       .values = b->values,
                       .n = b->n,
                       .until = renewals_until,
                       .arg = b,
                       .rows = rows};
    int rc = errand_run(m, &e);

    if (e.took)
        b->server = e.server;
    b->sent = e.sent;
    renewals_note_use(m, &e, rc);
}

/* Not with the grant: its caller would wait for it, and a lock that is soon released needs none. */
void renewals_reserve(sqlock *m, const sqlock_lock *lock, int64_t renewal)
{
    int64_t at = renewal - lock->lease.every / 8 * 7;
    int is_planned = m->mend_at <= at && m->mend_at > renewal - lock->lease.every;

    if (m->reserved_tried || is_planned)
        return; /* what is lost later is opened by the renewals themselves */
    m->mend_at = at;
    worker_wake(m, at);
}

int64_t renewals_mend_due(sqlock *m)
{
    const struct conn *reserved = &m->conns[0];

    return reserved->busy || reserved->native != NULL || renewals_due(m) == TIME_NEVER ? TIME_NEVER
                                                                                       : m->mend_at;
}

/* Open the reserved connection. Meanwhile renewals use an idle connection of the calls. This
 * may take a quarter of the time that is left, or half if openings take that long. */
void renewals_mend(sqlock *m)
{
    int64_t now = sqlock_now_us(), left = renewals_left(m, now), most = left / 4, begun;
    sqlock_error err = {0};
    struct conn *c;
    int rc;

    if (2 * m->opening > most)
        most = time_min(2 * m->opening, left / 2);
    rc = pool_take(m, POOL_RESERVED, NULL, now + time_min(most, m->request_us), &c, &err);
    if (rc == 0)
        pool_give(m, c, 0);
    begun = now;
    now = sqlock_now_us();
    m->mend_at = rc == 0 ? TIME_NEVER : now + time_max(MEND_AGAIN_US, MEND_PART * (now - begun));
}

void renewals_run(sqlock *m)
{
    struct renewal_batch *b = sqlock_mem_alloc(sizeof *b);
    sqlock_rows *rows = rows_new();

    if (b != NULL && rows != NULL) {
        renewals_collect(m, b);
        /* Rows are locked in the order of the request. All requests use the order of keys, unless
         * one lease delayed others. */
        qsort(b->locks, b->n, sizeof *b->locks, renewal_order);
        renewals_fill(m, b);
        b->server = m->server;
        b->m = m;
        mutex_unlock(&m->mu);
        renewals_send(m, b, rows);
        mutex_lock(&m->mu);
        if (b->server == m->server)
            renewals_judge(b, rows, sqlock_now_us());
        renewals_end(b);
    } else {
        cond_wait_until(&m->worker_cond, &m->mu, sqlock_now_us() + FAILED_AGAIN_US);
    }
    rows_free(rows);
    sqlock_mem_free(b);
}
