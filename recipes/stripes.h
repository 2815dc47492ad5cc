/* Striped locks: n locks in the place of one, so that n programs work at a time.
 *
 * By key: what belongs to the same key always meets in the same stripe. For many small things, such
 * as accounts, that need not have a lock each.
 *
 *     rc = stripes_acquire_key(m, "account", 64, &id, sizeof id, NULL, &lock, &err);
 *
 * Whichever is free: for stock that is divided into n parts, or n places for workers. The number of
 * the stripe tells which part is ours: a row, a port, a folder.
 *
 *     rc = stripes_acquire_any(m, "stock", 8, NULL, &lock, &stripe, &err);
 *     ... UPDATE stock SET left = left - 1 WHERE part = :stripe AND left > 0 ...
 *
 * How it works: the stripes are locks named "account/0" to "account/63". Each has its own lease,
 * token and queue, and is listed with the others by sqlock_list().
 *
 * Numbers   All programs must use the same n: another n divides the keys in another way, and two
 *           programs with the same key would not meet. Choose another prefix with another n.
 * Threads   Any.
 */
#ifndef SQLOCK_RECIPES_STRIPES_H
#define SQLOCK_RECIPES_STRIPES_H

#include <sqlock/sqlock.h>

#define STRIPES_MAX 100000

/* The stripe of a key, from 0 to n-1: the same on every machine. */
uint32_t stripes_of(const void *key, size_t len, uint32_t n);

/* Acquire the stripe of a key.
 * Returns: the codes of sqlock_acquire(); SQLOCK_EINVAL also if n is not from 1 to STRIPES_MAX, or
 *          prefix too long for a name with any number behind it. */
int stripes_acquire_key(sqlock *m, const char *prefix, uint32_t n, const void *key, size_t len,
                        const sqlock_acquire_opts *opts, sqlock_lock **out_lock,
                        sqlock_error *err);

/* Acquire any stripe. It tries all of them, beginning at a random one. While all are held it waits in
 * the queue of one for a moment, and then tries the others again. So whoever came later may be
 * served earlier. To try all costs a request each, also when the wait is over meanwhile.
 * *out_stripe is its number. opts has no actor: no circle of waiters would be found.
 * Returns: as stripes_acquire_key(). SQLOCK_EBUSY: all were held until the wait ended; opts->holder
 *          is that of the last one tried. SQLOCK_EUNSURE: one may have been granted, *out_lock is its
 *          handle, as with sqlock_acquire(). */
int stripes_acquire_any(sqlock *m, const char *prefix, uint32_t n, const sqlock_acquire_opts *opts,
                        sqlock_lock **out_lock, uint32_t *out_stripe, sqlock_error *err);

#endif
