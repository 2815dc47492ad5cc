/* A delay after a loss: who acquires a lock whose last holder lost it keeps it shut for a while. So the
 * old holder's last writes arrive before the new one begins, also in things that compare no token.
 *
 *     struct delay d;
 *     rc = delay_acquire(&d, m, "printer", NULL, 15000, &err);
 *     if (rc == 0) {
 *         ... work, as under any lock: d.lock ...
 *         rc = delay_release(&d, &err);
 *     }
 *
 * How it works: the register of this name says "open TOKEN" while a holder works, and "closed TOKEN" when
 * it has ended its work and is about to release. Who acquires the lock reads it. If it says "open", that
 * holder's lease ran out, or was broken, and it may still be writing. Then the new holder waits, and
 * renews its lease meanwhile.
 * The delay counts from the new holder's grant, because that is the first moment that it knows the old one
 * to be without the lock. So it is never too short; and it is waited for in full even if the loss is long
 * ago. A holder that ends before the delay is over, by a cancel or a crash, leaves the note as it is, and
 * the next one waits in full.
 *
 * Tokens    Prefer them, or a guard (sqlock/transaction.h), wherever the data can compare: they are sure.
 *           A delay only makes it likely that a holder which was stopped or cut off has gone by then.
 * Holders   All must come this way. One that acquires the same name by sqlock_acquire() writes nothing, so
 *           its loss is not noticed, and it does not wait for others'.
 * Cost      A read and a commit behind the acquire, and a commit before the release.
 * Schema    Version 2: the table of registers, with its rights (sqlock/register.h).
 * Threads   Any; a struct delay belongs to one at a time.
 */
#ifndef SQLOCK_RECIPES_DELAY_H
#define SQLOCK_RECIPES_DELAY_H

#include <sqlock/sqlock.h>

struct delay {
    sqlock *m;
    sqlock_lock *lock;
    int after_loss;  /* 1: the holder before lost it */
    int64_t version; /* of the register, as it was read or written */
};

/* Acquire the lock, and wait until delay_ms have passed since then if the holder before lost it. That comes
 * on top of opts->wait_ms: also a single try may take so long.
 * opts:      of the lock, or NULL: an exclusive one that the library renews (no SQLOCK_NO_RENEW), with a
 *            max_hold_ms of more than delay_ms, or none. A lease may be shorter than the delay. Its cancel
 *            ends the delay too.
 * delay_ms:  0: do not wait, only look (d->after_loss).
 * Ownership: with 0 the lock is yours; end it with delay_release(). d and the manager live until then.
 *            Otherwise nothing is held, and d->lock is NULL.
 * Returns:   0, or
 *            SQLOCK_ELOST      it was lost during the delay
 *            SQLOCK_ECANCELLED in the wait or in the delay
 *            SQLOCK_ECORRUPT   the register holds something that this recipe has not written
 *            SQLOCK_EINVAL     delay_ms or opts, see above; before any I/O
 *            and the codes of sqlock_acquire(), sqlock_register_get() and sqlock_register_set(). */
int delay_acquire(struct delay *d, sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                  int32_t delay_ms, sqlock_error *err);
/* The work is over, and all of it has arrived where it was sent. Write that down, and release the lock. Call
 * it only then: to end a handle without it, use sqlock_lock_end(&d->lock), and the next holder waits.
 * Returns:   what sqlock_release() returns. If that is 0, the codes of sqlock_register_set(), or
 *            SQLOCK_ECORRUPT if someone else has changed the register: the lock is released, but the next
 *            holder may wait. d->lock is NULL whatever it is. */
int delay_release(struct delay *d, sqlock_error *err);

#endif
