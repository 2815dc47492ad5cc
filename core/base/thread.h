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

#endif
