#ifndef SQLOCK_BASE_COROUTINE_H
#define SQLOCK_BASE_COROUTINE_H

#include <stdatomic.h>
#include <stdint.h>

/* A coroutine runs on a stack of its own. Where it would block its thread, it returns to whoever
 * resumed it, and says what it waits for. So the same code serves a thread that may block and an
 * event loop that may not. (Conway, Design of a separable transition-diagram compiler, 1963;
 * MariaDB's client library makes its non-blocking calls in this way.)
 *
 * Only waits of this folder end a run: sqlock_wait_fd(), sqlock_sleep_us(), cond_wait_until(). None
 * of them happens while the coroutine holds a mutex, except the condition's own, which it gives
 * back. One thread at a time resumes a coroutine, not always the same. */
struct coroutine {
    /* what it waits for */
    int fd, events;   /* until poll() reports one of these events; -1: no descriptor */
    int wake_fd;      /* or until this one is readable; -1: none */
    int64_t until;    /* or until then */
    atomic_int woken; /* the condition that it waits for was signalled */

    int notify_fd;                  /* set when woken, so that whoever resumes it looks; -1: none */
    struct coroutine *next_sleeper; /* of the same condition */
    struct coroutine_stack *stack;
};

/* A coroutine that will run body(arg). Returns 0, or SQLOCK_ENOMEM. */
int coroutine_make(struct coroutine *c, void (*body)(void *), void *arg, int notify_fd);
/* Run it until it waits or ends. Returns 1 when it has ended. Another coroutine may do this. */
int coroutine_resume(struct coroutine *c);
/* Free its stack. It has ended, or never ran. */
void coroutine_free(struct coroutine *c);

/* The coroutine that runs on this thread, or NULL. */
struct coroutine *coroutine_running(void);
/* Return to whoever resumed it. Resumed again, it looks whether its wait is over. */
void coroutine_wait(struct coroutine *c, int fd, int events, int wake_fd, int64_t until);

#endif
