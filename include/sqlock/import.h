/* A grant that several processes use: one acquires, another one goes on with name, owner and token. */
#ifndef SQLOCK_IMPORT_H
#define SQLOCK_IMPORT_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An owner is one holder of one grant, in SQLOCK_OWNER_SIZE bytes. It is random for each acquire, unless
 * sqlock_acquire_opts.owner gives it. Give one to settle the acquire of a process that died: a process
 * that was only stopped goes on with the same grant. Two callers with the same owner both get the lock,
 * with one token. They have one place in a queue: who gives up its wait may take the other's place with it.
 * A process that comes back with its owner takes the place of the one that died, once that counts as dead.
 * One that was released, or was offered the lock after its wait had ended, is never granted it again
 * (SQLOCK_ELOST): then take a new owner. If a release of the same manager passes the lock on to an owner
 * that you gave, in the moment in which it gives up, the lock stands until that lease ends. Give no owner
 * of a shared grant, or of a slot. */

/* The owner of this grant. No I/O; any thread. */
SQLOCK_API const unsigned char *sqlock_lock_owner(sqlock_lock *lock);

/* Make a handle for a grant of another process, from its name, owner and token; and, if it is shared or
 * of a slot, from what sqlock_lock_slot() says there (opts->slot). Nothing is sent. The handle is UNSURE:
 *   sqlock_settle()    renews this very grant: HELD, and renewed from then on (unless SQLOCK_NO_RENEW);
 *                      or LOST with the reason
 *   sqlock_release()   releases this very grant, settled or not
 *   sqlock_lock_free() leaves it as it is
 * Of opts it uses slot, lease_ms, renew_ms, max_hold_ms (from settling on), flags, on_event and user. opts
 * may be NULL.
 * All handles of a grant share one hold: a release through one ends it for all, which learn it at their
 * next renewal (SQLOCK_WHY_RELEASED).
 * Ownership: on success *out_lock is yours, as with sqlock_acquire(). Otherwise it is NULL.
 * Threads:   any.
 * Returns:   0, or SQLOCK_EINVAL (name, owner, token, numbers), SQLOCK_EFORK, SQLOCK_ENOMEM. */
SQLOCK_API SQLOCK_CHECKED int sqlock_import(sqlock *m, const char *name, const unsigned char *owner,
                             int64_t token, const sqlock_acquire_opts *opts, sqlock_lock **out_lock,
                             sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
