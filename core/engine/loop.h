#ifndef SQLOCK_ENGINE_LOOP_H
#define SQLOCK_ENGINE_LOOP_H

#include "core/engine/manager.h"

/* A manager without threads: the application's event loop drives it. What the worker thread does
 * runs on coroutines here, one for each request under way, and what the timer thread does stands in
 * the step between them. So one engine serves callers that block, threads and event loops. */

/* Make the manager one that is stepped. Called before its first use. */
int loop_make(sqlock *m, sqlock_error *err);
void loop_free(sqlock *m);

/* m->mu is held in all that follow. */

/* There is something to do at that time (0: now): let the descriptor become readable then. */
void loop_wake(sqlock *m, int64_t at);
/* This thread is in a step of the manager: in a callback, or on a coroutine. */
int loop_is_mine(const sqlock *m);
/* A step, unless another thread is in one. Never blocks. The mutex is released meanwhile. */
void loop_go_on(sqlock *m);
/* What sqlock_loop_fd() and sqlock_loop_due_us() return. */
int loop_descriptor(const sqlock *m);
int64_t loop_next(const sqlock *m);
/* For a caller that blocks: wait until there is something to do, or wake_fd (-1: none) is readable,
 * or until then, and step. Look again after it: it may return early. The mutex is released
 * meanwhile. Not within a step. */
void loop_pump(sqlock *m, int wake_fd, int64_t until);
/* The manager has no threads, and this is a caller that blocks: it is outside of a step. m->mu is
 * not held in this and the next two. */
int loop_blocks(sqlock *m);
/* For such a caller: let run(arg), which may block, be done on a coroutine, and step meanwhile. */
void loop_do(sqlock *m, void (*run)(void *arg), void *arg);
/* On a coroutine that is about to send: let those that are ready come as far, so that their
 * requests go along. m->mu is held, and is released meanwhile. */
void loop_let_others(sqlock *m);
/* The manager stops: let everything under way come to its end. */
void loop_stop(sqlock *m);

#endif
