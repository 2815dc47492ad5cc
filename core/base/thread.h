#ifndef SQLOCK_BASE_THREAD_H
#define SQLOCK_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef pthread_mutex_t mutex;
typedef pthread_cond_t cond;
typedef pthread_t thread;

int mutex_init(mutex *m);
void mutex_free(mutex *m);
void mutex_lock(mutex *m);
void mutex_unlock(mutex *m);

int cond_init(cond *c);
void cond_free(cond *c);
void cond_wake_all(cond *c);
/* Wait with m held until woken or deadline (sqlock_now_us); may return early: look again. */
void cond_wait_until(cond *c, mutex *m, int64_t deadline);

/* Start a thread with every signal blocked, so that the application's handlers never run in it.
 * Returns 0 or SQLOCK_ESYS. */
int thread_start(thread *t, void *(*body)(void *), void *arg);
void thread_join(thread t);
bool thread_is_me(thread t);

/* To the end of its scope the thread is not cancelled: the first line of each public function that
 * can block or takes a mutex. Else the mutex would stay locked, or a connection in use, for ever.
 */
#define UNCANCELLED                                                                                \
    int uncancelled __attribute__((cleanup(cancel_put_back), unused)) = cancel_hold()
int cancel_hold(void); /* what it was before */
void cancel_put_back(const int *before);
/* Within such a scope, given what was before it: the application's work, which may be cancelled as
 * it may be outside. Then dropped(arg) runs. */
void cancel_let(int before, void (*work)(void *arg), void (*dropped)(void *arg), void *arg);

#endif
