/* The two threads of a manager. The worker renews leases, and drives the requests of event loops.
 * The timer watches deadlines, runs callbacks, and does nothing that can block (P6, P19). While the
 * worker hangs in a call, the timer still reports a loss at the deadline, and ends requests that
 * wait for the worker. */
#include <assert.h>

#include "core/base/alarm.h"
#include "core/engine/checks.h"
#include "core/engine/hearing.h"
#include "core/engine/locks.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/queue.h"
#include "core/engine/renewals.h"

#define HEAR_US 1000

void worker_wake(sqlock *m, int64_t at)
{
    assert(mutex_is_mine(&m->mu));
    if (m->loop != NULL)
        loop_wake(m, at);
    else if (at < m->worker_until) {
        cond_wake_all(&m->worker_cond);
        hearing_stop(m);
    }
}

/* Until then, or until worker_wake(). It listens meanwhile, if someone waits for a notification. */
static void worker_sleep(sqlock *m, int64_t until)
{
    int64_t hear_at = hearing_due(m);

    m->worker_until = until;
    if (hear_at <= sqlock_now_us())
        hearing_run(m, until);
    else
        cond_wait_until(&m->worker_cond, &m->mu, time_min(until, hear_at));
    m->worker_until = INT64_MIN;
}

/* While it is busy it does not sleep, and so would not hear. */
static int worker_should_hear(sqlock *m, int64_t now)
{
    struct queue *q = &m->queue;

    if (!q->hears || now < q->heard_at + HEAR_US || hearing_due(m) > now)
        return 0;
    q->heard_at = now;
    return 1;
}

void *worker_main(void *arg)
{
    UNCANCELLED; /* the application could learn this thread in a callback */
    sqlock *m = arg;
    int op_is_next = 0; /* requests of ops and of the queue take turns */

    mutex_lock(&m->mu);
    while (!m->stopping) {
        int64_t now = sqlock_now_us(), renew_at = renewals_due(m), check_at = checks_due(m);
        int64_t mend_at = renewals_mend_due(m), op_at = ops_due(m), queue_at = queue_due(m);

        if (renew_at <= now) {
            renewals_run(m);
        } else if (check_at <= now) {
            checks_run(m);
        } else if (time_min(queue_at, op_at) <= now && worker_should_hear(m, now)) {
            hearing_run(m, now);
        } else if (queue_at <= now && !(op_is_next && op_at <= now)) {
            op_is_next = 1;
            queue_run(m);
        } else if (op_at <= now) {
            op_is_next = 0;
            m->driving_since = now;
            ops_drive(ops_take(m, &m->driving), &m->driving);
        } else if (mend_at <= now) {
            renewals_mend(m);
        } else {
            worker_sleep(m, time_min(time_min(time_min(renew_at, mend_at), queue_at),
                                     time_min(op_at, check_at)));
        }
    }
    mutex_unlock(&m->mu);
    return NULL;
}

void timer_wake(sqlock *m, int64_t at)
{
    assert(mutex_is_mine(&m->mu));
    if (m->loop != NULL)
        loop_wake(m, at);
    else if (at < m->timer_until)
        sqlock_wake_set(m->timer_wake_fd);
}

/* Apply the time that has passed. */
static void timer_tick_all(sqlock *m)
{
    int64_t now = sqlock_now_us(), due;

    while ((due = heap_due(&m->ticks)) <= now) {
        sqlock_lock *lock = HEAP_FIRST(&m->ticks, sqlock_lock, tick);

        lock_change(lock, LEASE_TICK, now, 0);
        lock_act(lock);
        assert(lock->tick.at > due); /* otherwise this would go on for ever */
    }
}

/* Run one callback without the mutex; sqlock_lock_free() waits for it. m->mu is held before and
 * after. */
static void timer_call_back(sqlock *m, sqlock_lock *lock)
{
    sqlock_state state = lock->lease.state;

    assert(thread_is_me(m->timer) && !lock->reporting && lock->on_event != NULL);
    list_remove(&lock->in_events);
    lock->to_report = 0;
    lock->reporting = 1;
    lock->refs++;
    mutex_unlock(&m->mu);
    lock->on_event(lock, state, lock->user);
    mutex_lock(&m->mu);
    lock->reporting = 0;
    lock_act(lock); /* another event may have come meanwhile */
    lock_unref_locked(lock);
    cond_wake_all(&m->reported);
}

void timer_tick(sqlock *m)
{
    timer_tick_all(m);
    ops_tick(m);
}

int timer_report(sqlock *m)
{
    if (m->events.next == &m->events)
        return 0;
    timer_call_back(m, LIST_MEMBER(m->events.next, sqlock_lock, in_events));
    return 1;
}

int64_t timer_due(sqlock *m)
{
    return time_min(heap_due(&m->ticks), ops_tick_due(m));
}

void *timer_main(void *arg)
{
    UNCANCELLED; /* the application could learn this thread in a callback */
    sqlock *m = arg;

    mutex_lock(&m->mu);
    while (!m->stopping) {
        timer_tick(m);
        if (timer_report(m))
            continue; /* time has passed */
        m->timer_until = timer_due(m);
        alarm_set(m->timer_alarm, m->timer_until);
        mutex_unlock(&m->mu);
        alarm_wait(m->timer_alarm, m->timer_wake_fd);
        mutex_lock(&m->mu);
        m->timer_until = INT64_MIN;
    }
    mutex_unlock(&m->mu);
    return NULL;
}
