/* sqlock in an event loop: acquire, renew and release without a call that blocks. */
#ifndef SQLOCK_ASYNC_H
#define SQLOCK_ASYNC_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sqlock_acquire(), renew and release in pieces. A start returns at once, and the worker thread
 * does the work. Poll sqlock_op_fd() for reading. When it is readable, call sqlock_op_step(); when
 * that returns 1, call sqlock_op_finish(). One thread at a time. A start that fails returns what
 * the blocking call would have returned before any I/O, and *out_op is NULL.
 * The worker thread does one request at a time. A request that waits behind one that hangs ends
 * when its own time is up (SQLOCK_ETIMEOUT: it was not sent), and at once when it is cancelled.
 * After half of its time it may close the other one's connection; that one then tries again. */
SQLOCK_API SQLOCK_CHECKED int sqlock_acquire_start(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                                    sqlock_op **out_op, sqlock_error *err);
SQLOCK_API SQLOCK_CHECKED int sqlock_renew_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
SQLOCK_API SQLOCK_CHECKED int sqlock_release_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
/* A descriptor that becomes readable when the request is done. It belongs to op. */
SQLOCK_API int sqlock_op_fd(sqlock_op *op);
/* Returns 1 when the request is done, 0 when it is under way. Never blocks. */
SQLOCK_API int sqlock_op_step(sqlock_op *op);
/* End a request early. It must still be finished. Any thread. */
SQLOCK_API void sqlock_op_cancel(sqlock_op *op);
/* Take the result and free op. Waits if the request is not done. out_lock is for an acquire; NULL
 * otherwise. Returns what the blocking call would have returned. */
SQLOCK_API SQLOCK_CHECKED int sqlock_op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
