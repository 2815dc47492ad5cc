/* The watcher thread: holds deadlines, tells losses, and does nothing that can block (P6, P19).
 * While the talker is stuck in a call, this thread still fires at the deadline, and ends requests
 * that wait for the talker. */
#include "core/base/alarm.h"
#include "core/engine/locks.h"
#include "core/engine/op.h"

void watcher_poke(sqlock *m, int64_t at)
{
    if (at < m->watcher_until)
        sqlock_wake_set(m->watcher_wake);
}

/* Apply the time that passed; returns when there is something to do next. */
static int64_t tick_all(sqlock *m)
{
    int64_t next = TIME_NEVER;

    LIST_EACH(at, &m->locks)
    {
        sqlock_lock *lock = LIST_MEMBER(at, sqlock_lock, in_manager);

        lock_apply(lock, LEASE_TICK, 0);
        next = time_min(next, lease_next_tick(&lock->lease));
    }
    return next;
}

static sqlock_lock *find_untold(sqlock *m)
{
    LIST_EACH(at, &m->locks)
    {
        sqlock_lock *lock = LIST_MEMBER(at, sqlock_lock, in_manager);

        if (lock->tell && !lock->quiet)
            return lock;
    }
    return NULL;
}

/* One callback, outside the mutex; sqlock_lock_free() waits for it. m->mu is held around it. */
static void tell(sqlock *m, sqlock_lock *lock)
{
    sqlock_state state = lock->lease.state;

    lock->tell = 0;
    lock->telling = 1;
    lock->refs++;
    mutex_unlock(&m->mu);
    lock->on_event(lock, state, lock->user);
    mutex_lock(&m->mu);
    lock->telling = 0;
    lock_unref_locked(lock);
    cond_wake_all(&m->told);
}

void *watcher_main(void *arg)
{
    UNCANCELLED; /* a callback could tell the application which thread it is */
    sqlock *m = arg;
    sqlock_lock *lock;
    int64_t next;

    mutex_lock(&m->mu);
    while (!m->stopping) {
        next = time_min(tick_all(m), ops_tick(m));
        if ((lock = find_untold(m)) != NULL) {
            tell(m, lock);
            continue; /* the list may have changed meanwhile */
        }
        alarm_set(m->watcher_alarm, next);
        m->watcher_until = next;
        mutex_unlock(&m->mu);
        alarm_wait(m->watcher_alarm, m->watcher_wake);
        mutex_lock(&m->mu);
        m->watcher_until = INT64_MIN;
    }
    mutex_unlock(&m->mu);
    return NULL;
}
