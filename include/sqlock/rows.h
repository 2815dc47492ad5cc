/* Row locks that live and die with your transaction: SELECT ... FOR UPDATE with a time limit, on a
 * row of your own table, or on one that sqlock keeps for a name.
 *
 *     sqlock_column key[] = {{"id", sqlock_int(4711), NULL}};
 *     sqlock_row row = {sizeof row, "shop", "orders", key, 1};
 *     sqlock_row_opts opts = SQLOCK_ROW_OPTS_INIT;
 *
 *     PQexec(pg, "BEGIN");
 *     opts.wait_ms = 500;
 *     rc = sqlock_row_lock(conn, &row, 1, &opts, &err);
 *     if (rc == 0) ... no one else changes or locks the row until COMMIT or ROLLBACK ...
 *
 * No lease   Nothing is renewed, and nothing runs out: the lock lasts as long as the transaction.
 *            An open transaction that does nothing keeps everyone out, and uses a connection. Lock
 *            late, and commit soon.
 * Waits      Any other transaction waits that changes, deletes or locks the row. On PostgreSQL and
 *            MySQL so does one that inserts a row with a foreign key to it (see
 *            SQLOCK_ROW_KEEPS_KEY). Plain reads do not wait.
 * Reading    Read after the lock: what the transaction read before may be old. In REPEATABLE READ,
 *            MySQL keeps showing the old row to a plain SELECT if the transaction has read anything
 *            before. There, read with FOR UPDATE, or lock first. PostgreSQL answers
 *            SQLOCK_ETXRESTART instead.
 * Keys       The columns must be exactly those of a unique index that is valid, not partial, not
 *            deferrable, made of whole columns, and compares as the table does. The values must
 *            have types by which that index can be searched. Anything else is refused
 *            (SQLOCK_EREFUSED) with the reason, because it would read the whole table, and on MySQL
 *            lock it.
 *            The catalogue is read once for each connection, table and key. If you name no schema
 *            it is read each time, which on MariaDB costs many times as much as the lock. On MySQL
 *            a connection of the manager's reads it, so its user must be able to see the table.
 *            MySQL keys with dates and times are refused. So are texts that are not ASCII in
 *            columns of other character sets than utf8mb4 and utf8mb3.
 * SQLite     It has no row locks. The lock is that of BEGIN IMMEDIATE, on the whole file, so all
 *            other writers wait. If the transaction has already read, and another one writes or has
 *            written since, waiting does not help: SQLOCK_ETXRESTART. It is best to begin with
 *            BEGIN IMMEDIATE.
 * Clusters   MySQL clusters in which several servers write are refused: only one of them knows a
 *            row lock.
 * Errors     As in sqlock/transaction.h. A deadlock is SQLOCK_ETXRESTART on PostgreSQL, and
 *            SQLOCK_ETXGONE on MySQL. If a call fails in another way, the locks it already got stay
 *            until the transaction ends.
 * XA         On MySQL the lock of a row that was not changed outlives XA PREPARE. It does not
 *            outlive a restart of the server before XA COMMIT.
 * Cancelling Another thread may cancel a wait. The transaction is then as it was before the call,
 *            except for rows that the call had already locked. Later requests on the connection are
 *            not affected. On PostgreSQL this takes one more connection for a moment, which makes
 *            the server end the statement; a pooler must pass that on. On MariaDB and MySQL the
 *            wait notices within about half a second. There it is made of short waits, so others
 *            may come first. Servers that cannot report a locked row (see below) refuse a cancel
 *            object. What the manager's connections do before the wait is not interrupted, but
 *            takes at most request_ms.
 * Threads    As in sqlock/transaction.h. Any thread may fire a cancel.
 */
#ifndef SQLOCK_ROWS_H
#define SQLOCK_ROWS_H

#include <sqlock/transaction.h>
#include <sqlock/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Skip locked rows, and report them (SQLOCK_CONFLICT). wait_ms is not used. */
#define SQLOCK_ROW_SKIP_LOCKED 0x1u
/* The transaction will not delete the row, nor change its key. Then, on PostgreSQL, inserts of rows
 * that refer to it need not wait (FOR NO KEY UPDATE). Elsewhere it changes nothing. If you do
 * delete the row or change its key, a deadlock is likely. */
#define SQLOCK_ROW_KEEPS_KEY 0x2u

#define SQLOCK_ROWS_MAX 1000 /* in one call */

/* Who keeps a row locked, if the server shows it. Not every server does, and not to every user: see
 * sqlock_row_blocker(). */
typedef struct sqlock_blocker {
    uint32_t size;    /* sizeof(sqlock_blocker); set it yourself */
    int32_t sessions; /* how many sessions are in the way; 0: unknown */
    int64_t session;  /* the number of the one that blocks longest. PostgreSQL: its process
                         (pg_stat_activity.pid; 0: a prepared transaction). MariaDB and MySQL: its
                         connection (SHOW PROCESSLIST) */
    int64_t open_ms;  /* how long its transaction has been open; -1: unknown */
    char text[200];   /* for people: "user shop, application psql, from 10.0.0.7, idle ..." */
} sqlock_blocker;

typedef struct sqlock_row_opts {
    uint32_t size;    /* sizeof(sqlock_row_opts) */
    unsigned flags;   /* SQLOCK_ROW_... */
    int32_t wait_ms;  /* for all rows together; 0: no wait, or SQLOCK_WAIT_FOREVER */
    int *outcomes;    /* NULL, or one for each row: 0 locked, SQLOCK_CONFLICT, SQLOCK_ABSENT, or the
                         error that ended the call; SQLOCK_ROW_UNTRIED for the rows after it */
    sqlock_cancel *cancel; /* may end the wait; NULL: none */
    sqlock_blocker *blocker; /* who kept a row (SQLOCK_EBUSY, SQLOCK_ECANCELLED, one that was
                                skipped), if the server shows it; else emptied. NULL: not wanted */
} sqlock_row_opts;

#define SQLOCK_ROW_UNTRIED 3
#define SQLOCK_ROW_OPTS_INIT { sizeof(sqlock_row_opts), 0, SQLOCK_WAIT_DEFAULT_MS, NULL, NULL, NULL }
/* Writes the same values as SQLOCK_ROW_OPTS_INIT, for callers without the macro. */
SQLOCK_API void sqlock_row_opts_init(sqlock_row_opts *opts);

/* Lock n rows until the transaction on conn ends. opts may be NULL (defaults).
 * - Several rows are locked one by one in a fixed order, whatever order you give them in, so that
 *   two calls do not deadlock. The order is by schema, table, names of columns (bytewise), and
 *   values (integers by number, others bytewise). So name a table the same way everywhere. Two calls
 *   in one transaction have no such order.
 * - A row that does not exist is reported, and nothing of it is locked; the other rows are locked
 *   all the same. But in REPEATABLE READ and SERIALIZABLE MySQL locks the gap where it would be: no
 *   one can insert there until the transaction ends. On PostgreSQL these levels know only rows that
 *   their snapshot shows.
 * - Reporting a busy row without waiting takes MySQL 8.0, or MariaDB 10.3 without
 *   innodb_rollback_on_timeout. Other servers refuse every wait except SQLOCK_WAIT_FOREVER.
 * - On PostgreSQL a wait with a time limit for a busy row takes one more connection for a moment,
 *   to end it. Your own lock_timeout and the like do not end a wait. A statement_timeout does
 *   (SQLOCK_EDB).
 * Returns:   0 (all are locked), or the greatest of the rows' outcomes:
 *            SQLOCK_CONFLICT   (1) with SQLOCK_ROW_SKIP_LOCKED: others have locked some of them
 *            SQLOCK_ABSENT     (2) some do not exist
 *            or an error:
 *            SQLOCK_EBUSY      a row stayed locked until the wait ended
 *            SQLOCK_EREFUSED   see above
 *            SQLOCK_EINVAL     arguments; before anything is sent
 *            SQLOCK_ESTATE     no transaction is open, or it has failed
 *            SQLOCK_EDENIED    PostgreSQL needs the right to UPDATE, MySQL to UPDATE or DELETE
 *            SQLOCK_ECANCELLED by opts->cancel
 *            SQLOCK_ETXRESTART, SQLOCK_ETXGONE, SQLOCK_EREADONLY, SQLOCK_ETIMEOUT, SQLOCK_EFORK,
 *            SQLOCK_ENOMEM, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_row_lock(sqlock_conn *conn, const sqlock_row *rows, size_t n,
                               const sqlock_row_opts *opts, sqlock_error *err);

/* The same on a row that sqlock keeps for a name, in the manager's namespace. It stands for
 * whatever your programs agree on, and has nothing to do with locks of sqlock_acquire(). The name
 * has 1 to 255 bytes of UTF-8.
 * A missing row is made first. On SQLite that happens within the transaction; elsewhere on a
 * connection of the manager's, so that others who wait for the name find it. sqlock_ensure() makes
 * it in advance. On PostgreSQL, in REPEATABLE READ and SERIALIZABLE, a name that is younger than
 * the transaction's snapshot is SQLOCK_ETXRESTART.
 * Returns:   as sqlock_row_lock(), but never SQLOCK_ABSENT. Also SQLOCK_ESCHEMA (the schema is
 *            older than version 2), SQLOCK_EUNREACH, and the other codes of sqlock_ensure(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_name_lock(sqlock_conn *conn, const char *name,
                                const sqlock_row_opts *opts, sqlock_error *err);

/* Who blocks the call that now waits on conn, and was given opts->blocker. It is what
 * *opts->blocker will say at its end. This sends nothing: while such a call waits, the library
 * looks by itself, soon after the beginning, and then after longer and longer pauses of up to a
 * second. It uses a connection of the manager's and its worker thread, so that the wait does not
 * take longer.
 * - PostgreSQL shows everyone who blocks a waiting session. If another session that waits for the
 *   same row is in front, it is the one that has the row. Of other roles' sessions only number,
 *   user and application are shown, unless the manager's role is in pg_read_all_stats.
 * - MariaDB shows it to users with the right PROCESS. MySQL 8.0 and newer also want the right to
 *   read performance_schema. What MariaDB shows may be 0.1 s old, or older if others look all the
 *   time.
 * - A wait of some milliseconds may be over before the first look. What is shown may have changed
 *   since.
 * - Without a wait (wait_ms 0, SQLOCK_ROW_SKIP_LOCKED) no session waits that could be looked at.
 *   Then PostgreSQL is queried, once for each call and at most for 0.2 s, for transactions that
 *   have locked rows of the table. If there is only one, it is shown. On MariaDB and MySQL it stays
 *   unknown.
 * - SQLite has no sessions: it is always unknown.
 * If the server does not answer, or fails, it stays unknown too, and the call is not affected.
 * Threads:   any, while conn exists.
 * Returns:   1 (*out is filled; set its size first), or 0 (unknown). */
SQLOCK_API SQLOCK_CHECKED int sqlock_row_blocker(sqlock_conn *conn, sqlock_blocker *out);

#ifdef __cplusplus
}
#endif
#endif
