/* sqlock in an event loop: acquire, renew and release without a call that blocks. Either the
 * manager's worker thread does the work, or the loop does it step by step, and there is no thread. */
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
/* A descriptor that becomes readable when the request is done. It is made for the first call, and
 * belongs to op. Any thread, before sqlock_op_finish(). Never blocks.
 * Returns it, or SQLOCK_ESYS (no descriptor is left; the request goes on, and sqlock_op_finish()
 * can wait for it), SQLOCK_EINVAL (NULL), SQLOCK_EFORK. */
SQLOCK_API int sqlock_op_fd(sqlock_op *op);
/* Returns 1 when the request is done, or is NULL, and 0 when it is under way. Never blocks. */
SQLOCK_API int sqlock_op_step(sqlock_op *op);
/* The place of an acquire in the queue of the database. 1 is the next in line. Only a waiter of the
 * holder's manager may come first. 0: it has none, or not yet, or the request is done. It is as old as
 * the last answer, about a second. On MariaDB and MySQL it may count waiters that have died, which
 * sqlock_list_waiters() leaves out. Any thread, before sqlock_op_finish(). Never blocks. */
SQLOCK_API int64_t sqlock_op_place(sqlock_op *op);
/* End a request early. It must still be finished. Any thread. NULL is allowed. The result may be
 * SQLOCK_EUNSURE, with a handle to end: see sqlock_acquire(). */
SQLOCK_API void sqlock_op_cancel(sqlock_op *op);
/* Take the result and free op. Waits if the request is not done. out_lock is for an acquire; NULL
 * otherwise. Returns what the blocking call would have returned. Or SQLOCK_EINVAL (NULL); or
 * SQLOCK_ESTATE, and op lives on: in a callback of a manager without threads, before the request is
 * done. */
SQLOCK_API SQLOCK_CHECKED int sqlock_op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);

/* ---- without threads ----------------------------------------------------------------------------
 *
 * A manager of sqlock_open_start() starts no thread at all. The application's event loop drives it:
 *
 *     poll sqlock_loop_fd() for reading; when it is readable, call sqlock_loop_step()
 *
 * All that the threads of other managers do happens in that step: requests, renewals, deadlines,
 * callbacks. So a loop that does not step does not renew: keep the pauses between two steps far
 * below a third of the lease. What does not depend on a step:
 * - a lock's state. It is never HELD or AT_RISK after its deadline.
 * - the descriptor of sqlock_lock_fd(). The kernel makes it readable at the deadline.
 *
 * Calls that block (sqlock_acquire(), sqlock_op_finish() before the end, ...) may be used too. They
 * step the manager while they wait.
 * A step runs each request on a small stack of its own (256 KB of address space, some pages of
 * memory), and continues it where its descriptor is ready. The connection factory of the options
 * runs there too. It may block, and then the step does. */

/* sqlock_open() in pieces: check the arguments, and begin to open the database. The manager is
 * there at once, and requests may be started. The op ends when the database was opened and the
 * handshake was made, or when that failed. After a failure the manager can be kept, because each
 * request tries to connect anew.
 * What can block all the same:
 * - name resolution, in the step that begins to connect
 * - SQLite's file
 * - MariaDB's and MySQL's client libraries read option files and certificates
 * Ownership: end *out_op with sqlock_op_finish(), *out_m with sqlock_close().
 * Returns:   0, or what sqlock_open() returns before any I/O. The op's end returns the rest. */
SQLOCK_API SQLOCK_CHECKED int sqlock_open_start(const sqlock_driver *driver, const char *url,
                                 const sqlock_open_opts *opts, sqlock **out_m, sqlock_op **out_op,
                                 sqlock_error *err);
/* A descriptor that is readable when sqlock_loop_step() has something to do, also because of the time.
 * The manager keeps and closes it. Any thread.
 * Returns it, or SQLOCK_EINVAL (NULL, or a manager with threads), SQLOCK_EFORK. */
SQLOCK_API int sqlock_loop_fd(sqlock *m);
/* The same for loops with timers of their own: when sqlock_loop_step() has something to do, at the latest
 * and if no descriptor is ready before; INT64_MAX: never. Microseconds of sqlock_now_us(); a time in
 * the past is now. The descriptor alone is enough: it includes this time. Any thread. */
SQLOCK_API int64_t sqlock_loop_due_us(sqlock *m);
/* Do what there is to do, without waiting for the database. Callbacks run in it, on this thread. Any
 * thread; while one is in a step, others return at once.
 * Returns 0, SQLOCK_EINVAL (NULL, or a manager with threads), SQLOCK_EFORK. */
SQLOCK_API int sqlock_loop_step(sqlock *m);

#ifdef __cplusplus
}
#endif
#endif
