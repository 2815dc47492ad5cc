/* Trying again what others may spoil: a transaction that compares and sets, or that the database asks to
 * restart. Optimistic first, and if that does not help, under a lock.
 *
 *     static int raise_price(const sqlock_attempt *attempt, void *user, sqlock_error *err)
 *     {
 *         ... BEGIN, SELECT price, version ...
 *         rc = sqlock_cas_update(conn, &row, &version, set, 1, err);
 *         ... COMMIT if that was 0, else ROLLBACK ...
 *         return rc;
 *     }
 *     ...
 *     sqlock_retry_opts opts = SQLOCK_RETRY_OPTS_INIT;
 *     opts.optimistic = 5;
 *     opts.lock_name = "price/4711";
 *     rc = sqlock_retry(m, raise_price, user, &opts, &err);
 *
 * An attempt is a whole transaction, from its BEGIN to its end: what was read before it began is old,
 * and inside of one transaction some isolation levels read the same old row for ever.
 */
#ifndef SQLOCK_RETRY_HEADER
#define SQLOCK_RETRY_HEADER

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sqlock_attempt {
    uint32_t size;
    int32_t number;     /* 1, 2, 3 ... */
    int pessimistic;    /* 1: opts->optimistic attempts have failed: lock what is read (SELECT ... FOR
                           UPDATE); the name is locked already, if opts->lock_name has one */
    sqlock_lock *lock;  /* that lock, for sqlock_guard() and its token; not to be released. Else NULL */
    int64_t end_us;     /* no attempt begins later (sqlock_now_us()); INT64_MAX: endless */
} sqlock_attempt;

/* Make one attempt, all of it, and leave no transaction open. Return
 *   0                    it is done, and committed
 *   SQLOCK_CONFLICT, SQLOCK_EBUSY, SQLOCK_ETXRESTART, SQLOCK_ETXGONE
 *                        nothing was committed: try again, after a pause (SQLOCK_ETXGONE with
 *                        SQLOCK_RECONNECT in err->flags: on a new connection, which you make)
 *   SQLOCK_ELOST         the same, if attempt->lock is no longer held; else it is final
 *   anything else        final: the end of sqlock_retry(), which returns it
 * A COMMIT whose answer was lost may have been applied: that is SQLOCK_EUNSURE, never one of those that
 * are tried again. *err is empty when it begins. */
typedef int (*sqlock_attempt_fn)(const sqlock_attempt *attempt, void *user, sqlock_error *err);

#define SQLOCK_RETRY_OPTIMISTIC INT32_MAX /* optimistic: all of them */

typedef struct sqlock_retry_opts {
    uint32_t size;         /* sizeof(sqlock_retry_opts) */
    int32_t attempts;      /* at most so many, 1 or more */
    int32_t optimistic;    /* so many of them without a lock; 0: none, SQLOCK_RETRY_OPTIMISTIC: all */
    int32_t base_ms;       /* pauses are drawn evenly from 0 to base_ms, doubled from pause to pause */
    int32_t cap_ms;        /* up to this; at most an hour */
    int32_t total_ms;      /* no attempt begins later, but the first; SQLOCK_WAIT_FOREVER */
    int32_t lease_ms;      /* of the lock; 0: the manager's default */
    const char *lock_name; /* the lock for pessimistic attempts; NULL: the attempts lock by themselves */
    sqlock_cancel *cancel; /* cuts pauses and the wait for the lock; NULL: nothing does */
} sqlock_retry_opts;

#define SQLOCK_RETRY_OPTS_INIT                                                                     \
    { sizeof(sqlock_retry_opts), 10, SQLOCK_RETRY_OPTIMISTIC, 5, 500, 10000, 0, NULL, NULL }
SQLOCK_API void sqlock_retry_opts_init(sqlock_retry_opts *opts);

/* Make attempts until one is final, or attempts or time have run out. Pauses have full jitter, so that
 * those who met once do not meet again. The lock is a lease: it keeps out others who have come so far,
 * not their optimistic attempts, which may still spoil one; and it is given back when this returns
 * (where that fails, it runs out).
 * m may be NULL where there is no lock_name. opts may be NULL (defaults).
 * Threads:   any. attempt() is called in this one, without any mutex held.
 * Returns:   what the last attempt returned (err is that attempt's): so SQLOCK_CONFLICT, SQLOCK_EBUSY,
 *            SQLOCK_ETXRESTART or SQLOCK_ETXGONE mean that attempts or time ran out. Or SQLOCK_EINVAL
 *            (arguments; nothing was tried), SQLOCK_ECANCELLED (by opts->cancel, between attempts), and
 *            the codes of sqlock_acquire() where the lock was not to be had. */
SQLOCK_API SQLOCK_CHECKED int sqlock_retry(sqlock *m, sqlock_attempt_fn attempt, void *user,
                            const sqlock_retry_opts *opts, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
