/* Compare and set on rows of your own tables: no one waits, and no one's change is lost.
 *
 * Each row has a version, and every change raises it. Read a row with its version, and change it
 * only if it still has that version. If another program was quicker, that is no error but the
 * outcome SQLOCK_CONFLICT: nothing was changed. Then read again (sqlock/retry.h).
 *
 *     sqlock_column key = {"id", sqlock_int(4711), NULL};
 *     sqlock_row row = {sizeof row, "public", "offer", &key, 1};
 *     sqlock_row_version version = {sizeof version, 0, "version", sqlock_int(read_version)};
 *     sqlock_column set[] = {{"price", sqlock_int(990), NULL},
 *                            {"raised", sqlock_null(), "raised + 1"}};
 *     ...
 *     rc = sqlock_cas_update(conn, &row, &version, set, 2, &err);   // in the transaction that is open
 *     if (rc == 0) ... COMMIT: the row has version.found now ...
 *     else if (rc == SQLOCK_CONFLICT) ... ROLLBACK, begin again: it has version.found ...
 *
 * Version    A column of 32 or 64 bits (INTEGER, BIGINT) that nothing else changes. NULL is a
 *            version like any other. Every program that changes the row must raise it: through
 *            these calls, or by `version = version + 1` in its own UPDATE. The first version, of a
 *            new row or after NULL, is drawn at random from the lower half of the column's range
 *            (always below 2^52). So a row that was deleted and inserted again is not taken for
 *            the old one. With 32 bits that mistake happens about once in 2^30 such cases.
 * Timestamp  With SQLOCK_CAS_TIMESTAMP the version is a timestamp with microseconds, as many tables
 *            have one already. PostgreSQL: timestamp, timestamptz. MySQL: DATETIME(6),
 *            TIMESTAMP(6). SQLite has none.
 *            WARNING: it protects only against programs that write it as carefully. A change
 *            through here sets the server's running clock, and at least one microsecond more than
 *            before. But PostgreSQL's now() has one value in a whole transaction, and ON UPDATE
 *            CURRENT_TIMESTAMP has one in a whole statement. Two changes made that way may get the
 *            same timestamp, and your change between them is lost. Use an integer where you can add
 *            a column.
 *            Columns of seconds or milliseconds are refused. On MySQL all sessions must use the
 *            same time_zone, best one without summer time.
 *            The values here are microseconds since 1970. Read them as they are compared:
 *              PostgreSQL  (extract(epoch FROM updated_at) * 1000000)::bigint
 *              MySQL       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', updated_at)
 * Row        Name it by all columns of a unique index (sqlock/value.h). The database must be able
 *            to lock single rows of the table; if not, SQLOCK_EREFUSED says why.
 * Isolation  The newest version of the row is compared, after it was locked. If your transaction's
 *            snapshot is older than that version, reading again would show the old row for ever.
 *            Then the answer is SQLOCK_ETXRESTART, not a conflict: roll back, and begin again.
 *            Under SQLite any read before another program's write has this effect: begin with BEGIN
 *            IMMEDIATE.
 * Locks      A row that was changed, or was in conflict, may stay locked until the transaction
 *            ends. On MySQL, in its default REPEATABLE READ, so may the gap where a row is absent:
 *            do not insert that row in the same transaction. A row that another transaction is
 *            changing is waited for, at most for the manager's request_ms.
 * Settings   As everywhere in sqlock/transaction.h, nothing is committed, and errors say what
 *            became of the transaction. A column that the table fills by itself, such as a serial,
 *            counts on: on PostgreSQL lastval() may show it.
 */
#ifndef SQLOCK_CAS_H
#define SQLOCK_CAS_H

#include <sqlock/transaction.h>
#include <sqlock/value.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_CAS_TIMESTAMP 0x1u /* the column is a timestamp: read the warning above */

typedef struct sqlock_row_version {
    uint32_t size;         /* sizeof(sqlock_row_version) */
    unsigned flags;        /* SQLOCK_CAS_TIMESTAMP */
    const char *column;    /* its name, written as in sqlock_column */
    sqlock_value expected; /* sqlock_int(), or sqlock_null() if the row's version is NULL */
    sqlock_value found;    /* an output, integer or NULL. With 0: the new version (of a deleted row:
                              its last). With SQLOCK_CONFLICT: the version that is there */
} sqlock_row_version;

/* Change the row if it has the expected version, and raise the version. set has n_set assignments
 * to columns that are neither the key nor the version. With n_set 0 only the version is raised.
 * An assignment has a value, or instead of it an expression: SQL of your own. An expression must
 * contain nothing that comes from outside. It must not contain, not even in quotes:
 * - a `;`
 * - a comment: `--`, the beginning of a C comment, and on MySQL `#`
 * - a parameter: `?`, on PostgreSQL `$1`
 * Threads:   the one that may use conn.
 * Returns:   0                 changed; it counts once the transaction is committed
 *            SQLOCK_CONFLICT   (1) it has another version; nothing was changed
 *            SQLOCK_ABSENT     (2) there is no such row. With these three outcomes err is left
 *                              alone
 *            SQLOCK_ETXRESTART see above; or a deadlock, a serialization failure
 *            SQLOCK_ETXGONE    the transaction is gone (sqlock/transaction.h)
 *            SQLOCK_ESTATE     no transaction is open, or it has failed
 *            SQLOCK_ETIMEOUT   another transaction kept the row, or SQLite's file, locked for
 *                              request_ms
 *            SQLOCK_EREFUSED   no unique index on the key; a value of another type than its column;
 *                              a version column that does not fit, or cannot be raised; a trigger
 *                              kept the row from being changed
 *            SQLOCK_EINVAL     arguments; before any I/O
 *            SQLOCK_EREADONLY, SQLOCK_EFORK, SQLOCK_ENOMEM, or the database's codes (SQLOCK_EDB: an
 *            expression, a constraint, a trigger; SQLOCK_ESCHEMA: a column that there is not). */
SQLOCK_API SQLOCK_CHECKED int sqlock_cas_update(sqlock_conn *conn, const sqlock_row *row,
                                 sqlock_row_version *version, const sqlock_column *set,
                                 size_t n_set, sqlock_error *err);
/* Delete the row if it has the expected version. Returns as sqlock_cas_update(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_cas_delete(sqlock_conn *conn, const sqlock_row *row,
                                 sqlock_row_version *version, sqlock_error *err);
/* Insert the row with its key, set, and a new version that it never had. `expected` is not used.
 * Returns as sqlock_cas_update(). SQLOCK_CONFLICT: a row with this key exists, with version->found.
 * If the values violate another unique index, that is an error of the database. */
SQLOCK_API SQLOCK_CHECKED int sqlock_cas_insert(sqlock_conn *conn, const sqlock_row *row,
                                 sqlock_row_version *version, const sqlock_column *set,
                                 size_t n_set, sqlock_error *err);

/* Fence a row: reject a token that is smaller than the largest so far. Use it for data outside the
 * lock's database, where sqlock_guard() cannot reach. Each resource's row has a column for the
 * largest token so far (64 bits; NULL: none yet). A holder calls this first in the transaction that
 * changes the resource. What it then writes is protected: the row stays locked until the
 * transaction ends. conn may belong to any manager, also one of another database than the lock's.
 * An equal token passes, so that one holder can write many times.
 * token:     sqlock_lock_token() of an exclusive lock, always of the same name and database. Of slots,
 *            with a column for each. Those of shared holders do not compare.
 * Returns:   0
 *            SQLOCK_ABSENT     (2) there is no such row: insert it, with NULL in the column
 *            SQLOCK_ELOST      a larger token was here: the lock is another's now, so roll back
 *            SQLOCK_ETXRESTART the transaction has read before an earlier holder's last write:
 *                              fence before you read
 *            and the other codes of sqlock_cas_update(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_fence(sqlock_conn *conn, const sqlock_row *row, const char *column,
                            int64_t token, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
