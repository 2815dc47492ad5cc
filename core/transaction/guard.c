/* The guard: it proves a lease in the application's transaction, and keeps all others out of it
 * until that ends (P11). */
#include <assert.h>
#include <string.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"
#include "core/transaction/adopted.h"

static int guard_check(sqlock_lock *lock, const sqlock_conn *conn, sqlock_error *err)
{
    sqlock_state state;
    int rc;

    if ((rc = check_lock(lock, err)) != 0 || (rc = adopted_check(conn, err)) != 0)
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

static int guard_send(sqlock_lock *lock, sqlock_conn *conn, int64_t deadline, struct answer *a,
                      sqlock_error *err)
{
    sqlock_value values[] = {
        value_bytes(lock->ns, lock->ns_len),
        value_bytes(lock->name, lock->key_len),
        value_bytes(lock->owner, sizeof lock->owner),
        value_int(lock->token),
        value_int(lock->lease.ttl),
    };

    return adopted_run(conn, SQLOCK_STMT_GUARD, values, deadline, a, err);
}

/* ---- the server ------------------------------------------------------------------------------ */

static int guard_runs_here(sqlock *m, const char *running)
{
    int same;

    mutex_lock(&m->mu);
    same = m->running[0] == '\0' || running[0] == '\0' || strcmp(m->running, running) == 0;
    mutex_unlock(&m->mu);
    return same;
}

static int handshake_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->work;

    (void)now;
    op->needs_handshake = 1;
    return OP_SEND(op, SQLOCK_STMT_LEASE, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->key_len),
                   value_bytes(lock->owner, sizeof lock->owner), value_int(lock->token));
}

static void handshake_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    (void)a, (void)now;
    op_done(op, 0);
}

const struct verb handshake_verb = {handshake_next, handshake_answered, NULL, 0, NULL};

/* A copy of the tables has the lease's row as well, but a guard there keeps no one out of our lock.
 * Such copies are a replica that can be written, a restored backup, or the other half of a pool
 * that splits reads from writes.
 *
 * After a restart or a failover, our own connections may not have met the new server yet that the
 * application's connection is on. This makes them meet it now. */
static int guard_check_server(sqlock_lock *lock, const char *running, sqlock_error *err)
{
    struct named_request handshake = {
        .verb = "handshake",
        .name = lock->name,
        .does = &handshake_verb,
        .work = lock,
        .urgent = 1,
        .seat = lock->seat,
    };
    sqlock_error own = {0};

    if (guard_runs_here(lock->m, running))
        return 0;
    if (named_request(lock->m, &handshake, &own) != 0)
        return error_give_elsewhere(err, &own);
    if (guard_runs_here(lock->m, running))
        return 0;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "the connection leads to another server or database than the lock's: a "
                            "guard there would keep no one out");
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The row says that the lease is not ours. A renewal will find out what happened, and report it. */
static int guard_lost(sqlock_lock *lock, sqlock_why why, sqlock_error *err)
{
    mutex_lock(&lock->m->mu);
    if (lock->lease.renew_at > 0)
        lock->lease.renew_at = lock->retry_at = sqlock_now_us();
    lock_act(lock);
    mutex_unlock(&lock->m->mu);
    return sqlock_error_set(err, SQLOCK_ELOST, 0, "%s: roll back", sqlock_why_name(why));
}

static int guard_judge(sqlock_lock *lock, const struct answer *a, sqlock_error *err)
{
    sqlock_why why = answer_why(a, 0);

    switch (a->outcome) {
    case SQLOCK_OUT_DONE:
        assert(lock->token != 0);
        mutex_lock(&lock->m->mu);
        lock->guards = 1;
        if (manager_has_one_writer(lock->m))
            lease_guard(&lock->lease, a->received);
        lock_act(lock);
        mutex_unlock(&lock->m->mu);
        return 0;
    case SQLOCK_OUT_STALE:
        return sqlock_error_set(err, SQLOCK_ETXRESTART, SQLOCK_RETRY,
                                "the transaction's snapshot is older than the lease");
    case SQLOCK_OUT_UNFIT:
        return sqlock_error_set(
            err, SQLOCK_EREFUSED, 0,
            "this server cannot show a guard to others: MySQL 8.0 or newer is needed");
    case SQLOCK_OUT_KIND:
        return sqlock_error_set(err, SQLOCK_ESCHEMA, 0,
                                "the name's row is of a kind that this version does not know");
    default:
        return guard_lost(lock, why != SQLOCK_WHY_NONE ? why : SQLOCK_WHY_TAKEN, err);
    }
}

/* Tries again in two cases:
 * - Another session may be writing the row. Most often that is a renewal or a grant, which ends in
 *   a moment.
 * - The server that answered may have died since, and our own connections have met the next one.
 *   Then the transaction is gone, and a second guard says so. A server that answers twice is
 *   another one than ours. */
static int guard_lease(sqlock_lock *lock, sqlock_conn *conn, sqlock_error *err)
{
    int64_t deadline = sqlock_now_us() + lock->m->request_us;
    char running[sizeof lock->m->running] = "";
    int strange = 0, rc;
    struct answer a;

    if (lock->m->driver->adopter->running != NULL) {
        lock->m->driver->adopter->running(conn->native, running, sizeof running);
        if ((rc = guard_check_server(lock, running, err)) != 0)
            return rc;
    }
    for (int tries = 0;; tries++) {
        rc = guard_send(lock, conn, deadline, &a, err);
        if (rc == 0 && (rc = guard_check_server(lock, a.label, err)) != 0) {
            if (rc != SQLOCK_EREFUSED || strange++)
                return rc;
            continue;
        }
        if (rc == 0 && a.outcome != SQLOCK_OUT_SKIPPED)
            return guard_judge(lock, &a, err);
        if (rc != 0 && !adopted_was_busy(err))
            return rc;
        if ((rc = adopted_retry(tries, deadline, err)) != 0)
            return rc;
    }
}

int sqlock_guard(sqlock_lock *lock, sqlock_conn *conn, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error own = {0};
    int rc;

    err = err != NULL ? err : &own;
    rc = guard_check(lock, conn, err);
    if (rc == 0)
        rc = guard_lease(lock, conn, err);
    return lock != NULL && rc != SQLOCK_EFORK
               ? check_context(err, "guard", lock->name, lock->name_len, rc)
               : rc;
}
