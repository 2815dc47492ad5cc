/* The guard: a lease proved, and kept from everybody else, in the application's own transaction
 * (P11). */
#include <string.h>

#include "core/engine/guest.h"
#include "core/verbs/check.h"

static int check_both(sqlock_lock *lock, const sqlock_conn *conn, sqlock_error *err)
{
    sqlock_state state;
    int rc;

    if ((rc = check_lock(lock, err)) != 0 || (rc = guest_check(conn, err)) != 0)
        return rc;
    if (conn->m != lock->m)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the connection was adopted by another manager than the lock's");
    state = sqlock_lock_state(lock);
    if (state == SQLOCK_LOST)
        return sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", sqlock_why_name(sqlock_lock_why(lock)));
    if (state != SQLOCK_HELD && state != SQLOCK_AT_RISK)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the lock is %s", sqlock_state_name(state));
    return 0;
}

static int ask(sqlock_lock *lock, sqlock_conn *conn, int64_t deadline, struct answer *a,
               sqlock_error *err)
{
    sqlock_value values[] = {
        value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->name_len),
        value_bytes(lock->owner, sizeof lock->owner),
        value_int(lock->token),
        value_int(lock->lease.ttl),
    };

    return guest_run(conn, SQLOCK_STMT_GUARD, values, deadline, a, err);
}

/* The row says that it is not ours: a renewal will find out what happened, and tell. */
static int lost(sqlock_lock *lock, sqlock_why why, sqlock_error *err)
{
    mutex_lock(&lock->m->mu);
    if (lock->lease.renew_at > 0)
        lock->lease.renew_at = lock->retry_at = sqlock_now_us();
    talker_poke(lock->m, 0);
    mutex_unlock(&lock->m->mu);
    return sqlock_error_set(err, SQLOCK_ELOST, 0, "%s: roll back", sqlock_why_name(why));
}

static int judge(sqlock_lock *lock, const struct answer *a, sqlock_error *err)
{
    sqlock_why why = outcome_why(a->outcome);

    switch (a->outcome) {
    case SQLOCK_OUT_DONE:
        mutex_lock(&lock->m->mu);
        lock->guards = 1;
        if (lock->m->driver->caps & SQLOCK_CAP_ONE_WRITER)
            lease_guard(&lock->lease, a->received);
        mutex_unlock(&lock->m->mu);
        return 0;
    case SQLOCK_OUT_STALE:
        return sqlock_error_set(err, SQLOCK_ETXRESTART, SQLOCK_RETRY,
                                "the transaction's snapshot is older than the lease");
    case SQLOCK_OUT_UNFIT:
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "this server cannot tell others of a guard: it takes MySQL 8.0");
    case SQLOCK_OUT_KIND:
        return sqlock_error_set(err, SQLOCK_ESCHEMA, 0,
                                "the name's row is of a kind that this version does not know");
    default:
        return lost(lock, why != SQLOCK_WHY_NONE ? why : SQLOCK_WHY_TAKEN, err);
    }
}

/* Somebody is writing the row: most often a renewal or a grant, which is over in a moment. */
static int guard(sqlock_lock *lock, sqlock_conn *conn, sqlock_error *err)
{
    int64_t deadline = sqlock_now_us() + lock->m->request_us;
    struct answer a;
    int rc;

    for (int tries = 0;; tries++) {
        rc = ask(lock, conn, deadline, &a, err);
        if (rc == 0 && a.outcome != SQLOCK_OUT_SKIPPED)
            return judge(lock, &a, err);
        if (rc != 0 && !guest_was_busy(err))
            return rc;
        if ((rc = guest_next(tries, deadline, err)) != 0)
            return rc;
    }
}

int sqlock_guard(sqlock_lock *lock, sqlock_conn *conn, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error own = {0};
    int rc;

    err = err != NULL ? err : &own;
    rc = check_both(lock, conn, err);
    if (rc == 0)
        rc = guard(lock, conn, err);
    return lock != NULL && rc != SQLOCK_EFORK
               ? check_context(err, "guard", lock->name, lock->name_len, rc)
               : rc;
}
