/* Several locks in one call: a list of names at once, or one lock back and another one taken.
 * What goes out together costs one commit, where one call after the other costs one each. (Shared
 * locks and slots are acquired by one commit each.) Each lock has its own lease, token and handle, as if it
 * had been acquired alone. */
#ifndef SQLOCK_MANY_H
#define SQLOCK_MANY_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_MANY_MAX 10000 /* names in one call */

/* Acquire as many of the n names as possible, each as sqlock_acquire() does, with the same options; but
 * opts->modes may have a mode for each.
 * Their owner must be NULL, because each grant has an owner of its own. Their holder is filled for the
 * first name that is refused.
 * With wait_ms, what is granted early is held, and renewed, while the call waits for the rest. At the end
 * each lock has at least half of its lease left, or it is given back. With SQLOCK_NO_RENEW it is renewed
 * only then, so a wait that is longer than the lease may end with SQLOCK_ELOST for some.
 * If the database hangs just then, that takes the manager's request_ms after the wait, and giving back the
 * same again.
 * Two programs that wait for each other's names both wait in vain: use sqlock_acquire_all() for names
 * that belong together. With opts->actor one of the names ends with SQLOCK_EDEADLOCK.
 * Ownership: out_locks[i] is the handle of names[i], or NULL; out_codes[i], if out_codes is not NULL,
 *            is what sqlock_acquire() would have returned. End the handles with sqlock_end_each().
 *            With SQLOCK_EUNSURE there is a handle, too.
 * Threads:   any.
 * Returns:   0 if all are held, otherwise the code of the first name that is not, with its error. Before
 *            any I/O, and with all handles NULL:
 *            SQLOCK_EINVAL a name, a name twice, options; or no names or too many: then out_locks is not
 *                          touched
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS. */
SQLOCK_API SQLOCK_CHECKED int sqlock_acquire_each(sqlock *m, const char *const *names, size_t n,
                                   const sqlock_acquire_opts *opts, sqlock_lock **out_locks,
                                   int *out_codes, sqlock_error *err);

/* Acquire all of the n names, or none. A first try takes what is free. If a name is refused, it gives
 * the others back and waits in the queue of that one, until opts->wait_ms is over: of those that were
 * refused, the first in byte order. Meanwhile it holds none. When the name is offered to it, one request
 * and one commit take all of them. If another one is refused then, it gives all back, and with that
 * passes the name on to who waits next; and waits in the queue of the one that was refused.
 * (Shared locks and slots, and managers without threads: the name comes first, and the others behind it.)
 * While it holds some it waits for larger names only, and only for a moment of random length, so that
 * callers with the same names in any order do not wait for each other. It has a place in the queue of one name at a
 * time, so programs that take another one again and again may keep it waiting.
 * Other programs may see a name held for a moment, and then given back.
 * As above, it may need twice the manager's request_ms after the wait, if the database hangs. A cancel that
 * meets a request under way is obeyed when that cannot be granted any more: after request_ms, or the lease.
 * Ownership: on success out_locks has n handles, for sqlock_end_each(). Otherwise all are NULL.
 * Threads:   any.
 * Returns:   0, or as sqlock_acquire_each(). With SQLOCK_EUNSURE one of them could not be given back, and
 *            may stand until its lease runs out. */
SQLOCK_API SQLOCK_CHECKED int sqlock_acquire_all(sqlock *m, const char *const *names, size_t n,
                                  const sqlock_acquire_opts *opts, sqlock_lock **out_locks,
                                  sqlock_error *err);

/* sqlock_lock_end() for n locks of one manager: release them, free the handles and set them to NULL.
 * NULLs among them are allowed, and no handle twice. out_codes[i], if out_codes is not NULL, is what sqlock_lock_end() would
 * have returned. It takes request_ms at most, and as much again for each 16 of them while the database answers.
 * (A manager without threads has request_ms for all of them.)
 * Returns: 0, or the first code that is not 0, with its error. Nothing was sent, and the handles stay,
 *          after SQLOCK_EINVAL (they are of several managers), SQLOCK_EFORK, or SQLOCK_ESTATE (from a
 *          callback of a manager without threads). */
SQLOCK_API SQLOCK_CHECKED int sqlock_end_each(sqlock_lock **locks, size_t n, int *out_codes,
                               sqlock_error *err);

/* Give *lock back, and acquire name: what sqlock_lock_end() and then sqlock_acquire() do, in one commit.
 * For a worker that goes from one lock to the next. *lock may be NULL: then it only acquires.
 * The two are independent. *lock is given back even if name is refused, and if name has to wait, *lock
 * is free meanwhile. name is acquired even if *lock was lost.
 * Where the driver sends each kind of request by itself, it is two commits: on MySQL before 8.0.1,
 * and with MySQL's own client library.
 * Ownership: *lock is freed, and becomes the handle of name, or NULL, as with sqlock_acquire().
 *            *out_released, if out_released is not NULL, is what sqlock_lock_end() would have returned;
 *            before any I/O it is not touched.
 * Threads:   any; *lock is used by no other thread meanwhile.
 * Returns:   what sqlock_acquire() returns. If that is before any I/O, *lock is still held, and its
 *            handle stays. So it is after:
 *            SQLOCK_EINVAL also if name is the name of *lock, or if that is of another manager
 *            SQLOCK_ESTATE from a callback of a manager without threads.
 *            The error is of the acquire. If that succeeded, it is of the release. */
SQLOCK_API SQLOCK_CHECKED int sqlock_swap(sqlock *m, sqlock_lock **lock, const char *name,
                           const sqlock_acquire_opts *opts, int *out_released, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
