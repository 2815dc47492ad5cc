/* Locks on rows, which live and die with the application's transaction: SELECT ... FOR UPDATE, bounded in
 * time, on a row of a table of yours, or on one that sqlock keeps for a name.
 *
 *     sqlock_column key[] = {{"id", sqlock_int(4711), NULL}};
 *     sqlock_row row = {sizeof row, "shop", "orders", key, 1};
 *     sqlock_row_opts opts = SQLOCK_ROW_OPTS_INIT;
 *
 *     PQexec(pg, "BEGIN");
 *     opts.wait_ms = 500;
 *     rc = sqlock_row_lock(conn, &row, 1, &opts, &err);
 *     if (rc == 0) ... nobody else changes or locks the row until COMMIT or ROLLBACK ...
 *
 * No lease   Nothing is renewed, nothing runs out: the lock is as good as the transaction, and an open one
 *            that idles keeps everybody out. It keeps a connection too. Lock late, commit soon.
 * What waits is who changes, deletes or locks the row in any way; on PostgreSQL and MySQL also who inserts
 *            what refers to it by a foreign key (but see SQLOCK_ROW_KEEPS_KEY). Who only reads does not wait.
 * Read after the lock: what was read in the transaction before may be old. In REPEATABLE READ on MySQL a
 *            plain SELECT goes on showing the old row if the transaction has read anything before: there
 *            read with FOR UPDATE, or lock first of all. PostgreSQL refuses instead (SQLOCK_ETXRESTART).
 * Keys       The columns must be exactly those of a unique index: valid, not partial, not deferrable, of
 *            whole columns, compared as the table compares; and the values of a kind that it is looked up
 *            by. Anything else is refused (SQLOCK_EREFUSED) with the reason, for it would read the table, and
 *            on MySQL lock all of it. The catalogue is asked once for a connection, table and key; each
 *            time where no schema is named, which on MariaDB is many times the cost of the lock. On MySQL that happens on a connection of the manager's, whose
 *            user has to see the table; keys with dates and times are refused there, and texts that are
 *            not ASCII in columns of other character sets than utf8mb4 and utf8mb3.
 * SQLite     has no row locks: the lock is that of a BEGIN IMMEDIATE, on the whole file, so that all other
 *            writers wait. If the transaction has read already, and somebody writes or has written since,
 *            no waiting helps: SQLOCK_ETXRESTART. Best begin with BEGIN IMMEDIATE.
 * Clusters   in which several servers write are refused on MySQL: a row lock there is known to one of them.
 * Errors     as in sqlock/transaction.h. Where the database finds a deadlock, that is SQLOCK_ETXRESTART
 *            (PostgreSQL) or SQLOCK_ETXGONE (MySQL). Locks that were got by a call which then failed
 *            otherwise stay until the transaction ends.
 * XA         On MySQL the lock of a row that was not changed outlives XA PREPARE, but not a restart of the
 *            server before XA COMMIT.
 * Cancelling a wait from another thread leaves the transaction as it was before the call, but for rows that
 *            the call had locked already, and hits nothing that is asked on the connection afterwards. On
 *            PostgreSQL that costs one connection more for a moment, and the server is told to end the
 *            statement (through a pooler: as well as the pooler does that). On MariaDB and MySQL the wait
 *            notices within half a second or a little more; it is made of short ones for that, so that others
 *            may come first. Servers that cannot tell that a row is locked (see below) refuse it. What is asked
 *            on connections of the manager's before the wait is not cut, but bounded by its request_ms.
 * Threads    as in sqlock/transaction.h; a cancel is fired from any.
 */
#ifndef SQLOCK_ROWS_H
#define SQLOCK_ROWS_H

#include <sqlock/transaction.h>
#include <sqlock/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is locked is left alone, and told (SQLOCK_CONFLICT). wait_ms is not looked at. */
#define SQLOCK_ROW_SKIP_LOCKED 0x1u
/* The transaction will not delete the row, nor change its key: on PostgreSQL those who insert what refers to
 * it need not wait (FOR NO KEY UPDATE); elsewhere it changes nothing. Who breaks it, deadlocks easily. */
#define SQLOCK_ROW_KEEPS_KEY 0x2u

#define SQLOCK_ROWS_MAX 1000 /* of one call */

/* Who keeps a row, as the server tells it, which not every server does, and not to everybody; see
 * sqlock_row_blocker(). */
typedef struct sqlock_blocker {
    uint32_t size;    /* sizeof(sqlock_blocker), set by whoever made it */
    int32_t sessions; /* how many sessions are in the way; 0: nobody was told */
    int64_t session;  /* the number of the one that has been at it the longest: of the process on PostgreSQL
                         (pg_stat_activity.pid; 0: a transaction that was prepared), of the connection on
                         MariaDB and MySQL (SHOW PROCESSLIST) */
    int64_t open_ms;  /* for how long its transaction is open; -1: not told */
    char text[200];   /* for people: "user shop, application psql, from 10.0.0.7, idle in transaction" */
} sqlock_blocker;

typedef struct sqlock_row_opts {
    uint32_t size;    /* sizeof(sqlock_row_opts) */
    unsigned flags;   /* SQLOCK_ROW_... */
    int32_t wait_ms;  /* for all rows together; 0: no wait, or SQLOCK_WAIT_FOREVER */
    int *outcomes;    /* NULL, or a place for each row: 0 locked, SQLOCK_CONFLICT, SQLOCK_ABSENT, or the
                         error's code where the call ended with it; SQLOCK_ROW_UNTRIED behind that */
    sqlock_cancel *cancel; /* may cut the wait; NULL: nothing does */
    sqlock_blocker *blocker; /* filled when a row was not to be had (SQLOCK_EBUSY, SQLOCK_ECANCELLED, one that
                                was skipped), as far as it is told; emptied otherwise. NULL: nobody asks */
} sqlock_row_opts;

#define SQLOCK_ROW_UNTRIED 3
#define SQLOCK_ROW_OPTS_INIT { sizeof(sqlock_row_opts), 0, SQLOCK_WAIT_DEFAULT_MS, NULL, NULL, NULL }
/* Writes the same values as SQLOCK_ROW_OPTS_INIT, for callers without the macro. */
SQLOCK_API void sqlock_row_opts_init(sqlock_row_opts *opts);

/* Lock n rows until the transaction on conn ends. opts may be NULL (defaults).
 * - Several rows are locked one after the other in one order, whatever order they are given in, so that two
 *   calls do not deadlock: by schema, table, names of columns (bytewise) and values (integers by number,
 *   others bytewise). So name a table in one way everywhere. Two calls in one transaction have no such order.
 * - A row that does not exist is told, and nothing of it is locked; but in REPEATABLE READ and SERIALIZABLE
 *   MySQL locks the gap where it would be: nobody inserts there until the transaction ends. The others are
 *   locked all the same. On PostgreSQL these levels know only rows that their snapshot shows.
 * - To be able to say that a row is busy without waiting, MySQL has to be 8.0, and MariaDB 10.3 without
 *   innodb_rollback_on_timeout; for others only SQLOCK_WAIT_FOREVER is not refused.
 * - A busy row costs a bounded wait on PostgreSQL one connection more for a moment, by which it is cut.
 *   lock_timeout and the like of the application's do not end a wait; a statement_timeout does (SQLOCK_EDB).
 * Returns:   0 (all are locked), or the greatest of the rows' outcomes: SQLOCK_CONFLICT (1: some are locked by
 *            others, with SQLOCK_ROW_SKIP_LOCKED), SQLOCK_ABSENT (2: some do not exist);
 *            SQLOCK_EBUSY (a row was not to be had in time), SQLOCK_EREFUSED (see above),
 *            SQLOCK_EINVAL (arguments; before anything is sent), SQLOCK_ESTATE (no open transaction, or one that
 *            failed), SQLOCK_ETXRESTART, SQLOCK_ETXGONE, SQLOCK_EDENIED (PostgreSQL wants the right to UPDATE,
 *            MySQL that or DELETE), SQLOCK_EREADONLY, SQLOCK_ETIMEOUT, SQLOCK_ECANCELLED (by opts->cancel), SQLOCK_EFORK, SQLOCK_ENOMEM, or the
 *            database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_row_lock(sqlock_conn *conn, const sqlock_row *rows, size_t n,
                               const sqlock_row_opts *opts, sqlock_error *err);

/* The same on a row that sqlock keeps for a name, in the manager's namespace: it stands for whatever you agree
 * on. Locks of sqlock_acquire() are others. A name is 1 to 255 bytes of UTF-8.
 * The row is made first if it is missing: on a connection of the manager's, so that who else waits for the name
 * finds it; on SQLite within the transaction. sqlock_ensure() makes it beforehand. In REPEATABLE READ and
 * SERIALIZABLE on PostgreSQL a name that is younger than the transaction's snapshot is SQLOCK_ETXRESTART.
 * Returns:   as sqlock_row_lock(), but never SQLOCK_ABSENT; and SQLOCK_ESCHEMA (the schema is older than
 *            version 2), SQLOCK_EUNREACH and what else sqlock_ensure() may say. */
SQLOCK_API SQLOCK_CHECKED int sqlock_name_lock(sqlock_conn *conn, const char *name,
                                const sqlock_row_opts *opts, sqlock_error *err);

/* Who keeps the call that waits on conn now, and was given opts->blocker, from its row: the same as it will
 * be told at the end. Nothing is asked: while such a call waits, the library looks for itself, soon after the
 * beginning and then after longer and longer pauses up to a second, on a connection of the manager's and
 * on its worker thread, so that the wait is not longer for it.
 * - PostgreSQL tells everybody who blocks a session that waits. Where it would be another one that waits for
 *   the same row, it is the one that has the row. Of other roles' sessions it tells number, user and application
 *   alone, unless the manager's role is in pg_read_all_stats.
 * - MariaDB tells those with the right PROCESS, MySQL 8.0 and newer those who may also read performance_schema;
 *   others nobody. MariaDB answers what it knew up to 0.1 s ago, or longer ago if others look all the time.
 * - A wait of some milliseconds may be over before anybody looked. What was told may have changed since.
 * - Without a wait (wait_ms 0, SQLOCK_ROW_SKIP_LOCKED) no session waits that could be asked about. There
 *   PostgreSQL is asked, once for a call and for 0.2 s at most, who has locked rows of the table, and if that
 *   is one transaction alone, it is told; MariaDB and MySQL know no such thing, and nobody is told.
 * - SQLite has no sessions: nobody is told.
 * Where the server does not answer, or an error comes of it, nobody is told either: the call is as it
 * would have been.
 * Threads:   any, while conn exists.
 * Returns:   1 (*out is filled; its size is set by the caller), 0 (nobody was told). */
SQLOCK_API SQLOCK_CHECKED int sqlock_row_blocker(sqlock_conn *conn, sqlock_blocker *out);

#ifdef __cplusplus
}
#endif
#endif
