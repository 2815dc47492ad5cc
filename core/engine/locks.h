#ifndef SQLOCK_ENGINE_LOCKS_H
#define SQLOCK_ENGINE_LOCKS_H

#include "core/engine/call.h"

/* The namespace of the library's own locks. It has a NUL, which a user's namespace cannot have. So
 * users cannot take, break or list these locks, and the reaper leaves them alone. */
#define LOCK_OWN_NS "\0sqlock"

/* A seat's row has the lock's name for a key, and behind it a NUL and the seat's number in three
 * bytes, so that it stands behind the lock's own row. A user's name has no NUL. */
#define LOCK_SEAT_SIZE 4
#define LOCK_SEATS_MAX (1 << 24)

/* Make a handle in state UNSURE. opts was checked. */
int lock_new(sqlock *m, const char *name, size_t name_len, const sqlock_acquire_opts *opts,
             sqlock_lock **out, sqlock_error *err);
/* The application gave its owner, and may acquire with that once more. */
void lock_has_given_owner(sqlock_lock *lock);
/* As lock_new(), for a grant in the place of another one: with this mode, its name and options, and
 * what is left of its max_hold_ms. same_owner: with its owner, too; otherwise with a new one. */
int lock_like(sqlock_lock *lock, int64_t mode, int same_owner, sqlock_lock **out,
              sqlock_error *err);
/* Make it one of the library's own locks. Call this before its first use. */
void lock_make_own(sqlock_lock *lock);
/* It holds this seat; -1: none. From now on its requests are about that row. */
void lock_sit(sqlock_lock *lock, int64_t seat);
/* The lease with which it waits for its turn, or has that. A seat is the next request, so it is as
 * short as an offer: whoever dies with the turn keeps the others waiting for no longer (P23). */
#define LOCK_TURN_US INT64_C(1000000)
int64_t lock_turn_us(const sqlock_lock *lock);
/* The seat that a row's key names, and in *len the length of the lock's name; -1: it is none. */
int64_t lock_seat_of(const char *key, size_t *len);
/* The order of rows, by their keys. */
int lock_order(const sqlock_lock *a, const sqlock_lock *b);
/* Free the handle. Waits for a running callback. */
void lock_free(sqlock_lock *lock);

/* m->mu is held in all functions below. */

/* Apply an event to the lock's lease, now, and act. */
void lock_apply(sqlock_lock *lock, enum lease_event event, int64_t arg);
/* Do what the last changes require: plan ticks and renewals anew, set the lock's descriptor, wake
 * threads. Follows each change of a lock's fields. */
void lock_act(sqlock_lock *lock);

/* The next four only change values. Call lock_act() afterwards. */

/* Apply an event to the lock's lease. */
void lock_change(sqlock_lock *lock, enum lease_event event, int64_t now, int64_t arg);
/* A grant arrived: from now on it is renewed and watched. Returns 0 if it came so late that less
 * than half of the lease is left. Then nothing was done, and the request has to be sent again
 * (P4). */
int lock_granted(sqlock_lock *lock, const struct answer *answer, int64_t now);
/* A renewal was confirmed. */
void lock_renewed(sqlock_lock *lock, const struct answer *answer, int64_t now);
/* The server changed: the lease is at risk until the new one confirms it. */
void lock_moved(sqlock_lock *lock, int64_t now);

/* A grant is wanted that the worker renews, or that the timer watches for its callback. Otherwise
 * no thread has anything to do for this lock: its state and its descriptor go by the time alone. */
int lock_needs_threads(const sqlock_lock *lock);
/* The answer, of this server, shows the lease's end by the server's clock. */
void lock_note_end(sqlock_lock *lock, const struct answer *answer, int64_t server);
/* Another grant of its holder has taken its place. */
void lock_replaced(sqlock_lock *lock, int64_t now);
/* Why the lock is lost by this answer, or SQLOCK_WHY_NONE. */
sqlock_why lock_denied(const sqlock_lock *lock, const struct answer *answer);
/* Wait for a running callback, unless this is called from within it. */
void lock_await_callback(sqlock_lock *lock);
/* The descriptor that reports the loss. The first call makes it. May return SQLOCK_ESYS. */
int lock_descriptor(sqlock_lock *lock);
/* Give a reference back. The last one frees the lock. The caller must have another reference to the
 * manager. */
void lock_unref_locked(sqlock_lock *lock);
/* What others see of its holder. */
const char *lock_label(const sqlock_lock *lock);

#endif
