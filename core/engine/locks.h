#ifndef SQLOCK_ENGINE_LOCKS_H
#define SQLOCK_ENGINE_LOCKS_H

#include "core/engine/call.h"

/* The namespace of the library's own locks. A namespace of a user's has no NUL, so that it never
 * meets theirs: nobody can take them, break them or see them listed, and the reaper leaves it
 * alone. */
#define LOCK_OWN_NS "\0sqlock"

/* Make a handle in state UNSURE, not yet known to the manager. opts has been checked. */
int lock_new(sqlock *m, const char *name, size_t name_len, const sqlock_acquire_opts *opts,
             sqlock_lock **out, sqlock_error *err);
/* Before it is used: let it be one of the library's own locks. */
void lock_make_own(sqlock_lock *lock);
/* Take the handle away from its owner; waits for a running callback. */
void lock_free(sqlock_lock *lock);

/* All that follow: m->mu is held. */

/* Move a lock's lease, and tell who has to know: the timer, the descriptor. */
void lock_apply(sqlock_lock *lock, enum lease_event event, int64_t arg);
/* A grant arrived: from now on it is renewed and watched. 0: it came so late that less than half of
 * the lease is left; nothing was done, and it has to be asked for once more (P4). */
int lock_granted(sqlock_lock *lock, const struct answer *answer);
/* A renewal was confirmed. */
void lock_renewed(sqlock_lock *lock, const struct answer *answer);
/* Another server was met: the lease is at risk until that one confirms it. */
void lock_moved(sqlock_lock *lock);
/* Why an answer says that it is lost, or SQLOCK_WHY_NONE. */
sqlock_why lock_denied(const sqlock_lock *lock, const struct answer *answer);
/* Wait for a callback that is running, unless called from within it. */
void lock_await_callback(sqlock_lock *lock);
/* The descriptor that tells the loss, made at the first call; or SQLOCK_ESYS. */
int lock_descriptor(sqlock_lock *lock);
/* Give a reference back; with the last one it is freed, and the manager must have another. */
void lock_unref_locked(sqlock_lock *lock);

#endif
