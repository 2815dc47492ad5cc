/* A versioned register: a value of up to 64 KiB under a name, which is changed only by who knows its
 * version. For what many read and few change, where nobody should wait for a lock.
 *
 * Read it, make the new value from what was read, and set it with the version that was read. If somebody
 * was quicker, that is no error but the outcome SQLOCK_CONFLICT: nothing was changed, and all begins with
 * reading again.
 *
 *     char buf[SQLOCK_REGISTER_MAX];
 *     do {
 *         rc = sqlock_register_get(m, "config", buf, sizeof buf, &len, &version, &err);
 *         if (rc == 0)
 *             rc = sqlock_register_set(m, "config", buf, change(buf, len), version,
 *                                      &version, &err);
 *     } while (rc == SQLOCK_CONFLICT);        // many at once: pause for a random while in between
 *
 * Versions  are positive. Each set raises the version, by 1 or to the server's clock (microseconds since
 *           1970): on SQLite always, elsewhere the first time after the server was another one, or was
 *           started anew. A name's never come twice, whatever happens to its register: one that is made
 *           anew, after its row was deleted or the schema taken down and up, begins at the clock, above
 *           all that it had before. So servers' clocks have to agree, as for tokens (P2), and a clock that
 *           was put back to the moment of an earlier beginning, to the microsecond, could break that, and so
 *           could a register that is deleted and made anew within 71 minutes of SQLOCK_OPEN_LIFT_TOKENS.
 * Names     are those of locks: strings of 1 to 255 bytes of UTF-8, in the manager's namespace. Locks and
 *           registers do not know of each other.
 * Schema    version 2 is needed, and on PostgreSQL and MySQL the rights to SELECT, INSERT and UPDATE on the
 *           table of registers ("sqlock_register"). A manager opens without both, and leases work.
 * Threads   any.
 * Deleting  is not offered: set a value of no bytes. An operator may delete rows.
 */
#ifndef SQLOCK_REGISTER_H
#define SQLOCK_REGISTER_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_REGISTER_MAX 65536 /* bytes of a value; it may have none */

/* Read the value of a register into buf, and its version. One that does not exist has no bytes and
 * version 0. With buf NULL and buf_size 0 only *out_len and *out_version are told.
 * Writes nothing but *out_len, *out_version and the value's bytes, and on failure nothing at all; but
 * where the value is longer than buf_size the answer is SQLOCK_EINVAL, and *out_len tells the length that
 * is needed.
 * Bounded by the manager's request_ms.
 * Returns:   0, or SQLOCK_EINVAL (name, NULL; before any I/O. Or the buffer is too small),
 *            SQLOCK_ESCHEMA (the schema is older than version 2), SQLOCK_ETIMEOUT, SQLOCK_EFORK,
 *            SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_register_get(sqlock *m, const char *name, void *buf,
                                   size_t buf_size, size_t *out_len, int64_t *out_version,
                                   sqlock_error *err);

/* Set the value of a register whose version is expected_version; 0: that does not exist yet. value has len
 * bytes of any kind, and may be NULL where len is 0.
 * *out_version, if out_version is not NULL, is with 0 the new version, with SQLOCK_CONFLICT the one that is
 * there (0: there is no such register); it is left alone otherwise.
 * A reply that was lost is asked for again, and tells exactly whether the value was set; only when it has
 * been set by others since, nobody can tell any more whether they began from this one's value. A
 * request that the server runs too late does nothing. Bounded by the manager's request_ms.
 * Returns:   0 (set, and committed), SQLOCK_CONFLICT (1: nothing was changed, err is left alone),
 *            SQLOCK_EINVAL (name, a value that is NULL or longer than SQLOCK_REGISTER_MAX, a negative
 *            version; before any I/O), SQLOCK_EUNSURE (see above, or no other reply came in time: the
 *            value may have been set; read the register), SQLOCK_ESCHEMA (the schema is older than version
 *            2), SQLOCK_ETIMEOUT (nothing was changed), SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS, or the
 *            database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_register_set(sqlock *m, const char *name, const void *value,
                                   size_t len, int64_t expected_version, int64_t *out_version,
                                   sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
