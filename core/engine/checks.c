/* When the server changed, renewals show whether the new one has a lease. A lease that its holder
 * renews is only looked at: the library extends nothing without a request. */
#include <assert.h>
#include <string.h>

#include "core/engine/checks.h"
#include "core/engine/errand.h"
#include "core/engine/locks.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define FAILED_AGAIN_US 50000
#define LOOK_LEAST_US   50000

int64_t checks_lock_due(const sqlock_lock *lock)
{
    const struct lease *l = &lock->lease;
    int is_open = lock->unchecked && l->state == SQLOCK_AT_RISK && !lock->quiet;

    return is_open && lock->retry_at < l->deadline ? lock->retry_at : TIME_NEVER;
}

int64_t checks_due(const sqlock *m)
{
    assert(mutex_is_mine(&m->mu));
    return heap_due(&m->checks);
}

/* This leaves time for another try, and for the renewals that wait for the worker. */
static int checks_send(sqlock_lock *lock, int64_t lease_end, int64_t most, sqlock_rows *rows,
                       struct answer *a)
{
    sqlock *m = lock->m;
    int64_t now = sqlock_now_us(), deadline = now + time_min(most, (lease_end - now) / 2);
    sqlock_value values[] = {
        value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->key_len),
        value_bytes(lock->owner, sizeof lock->owner),
        value_int(lock->token),
    };
    struct errand e = {.use = POOL_RENEWALS,
                       .stmt = SQLOCK_STMT_LEASE,
                       .values = values,
                       .n = 1,
                       .deadline = deadline,
                       .rows = rows};
    int rc = errand_run(m, &e);

    memset(a, 0, sizeof *a);
    answer_read(rows, 0, a);
    a->sent = e.sent;
    return rc;
}

void checks_judge(sqlock_lock *lock, const struct answer *a, int64_t now)
{
    sqlock_why why;

    assert(lock->unchecked);
    if (a->outcome == SQLOCK_OUT_DONE) {
        lock->unchecked = 0;
        lock_note_end(lock, a, lock->m->server);
        lock_change(lock, LEASE_CONFIRMED, now, a->sent + a->left - lease_margin(lock->lease.ttl));
    } else if (lock->doubted) {
        why = lock_denied(lock, a);
        lock_change(lock, LEASE_DENIED, now, why != SQLOCK_WHY_NONE ? why : SQLOCK_WHY_FORGOTTEN);
    } else {
        lock->doubted = 1;
    }
}

/* An older driver lacks this request. Then the lease stays at risk. */
void checks_run(sqlock *m)
{
    sqlock_lock *lock = HEAP_FIRST(&m->checks, sqlock_lock, check);
    int64_t lease_end, server = m->server, most;
    sqlock_rows rows;
    struct answer a;
    int rc;

    assert(m->checks.first != NULL && lock->lease.state == SQLOCK_AT_RISK);
    if (texts_has(m->texts, SQLOCK_STMT_LEASE, NULL) != 0) {
        lock->unchecked = 0;
        lock_act(lock);
        return;
    }
    lease_end = lock->lease.deadline;
    most = renewals_left(m, sqlock_now_us()) / 4;
    most = time_min(m->request_us, most > LOOK_LEAST_US ? most : LOOK_LEAST_US);
    lock->refs++;
    mutex_unlock(&m->mu);
    rows_init(&rows);
    rc = checks_send(lock, lease_end, most, &rows, &a);
    rows_end(&rows);
    mutex_lock(&m->mu);
    if (rc != 0)
        lock->retry_at = sqlock_now_us() + FAILED_AGAIN_US;
    else if (server == m->server && checks_lock_due(lock) != TIME_NEVER)
        checks_judge(lock, &a, sqlock_now_us());
    lock_act(lock);
    lock_unref_locked(lock);
}
