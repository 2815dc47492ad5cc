/* When another server was met, renewals tell whether it has a lease. One that its holder renews by
 * itself is looked at instead: nothing is prolonged that was not asked for. */
#include "core/engine/checks.h"
#include "core/engine/locks.h"
#include "core/engine/pool.h"
#include "core/engine/renewals.h"

#define FAILED_AGAIN_US 50000
#define LOOK_LEAST_US   50000

static int64_t due_at(const sqlock_lock *lock)
{
    const struct lease *l = &lock->lease;
    int is_open = lock->unchecked && l->state == SQLOCK_AT_RISK && !lock->quiet;

    return is_open && lock->retry_at < l->deadline ? lock->retry_at : TIME_NEVER;
}

int64_t checks_due(sqlock *m)
{
    int64_t next = TIME_NEVER;

    LIST_EACH(at, &m->locks)
    {
        next = time_min(next, due_at(LIST_MEMBER(at, sqlock_lock, in_manager)));
    }
    return next;
}

static sqlock_lock *checks_first(sqlock *m)
{
    int64_t next = checks_due(m);

    LIST_EACH(at, &m->locks)
    {
        sqlock_lock *lock = LIST_MEMBER(at, sqlock_lock, in_manager);

        if (next != TIME_NEVER && due_at(lock) == next)
            return lock;
    }
    return NULL;
}

/* Never longer than another try needs, and the renewals that wait for it meanwhile. */
static int checks_send(sqlock_lock *lock, int64_t lease_end, int64_t most, struct answer *a)
{
    sqlock *m = lock->m;
    int64_t now = sqlock_now_us(), deadline = now + time_min(most, (lease_end - now) / 2);
    sqlock_value values[] = {
        value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->name_len),
        value_bytes(lock->owner, sizeof lock->owner),
        value_int(lock->token),
    };
    sqlock_error err = {0};
    struct conn *c;
    int rc;

    if ((rc = pool_take(m, POOL_RENEWALS, NULL, deadline, &c, &err)) != 0)
        return rc;
    rc = call_one(m, c, NULL, SQLOCK_STMT_LEASE, values, deadline, a, &err);
    pool_give(m, c, rc != 0 && (err.flags & SQLOCK_RECONNECT));
    return rc;
}

/* No is believed when it has been said twice, as of a renewal. Without a row, or with an older
 * grant in it, the server has forgotten the lease. */
static void checks_answered(sqlock_lock *lock, const struct answer *a)
{
    sqlock_why why;

    if (a->outcome == SQLOCK_OUT_DONE) {
        lock->unchecked = 0;
        lock->server_end = a->now + a->left;
        lock_apply(lock, LEASE_CONFIRMED, a->sent + a->left - lock->lease.margin);
    } else if (lock->doubted) {
        why = lock_denied(lock, a);
        lock_apply(lock, LEASE_DENIED, why != SQLOCK_WHY_NONE ? why : SQLOCK_WHY_FORGOTTEN);
    } else {
        lock->doubted = 1;
    }
}

/* An older driver has no request for it: the lease stays at risk. */
void checks_run(sqlock *m)
{
    sqlock_lock *lock = checks_first(m);
    int64_t lease_end, server = m->server, most;
    struct answer a;
    int rc;

    if (lock == NULL)
        return;
    if (texts_has(m->texts, SQLOCK_STMT_LEASE, NULL) != 0) {
        lock->unchecked = 0;
        return;
    }
    lease_end = lock->lease.deadline;
    most = renewals_left(m, sqlock_now_us()) / 4;
    most = time_min(m->request_us, most > LOOK_LEAST_US ? most : LOOK_LEAST_US);
    lock->refs++;
    mutex_unlock(&m->mu);
    rc = checks_send(lock, lease_end, most, &a);
    mutex_lock(&m->mu);
    if (rc != 0)
        lock->retry_at = sqlock_now_us() + FAILED_AGAIN_US;
    else if (server == m->server && due_at(lock) != TIME_NEVER)
        checks_answered(lock, &a);
    lock_unref_locked(lock);
}
