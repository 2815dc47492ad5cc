/* Threads, and what they wait on each other with. */
#include <signal.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/thread.h"

int mutex_init(mutex *m)
{
    return pthread_mutex_init(m, NULL);
}

void mutex_free(mutex *m)
{
    pthread_mutex_destroy(m);
}

void mutex_lock(mutex *m)
{
    pthread_mutex_lock(m);
}

void mutex_unlock(mutex *m)
{
    pthread_mutex_unlock(m);
}

int cond_init(cond *c)
{
    pthread_condattr_t attr;
    int rc;

    if ((rc = pthread_condattr_init(&attr)) != 0)
        return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

void cond_free(cond *c)
{
    pthread_cond_destroy(c);
}

void cond_wake_all(cond *c)
{
    pthread_cond_broadcast(c);
}

/* Conditions cannot wait on BOOTTIME: the time left is carried over to MONOTONIC, ten seconds at a
 * time, so that a machine that slept is noticed soon after it wakes. */
void cond_wait_until(cond *c, mutex *m, int64_t deadline)
{
    int64_t left = deadline - sqlock_now_us();
    struct timespec t;

    if (left <= 0)
        return;
    left = time_min(left, 10 * INT64_C(1000000));
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(left / 1000000);
    t.tv_nsec += (left % 1000000) * 1000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    pthread_cond_timedwait(c, m, &t);
}

int thread_start(thread *t, void *(*body)(void *), void *arg)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(t, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : SQLOCK_ESYS;
}

void thread_join(thread t)
{
    pthread_join(t, NULL);
}

bool thread_is_me(thread t)
{
    return pthread_equal(t, pthread_self()) != 0;
}

int cancel_hold(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void cancel_put_back(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

void cancel_let(int before, void (*work)(void *arg), void (*dropped)(void *arg), void *arg)
{
    pthread_cleanup_push(dropped, arg);
    pthread_setcancelstate(before, NULL);
    work(arg);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
}
