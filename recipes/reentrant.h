/* Reentrant locks: whoever holds a lock may take it again, and the last release frees it. For code
 * that calls itself under a lock, where passing the handle on is not possible.
 *
 *     struct reentrant *r = reentrant_new(m);
 *     rc = reentrant_acquire(r, NULL, "account/7", NULL, &lock, &err);   // this thread's
 *     rc = reentrant_acquire(r, NULL, "account/7", NULL, &lock, &err);   // at once: the same lock
 *     rc = reentrant_release(r, NULL, "account/7", &err);                // still held
 *     rc = reentrant_release(r, NULL, "account/7", &err);                // free
 *     reentrant_free(r);
 *
 * How it works: one handle for each pair of holder and name, and a count. Only the first acquire and
 * the last release send anything. So all of them share one lease, one token and one loss.
 *
 * Actors    Who may take it again: a thread (NULL: the calling one), or a job of the application's,
 *           by the address of what stands for it. One thread at a time acts for a job. Who ends
 *           releases first: a later thread or job may stand at the same address.
 * Threads   Any. Actors wait for each other only in sqlock_acquire().
 */
#ifndef SQLOCK_RECIPES_REENTRANT_H
#define SQLOCK_RECIPES_REENTRANT_H

#include <sqlock/sqlock.h>

struct reentrant;

/* NULL: no memory. It uses m, which outlives it. */
struct reentrant *reentrant_new(sqlock *m);
/* Locks that are still held are released. */
void reentrant_free(struct reentrant *r);

/* Acquire, or count one more. Of opts only the mode counts if the actor has the lock: an exclusive
 * one serves for any mode, others for their own.
 * Ownership: *out_lock belongs to r. It is for getters and guards, and ends with the last release. It
 *            may be NULL.
 * Returns:   0; SQLOCK_ELOST if the actor has it, but it was lost: release it as often as it was
 *            acquired; SQLOCK_EUNSURE if its lease may have ended, say behind a guard under SQLite;
 *            SQLOCK_EREFUSED if it has it in another mode; SQLOCK_ENOMEM; or the codes of sqlock_acquire(), with nothing held. */
int reentrant_acquire(struct reentrant *r, const void *actor, const char *name,
                      const sqlock_acquire_opts *opts, sqlock_lock **out_lock, sqlock_error *err);

/* One less. The last one releases and frees.
 * Returns: 0; SQLOCK_ELOST if the lock was lost, also before the last one, and SQLOCK_EUNSURE if its
 *          lease may have ended; SQLOCK_ESTATE if the actor
 *          does not have it; or the codes of sqlock_lock_end(). */
int reentrant_release(struct reentrant *r, const void *actor, const char *name, sqlock_error *err);

#endif
