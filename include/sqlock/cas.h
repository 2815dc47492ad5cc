/* Compare and set on rows of the application's own tables: nobody waits, and nobody's change is lost.
 *
 * Each row has a version, which every change of it raises. Read a row and its version, and change it only
 * if it still has that version. If somebody was quicker, that is no error but the outcome SQLOCK_CONFLICT:
 * nothing was changed, and all begins with reading again (sqlock/retry.h).
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
 * Version    a column of 32 or 64 bits (INTEGER, BIGINT), which nothing else changes; it may be NULL, which
 *            is a version like others. All who change the row raise it: through here, or by
 *            `version = version + 1` in every UPDATE of theirs. A new row's, and the one after NULL, is
 *            drawn at random from the lower half of the column's range (below 2^52 at most), so that
 *            after deleting and inserting a row nobody takes it for the old one; with 32 bits that
 *            mistake happens once in about 2^30 such meetings.
 * Timestamp  SQLOCK_CAS_TIMESTAMP: the column is a timestamp with microseconds, as many tables have one
 *            already (PostgreSQL: timestamp, timestamptz; MySQL: DATETIME(6), TIMESTAMP(6); SQLite has
 *            none). WARNING: it protects only from those who write it as carefully. Each change
 *            here sets the server's running clock, and at least a microsecond more than before. But
 *            now() of PostgreSQL is one value in all of a transaction, and ON UPDATE CURRENT_TIMESTAMP one
 *            in all of a statement: two changes by such hands may have one timestamp, and yours between
 *            them is lost. Seconds or milliseconds are refused. On MySQL all sessions must have one
 *            time_zone, best one without summer time. Use an integer where you can add a column.
 *            Its values here are microseconds since 1970: read them as they are compared,
 *              PostgreSQL  (extract(epoch FROM updated_at) * 1000000)::bigint
 *              MySQL       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', updated_at)
 * Row        is named by all columns of a unique index (sqlock/value.h); the table must be one that the
 *            database can lock by row (SQLOCK_EREFUSED tells why not).
 * Isolation  the comparison is made on the newest row, once it is locked. Where the transaction's own
 *            snapshot is older than that, so that reading again in it would show the old row for
 *            ever, the answer is not a conflict but SQLOCK_ETXRESTART: roll back, begin again. Under
 *            SQLite so is any read before somebody else's write: begin with BEGIN IMMEDIATE.
 * Locks      a row that was changed, or was in conflict, may stay locked until the transaction ends; on
 *            MySQL, in its default REPEATABLE READ, so may the gap where a row is absent: do not insert it in
 *            the same transaction then. One whom somebody else is changing is waited for, for the
 *            manager's request_ms.
 * Guest      as all in sqlock/transaction.h: nothing is committed, and errors tell what became of the
 *            transaction. A column that the table fills by itself counts on: on PostgreSQL lastval() may
 *            tell of it.
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
    const char *column;    /* a name as that of a column */
    sqlock_value expected; /* sqlock_int(), or sqlock_null(): the row's version is NULL */
    sqlock_value found;    /* written, as integer or NULL: with 0 the new version (of a row that was
                              deleted: its last one), with SQLOCK_CONFLICT the one that is there */
} sqlock_row_version;

/* Change the row if it has the expected version, and raise that. set: n_set assignments, to other columns
 * than those of the key and the version; each has a value, or an expression in its place, which is SQL
 * of your own: it must hold nothing that comes from outside, no `;`, no comment (`--`, on MySQL `#`, or
 * the beginning of one like this), and no parameter (`?`, on PostgreSQL `$1`); not within quotes either.
 * With n_set 0 only the version is raised.
 * Threads:   the one that may use conn.
 * Returns:   0 (changed; it counts with the transaction's commit), SQLOCK_CONFLICT (1: it has another
 *            version, nothing was changed), SQLOCK_ABSENT (2: there is no such row), and err is left
 *            alone with all three;
 *            SQLOCK_ETXRESTART (see above; a deadlock, a serialization failure), SQLOCK_ETXGONE,
 *            SQLOCK_ESTATE (no open transaction, or one that has failed), SQLOCK_ETIMEOUT (somebody else
 *            kept the row, or SQLite's file, locked for request_ms), SQLOCK_EREFUSED (no unique index on
 *            the key, a value of another kind than its column, no fit version column, a version that
 *            cannot be raised, a trigger that kept the row from being changed), SQLOCK_EINVAL
 *            (arguments; before any I/O), SQLOCK_EREADONLY, SQLOCK_EFORK, SQLOCK_ENOMEM, or the
 *            database's codes (SQLOCK_EDB: an expression, a constraint, a trigger). */
SQLOCK_API SQLOCK_CHECKED int sqlock_cas_update(sqlock_conn *conn, const sqlock_row *row,
                                 sqlock_row_version *version, const sqlock_column *set,
                                 size_t n_set, sqlock_error *err);
/* Delete the row if it has the expected version. Returns as sqlock_cas_update(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_cas_delete(sqlock_conn *conn, const sqlock_row *row,
                                 sqlock_row_version *version, sqlock_error *err);
/* Insert the row, with its key, set and a version that it never had; `expected` is not used.
 * Returns as sqlock_cas_update(); SQLOCK_CONFLICT: there is a row of this key, with version->found. That
 * another unique index has the values already is an error of the database's. */
SQLOCK_API SQLOCK_CHECKED int sqlock_cas_insert(sqlock_conn *conn, const sqlock_row *row,
                                 sqlock_row_version *version, const sqlock_column *set,
                                 size_t n_set, sqlock_error *err);

/* Fence a row: let nobody through whose token is smaller than one that was here. For data that is not in
 * the lock's own database, where sqlock_guard() cannot reach: each resource's row has a column for the
 * largest token so far (64 bits, NULL: none yet), and a holder calls this first of all in the
 * transaction that changes the resource. What it writes then is protected: the row stays locked until the
 * transaction ends.
 * conn may be of any manager, that of another database than the lock's; token is sqlock_lock_token().
 * An equal token passes: one holder writes many times.
 * Returns:   0, SQLOCK_ABSENT (2: there is no such row: make it, with a NULL fence), SQLOCK_ELOST (a larger
 *            token was here: the lock is another's now. Roll back), SQLOCK_ETXRESTART (the transaction
 *            has read before an earlier holder's last write: fence first), and the other codes of
 *            sqlock_cas_update(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_fence(sqlock_conn *conn, const sqlock_row *row, const char *column,
                            int64_t token, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
