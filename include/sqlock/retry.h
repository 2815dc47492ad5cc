/* Retry what other programs may spoil: a transaction that compares and sets, or that the database
 * wants restarted. First optimistically; if that does not help, under a lock.
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
 * An attempt is a whole transaction, from its BEGIN to its end. What was read before it began is
 * old, and inside one transaction some isolation levels read the same old row for ever.
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
    int pessimistic;    /* 1: opts->optimistic attempts have failed: lock what you read (SELECT ...
                           FOR UPDATE). opts->lock_name, if there is one, is locked already */
    sqlock_lock *lock;  /* that lock, for sqlock_guard() and its token, or NULL; not to be released */
    int64_t end_us;     /* no attempt begins later (sqlock_now_us()); INT64_MAX: no limit */
} sqlock_attempt;

/* Make one whole attempt, and leave no transaction open. *err is empty when it begins. Return
 *   0                    it is done, and committed
 *   SQLOCK_CONFLICT, SQLOCK_EBUSY, SQLOCK_ETXRESTART, SQLOCK_ETXGONE
 *                        nothing was committed: retry after a pause. With SQLOCK_ETXGONE and the
 *                        flag
 *                        SQLOCK_RECONNECT in err->flags you make a new connection first
 *   SQLOCK_ELOST         the same if attempt->lock is no longer held; otherwise final
 *   anything else        final: sqlock_retry() ends and returns it
 * A COMMIT whose reply was lost may have been applied. Return SQLOCK_EUNSURE for it, never a code
 * that is retried. */
typedef int (*sqlock_attempt_fn)(const sqlock_attempt *attempt, void *user, sqlock_error *err);

#define SQLOCK_RETRY_OPTIMISTIC INT32_MAX /* for `optimistic`: all attempts */

typedef struct sqlock_retry_opts {
    uint32_t size;         /* sizeof(sqlock_retry_opts) */
    int32_t attempts;      /* at most this many; 1 or more */
    int32_t optimistic;    /* of these, without a lock; 0: none, SQLOCK_RETRY_OPTIMISTIC: all */
    int32_t base_ms;       /* the first pause is random, 0 to base_ms; the limit doubles each time */
    int32_t cap_ms;        /* up to cap_ms; at most an hour */
    int32_t total_ms;      /* no attempt but the first begins later; SQLOCK_WAIT_FOREVER */
    int32_t lease_ms;      /* of the lock; 0: the manager's default */
    const char *lock_name; /* the lock for pessimistic attempts; NULL: they lock by themselves */
    sqlock_cancel *cancel; /* ends pauses and the wait for the lock; NULL: none */
} sqlock_retry_opts;

#define SQLOCK_RETRY_OPTS_INIT                                                                     \
    { sizeof(sqlock_retry_opts), 10, SQLOCK_RETRY_OPTIMISTIC, 5, 500, 10000, 0, NULL, NULL }
SQLOCK_API void sqlock_retry_opts_init(sqlock_retry_opts *opts);

/* Make attempts until one is final, or until attempts or time run out. Pauses are random (full
 * jitter), so that programs that met once do not meet again.
 * The lock is a lease. It keeps out other programs in their pessimistic attempts, but not in their
 * optimistic ones, which may still spoil an attempt of yours. It is released when this returns; if
 * that fails, its lease runs out.
 * m may be NULL if there is no lock_name. opts may be NULL (defaults).
 * Threads:   any. attempt() is called in this thread, without any mutex held.
 * Returns:   what the last attempt returned, with its err. So SQLOCK_CONFLICT, SQLOCK_EBUSY,
 *            SQLOCK_ETXRESTART and SQLOCK_ETXGONE mean that attempts or time ran out. Or
 *            SQLOCK_EINVAL     arguments; nothing was tried
 *            SQLOCK_ECANCELLED by opts->cancel, between attempts
 *            and the codes of sqlock_acquire() if the lock was not granted. */
SQLOCK_API SQLOCK_CHECKED int sqlock_retry(sqlock *m, sqlock_attempt_fn attempt, void *user,
                            const sqlock_retry_opts *opts, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
