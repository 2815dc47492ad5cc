#ifndef SQLOCK_BASE_THREAD_H
#define SQLOCK_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/coroutine.h"

typedef struct mutex {
    pthread_mutex_t native;
    atomic_uintptr_t owner; /* the thread that holds it; 0: none does */
} mutex;
typedef struct cond {
    pthread_cond_t native;
    struct coroutine *sleepers; /* that wait for it; under the mutex they wait with */
} cond;
typedef pthread_t thread;

int mutex_init(mutex *m);
void mutex_free(mutex *m);
void mutex_lock(mutex *m);
void mutex_unlock(mutex *m);
/* This thread holds m. For assertions: a caller knows which mutexes it holds. */
bool mutex_is_mine(const mutex *m);

int cond_init(cond *c);
void cond_free(cond *c);
/* The mutex that others wait with is held. */
void cond_wake_all(cond *c);
/* Wait until woken, or until deadline (sqlock_now_us). m is held. It may return early: look
 * again. */
void cond_wait_until(cond *c, mutex *m, int64_t deadline);

/* Start a thread with every signal blocked, so that the application's handlers never run in it.
 * Returns 0 or SQLOCK_ESYS. */
int thread_start(thread *t, void *(*body)(void *), void *arg);
void thread_join(thread t);
thread thread_self(void);
bool thread_is_me(thread t);

/* Up to the end of its scope, pthread_cancel() does not end the thread. This is the first line of
 * each public function that can block or takes a mutex. Without it a mutex could stay locked, or a
 * connection busy, for ever. */
#define UNCANCELLED                                                                                \
    int uncancelled __attribute__((cleanup(cancel_put_back), unused)) = cancel_hold()
int cancel_hold(void); /* returns the state before */
void cancel_put_back(const int *before);
/* Within such a scope: run work(arg) in the state `before`, so that the thread can be cancelled in
 * it. If that happens, dropped(arg) runs. */
void cancel_let(int before, void (*work)(void *arg), void (*dropped)(void *arg), void *arg);

#endif
