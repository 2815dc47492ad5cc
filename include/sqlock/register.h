/* A versioned register: a value of up to 64 KiB under a name. Only a program that knows its version
 * can change it. Use it for values that many read and few change, where no one should wait for a
 * lock.
 *
 * Read it, make the new value from what you read, and set it with the version that you read. If
 * another program was quicker, that is no error but the outcome SQLOCK_CONFLICT: nothing was
 * changed. Then read again.
 *
 *     char buf[SQLOCK_REGISTER_MAX];
 *     do {
 *         rc = sqlock_register_get(m, "config", buf, sizeof buf, &len, &version, &err);
 *         if (rc == 0)
 *             rc = sqlock_register_set(m, "config", buf, change(buf, len), version,
 *                                      &version, &err);
 *     } while (rc == SQLOCK_CONFLICT);        // if many do this: pause for a random time
 *
 * Versions  Positive numbers. Each set raises the version: by 1, or to the server's clock
 *           (microseconds since 1970). It takes the clock on SQLite always, elsewhere the first
 *           time after the server was started anew or another one took over.
 *           A name's versions never repeat, whatever happens to its register. If its row was
 *           deleted, or the schema was migrated down and up, the next one begins at the clock,
 *           above all earlier ones. So servers' clocks must agree, as for tokens (P2). Two cases
 *           could repeat a version: a clock that was set back to exactly the microsecond of an
 *           earlier beginning; and a register that is deleted and made again within 71 minutes of
 *           SQLOCK_OPEN_LIFT_TOKENS.
 * Names     As for locks: strings of 1 to 255 bytes of UTF-8, in the manager's namespace. A lock and
 *           a register of one name are independent.
 * Schema    Version 2, and on PostgreSQL and MySQL the rights to SELECT, INSERT and UPDATE on the
 *           table sqlock_register. A manager opens without these, and leases work.
 * Threads   Any.
 * Deleting  There is no call for it: set a value of no bytes. An operator may delete rows.
 */
#ifndef SQLOCK_REGISTER_H
#define SQLOCK_REGISTER_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_REGISTER_MAX 65536 /* bytes of a value; it may have none */

/* Read the value of a register into buf, and its version. A register that does not exist has no
 * bytes and version 0. With buf NULL and buf_size 0 it only writes *out_len and *out_version.
 * On failure it writes nothing, with one exception: if the value is longer than buf_size, the
 * answer is SQLOCK_EINVAL, and *out_len is the length that is needed.
 * Takes at most the manager's request_ms.
 * Returns:   0, or
 *            SQLOCK_EINVAL   name or NULL, before any I/O; or the buffer is too small
 *            SQLOCK_ESCHEMA  the schema is older than version 2
 *            SQLOCK_ETIMEOUT, SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_register_get(sqlock *m, const char *name, void *buf,
                                   size_t buf_size, size_t *out_len, int64_t *out_version,
                                   sqlock_error *err);

/* Set the value of a register that has version expected_version; 0 means that it does not exist
 * yet. value has len bytes of any kind, and may be NULL if len is 0.
 * With 0, *out_version is the new version. With SQLOCK_CONFLICT it is the version that is there (0:
 * there is no such register). Otherwise it is left alone. out_version may be NULL.
 * If a reply is lost, the library sends the request again, and finds out exactly whether the value
 * was set. One case stays unknown: others have set it since, and may have started from this value
 * or not. A request that reaches the server too late does nothing. Takes at most the manager's
 * request_ms.
 * Returns:   0                set and committed
 *            SQLOCK_CONFLICT  (1) nothing was changed; err is left alone
 *            SQLOCK_EINVAL    name, a value that is NULL or longer than SQLOCK_REGISTER_MAX, a
 *                             negative version; before any I/O
 *            SQLOCK_EUNSURE   unknown, as above, or no other reply came in time: the value may have
 *                             been set. Read the register
 *            SQLOCK_ESCHEMA   the schema is older than version 2
 *            SQLOCK_ETIMEOUT  nothing was changed
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_register_set(sqlock *m, const char *name, const void *value,
                                   size_t len, int64_t expected_version, int64_t *out_version,
                                   sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
