/* What a handle answers without I/O. */
#include <sqlock/import.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"

const char *sqlock_state_name(sqlock_state state)
{
    static const char *const names[] = {"?", "unsure", "held", "at risk", "lost", "released"};

    return names[state >= SQLOCK_UNSURE && state <= SQLOCK_RELEASED ? state : 0];
}

const char *sqlock_why_name(sqlock_why why)
{
    static const char *const names[] = {"not lost",
                                        "lease expired",
                                        "taken by others",
                                        "broken by an operator",
                                        "reaped",
                                        "its row was deleted",
                                        "the server's clock jumped",
                                        "max_hold_ms reached",
                                        "never granted",
                                        "the manager was closed",
                                        "in a forked child",
                                        "released by another handle",
                                        "forgotten by the server that took over"};

    return why <= SQLOCK_WHY_FORGOTTEN ? names[why] : "?";
}

/* The lease as it is now. This applies a deadline that has passed, so that belief ends on time even
 * if the timer is late (P4). */
static struct lease lock_view(sqlock_lock *lock)
{
    struct lease lease;

    if (check_lock(lock, NULL) != 0) {
        lease = (struct lease){.state = SQLOCK_LOST, .why = SQLOCK_WHY_FORK};
        return lease;
    }
    mutex_lock(&lock->m->mu);
    lock_apply(lock, LEASE_TICK, 0);
    lease = lock->lease;
    mutex_unlock(&lock->m->mu);
    return lease;
}

sqlock_state sqlock_lock_state(sqlock_lock *lock)
{
    UNCANCELLED;
    return lock_view(lock).state;
}

sqlock_why sqlock_lock_why(sqlock_lock *lock)
{
    UNCANCELLED;
    return lock_view(lock).why;
}

int sqlock_is_held(sqlock_lock *lock)
{
    UNCANCELLED;
    sqlock_state state = lock_view(lock).state;

    return state == SQLOCK_HELD || state == SQLOCK_AT_RISK;
}

int64_t sqlock_lock_deadline_us(sqlock_lock *lock)
{
    UNCANCELLED;
    return lock_view(lock).deadline;
}

int64_t sqlock_lock_token(sqlock_lock *lock)
{
    UNCANCELLED;
    int64_t token;

    if (check_lock(lock, NULL) != 0)
        return 0;
    mutex_lock(&lock->m->mu);
    token = lock->token;
    mutex_unlock(&lock->m->mu);
    return token;
}

int64_t sqlock_lock_mode(sqlock_lock *lock)
{
    UNCANCELLED;

    return check_lock(lock, NULL) == 0 ? lock->mode : SQLOCK_EXCLUSIVE;
}

int64_t sqlock_lock_slot(sqlock_lock *lock)
{
    UNCANCELLED;
    int64_t seat;

    if (check_lock(lock, NULL) != 0)
        return -1;
    mutex_lock(&lock->m->mu);
    seat = lock->seat;
    mutex_unlock(&lock->m->mu);
    return seat;
}

const unsigned char *sqlock_lock_owner(sqlock_lock *lock)
{
    return lock->owner;
}

const char *sqlock_lock_name(sqlock_lock *lock)
{
    return lock != NULL ? lock->name : "";
}

int sqlock_lock_fd(sqlock_lock *lock, sqlock_error *err)
{
    UNCANCELLED;
    int fd, rc;

    if ((rc = check_lock(lock, err)) != 0)
        return rc;
    mutex_lock(&lock->m->mu);
    fd = lock_descriptor(lock);
    mutex_unlock(&lock->m->mu);
    return fd >= 0
               ? fd
               : sqlock_error_set(err, SQLOCK_ESYS, SQLOCK_RETRY, "no file descriptor available");
}

void sqlock_lock_free(sqlock_lock *lock)
{
    UNCANCELLED;
    if (lock != NULL && check_lock(lock, NULL) == 0)
        lock_free(lock);
}
