/* Threads, mutexes and conditions. */
#include <assert.h>
#include <signal.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/thread.h"

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

/* Which thread runs this: a register that differs, where the compiler can read it; else a call.
 * Compilers take it for a constant within a function, but a coroutine may go on in another thread.
 * So no function that may pause uses it, nor gets a copy of one that does (NOT_COPIED). */
static uintptr_t thread_identity(void)
{
#if __has_builtin(__builtin_thread_pointer)
    return (uintptr_t)__builtin_thread_pointer();
#else
    return (uintptr_t)pthread_self();
#endif
}

#define NOT_COPIED __attribute__((noinline))

/* Only the thread that holds m can find itself there, so no order of memory is needed. */
static void mutex_set_owner(mutex *m, uintptr_t owner)
{
    atomic_store_explicit(&m->owner, owner, memory_order_relaxed);
}

static bool mutex_is_here(const mutex *m)
{
    return atomic_load_explicit(&m->owner, memory_order_relaxed) == thread_identity();
}

NOT_COPIED bool mutex_is_mine(const mutex *m)
{
    return mutex_is_here(m);
}

int mutex_init(mutex *m)
{
    atomic_init(&m->owner, 0);
    return pthread_mutex_init(&m->native, NULL);
}

void mutex_free(mutex *m)
{
    assert(!mutex_is_mine(m));
    pthread_mutex_destroy(&m->native);
}

NOT_COPIED void mutex_lock(mutex *m)
{
    assert(!mutex_is_here(m)); /* it would wait for itself */
    pthread_mutex_lock(&m->native);
    mutex_set_owner(m, thread_identity());
}

NOT_COPIED void mutex_unlock(mutex *m)
{
    assert(mutex_is_here(m));
    mutex_set_owner(m, 0);
    pthread_mutex_unlock(&m->native);
}

static pthread_once_t cond_once = PTHREAD_ONCE_INIT;
static pthread_condattr_t cond_attr;
static int cond_rc;

static void cond_attr_init(void)
{
    if ((cond_rc = pthread_condattr_init(&cond_attr)) == 0)
        pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
}

/* Each op that is driven has a condition. */
int cond_init(cond *c)
{
    pthread_once(&cond_once, cond_attr_init);
    c->sleepers = NULL;
    return cond_rc != 0 ? cond_rc : pthread_cond_init(&c->native, &cond_attr);
}

void cond_free(cond *c)
{
    assert(c->sleepers == NULL);
    pthread_cond_destroy(&c->native);
}

void cond_wake_all(cond *c)
{
    pthread_cond_broadcast(&c->native);
    for (struct coroutine *at = c->sleepers; at != NULL; at = at->next_sleeper) {
        atomic_store(&at->woken, 1);
        sqlock_wake_set(at->notify_fd);
    }
}

static void cond_forget(cond *c, const struct coroutine *sleeper)
{
    struct coroutine **at = &c->sleepers;

    while (*at != sleeper)
        at = &(*at)->next_sleeper;
    *at = sleeper->next_sleeper;
}

static void cond_wait_on_coroutine(cond *c, mutex *m, struct coroutine *me, int64_t deadline)
{
    atomic_store(&me->woken, 0);
    me->next_sleeper = c->sleepers;
    c->sleepers = me;
    mutex_unlock(m);
    coroutine_wait(me, -1, 0, -1, deadline);
    mutex_lock(m);
    cond_forget(c, me);
}

/* Conditions cannot wait on BOOTTIME, so this waits on MONOTONIC for the time that is left. It
 * waits ten seconds at most, to notice soon that the machine has slept. */
void cond_wait_until(cond *c, mutex *m, int64_t deadline)
{
    int64_t left = deadline - sqlock_now_us();
    struct coroutine *me = coroutine_running();
    struct timespec t;

    assert(mutex_is_mine(m));
    if (left <= 0)
        return;
    if (me != NULL) {
        cond_wait_on_coroutine(c, m, me, deadline);
        return;
    }
    left = time_min(left, 10 * INT64_C(1000000));
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(left / 1000000);
    t.tv_nsec += (left % 1000000) * 1000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    mutex_set_owner(m, 0); /* others hold it during the wait */
    pthread_cond_timedwait(&c->native, &m->native, &t);
    mutex_set_owner(m, thread_identity());
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

thread thread_self(void)
{
    return pthread_self();
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
