/* Change the mode of a lock that is held: from exclusive to shared at once, from shared to exclusive if
 * no one else wants that. In between no other program has the lock alone.
 *
 *     sqlock_acquire(m, "catalogue", NULL, &lock, &err);       // alone: write
 *     rc = sqlock_downgrade(&lock, &err);                      // now others may read it, too
 *     rc = sqlock_upgrade(&lock, 2000, NULL, &err);            // alone again, if all others release
 *
 * Each change is a new grant: it has a new handle, and a larger token. A resource that compares tokens
 * gets the tokens of exclusive grants only. Label, callback, lease and renewals are as before; max_hold_ms
 * goes on to count from the first grant.
 * Schema   Version 1. SQLOCK_EREFUSED, ESCHEMA: the driver or its schema has no shared locks. */
#ifndef SQLOCK_MODE_H
#define SQLOCK_MODE_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An exclusive lock becomes a shared one. It never waits for other holders, and costs one commit. Shared
 * ones that wait are let in, exclusive ones wait on.
 * End the transactions that guard *lock before: until then it cannot change (SQLOCK_EBUSY, EGUARDED).
 * Ownership: with 0 and SQLOCK_EUNSURE *lock is freed, and becomes the handle of the shared grant. Otherwise
 *            it stays the same handle.
 * Threads:   any; *lock is used by no other thread meanwhile.
 * Returns:   0 (held, shared), or
 *            SQLOCK_EUNSURE   the reply was lost: *lock is UNSURE, sqlock_settle() finds out. It is held then
 *                             only if no one had the lock in between
 *            SQLOCK_ELOST     it was lost before (sqlock_lock_why)
 *            SQLOCK_EBUSY, SQLOCK_EGUARDED, SQLOCK_ETIMEOUT: it is exclusive still: a transaction has locked
 *                             its row, or no answer came within request_ms
 *            SQLOCK_ESTATE    it is not held, or not exclusive, or a change is under way; or max_hold_ms have
 *                             passed, or it was imported with a slot. Before any I/O.
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, or the database's codes: it is exclusive still. */
SQLOCK_API SQLOCK_CHECKED int sqlock_downgrade(sqlock_lock **lock, sqlock_error *err);

/* A shared lock becomes an exclusive one, as soon as the other holders have released. Until then no new
 * ones are let in. It is refused at once if another one wants the lock alone already: it waits until this
 * one is released, so both would wait for ever. Release then, and acquire the lock exclusively. An upgrade
 * that failed leaves within moments, and until then is such another one.
 * Before the last step the shared grant is given back. If the database fails just then, or a transaction
 * guards *lock, or the grant of another one that has ended, neither may be held: SQLOCK_ELOST.
 * Readers that have just been called to the lock may make it refuse for some moments, too.
 * wait_ms:   for the other holders. 0: do not wait for them. SQLOCK_WAIT_FOREVER is allowed. Once they are gone,
 *            it may take the manager's request_ms more. If a reply was lost, giving back takes the same again.
 * cancel:    ends the wait from another thread; may be NULL.
 * Ownership: with 0 *lock is freed, and becomes the handle of the exclusive grant. Otherwise it stays the
 *            same handle.
 * Threads:   any; *lock is used by no other thread meanwhile, except by getters.
 * Returns:   0 (held, exclusive), or
 *            SQLOCK_EBUSY     it is shared still: another one wants the lock alone, or there were other
 *                             holders until the wait ended
 *            SQLOCK_EGUARDED  the same: a transaction guards the lock's row
 *            SQLOCK_EDEADLOCK the same: actors wait for each other, see sqlock_acquire_opts
 *            SQLOCK_ELOST     the shared lock was lost before, or was given back and the exclusive one not
 *                             granted: nothing is held
 *            SQLOCK_ECANCELLED, SQLOCK_ETIMEOUT  it is shared still
 *            SQLOCK_EUNSURE   a reply was lost: *lock is held still, or is UNSURE, for sqlock_settle(). What
 *                             may be granted in its place is given back, or its lease runs out
 *            SQLOCK_EINVAL    wait_ms; before any I/O
 *            SQLOCK_ESTATE    it is not held, or not shared; otherwise as above; before any I/O
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_upgrade(sqlock_lock **lock, int32_t wait_ms, sqlock_cancel *cancel,
                              sqlock_error *err);

/* The same for event loops: see sqlock/async.h. lock stays yours, and must not be freed before *out_op has
 * ended. sqlock_op_finish() gives the new handle, also with SQLOCK_EUNSURE. Then sqlock_settle() of an
 * upgrade gives back what was granted, and says SQLOCK_ELOST: others may have had the lock meanwhile. After
 * a change, lock is RELEASED or LOST: free it. After a failure it is what sqlock_lock_state() says. */
SQLOCK_API SQLOCK_CHECKED int sqlock_downgrade_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
SQLOCK_API SQLOCK_CHECKED int sqlock_upgrade_start(sqlock_lock *lock, int32_t wait_ms, sqlock_cancel *cancel,
                                    sqlock_op **out_op, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
