/* sqlock in the application's own transaction: what no lock service beside the database can do.
 *
 * Where the lock and the data live in one database, a holder that lost its lock can be made unable to
 * commit: begin a transaction, call sqlock_guard(), read, write, commit.
 *
 *     sqlock_conn *conn;                              // once for each connection
 *     sqlock_adopt_postgres(m, pg, &conn, &err);      // or _mysql, _sqlite: in the driver's header
 *     ...
 *     PQexec(pg, "BEGIN");
 *     rc = sqlock_guard(lock, conn, &err);            // first of all, before anything is read
 *     if (rc == 0) ... read, write, PQexec(pg, "COMMIT") ...
 *     else PQexec(pg, "ROLLBACK");
 *
 * Adopted   On an adopted connection the library commits nothing, rolls back nothing but a savepoint of
 *           its own around its own statement, and changes no setting for longer than that. What it
 *           cannot leave as it was is told in the driver's README.
 * States    Calls here work in an open transaction (with autocommit off: also in one that the next
 *           statement opens). Else, in one that has failed, or while a result is half read, they answer
 *           SQLOCK_ESTATE, and nothing was sent.
 * Errors    tell what has become of the transaction:
 *             SQLOCK_ETXGONE     it is gone, with all that was done in it: the database ended it (a
 *                                deadlock on MySQL, a full disk on SQLite), or the connection is lost
 *                                (flag SQLOCK_RECONNECT). Begin again; a connection that was lost is
 *                                adopted anew once it is connected anew, also by PQreset()
 *             SQLOCK_ETXRESTART  it is open, but cannot succeed any more: roll back and begin again
 *             any other code     it goes on as if the call had not been made
 * Threads   a sqlock_conn is used by one thread at a time, the one that may use the connection.
 */
#ifndef SQLOCK_TRANSACTION_H
#define SQLOCK_TRANSACTION_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sqlock_conn sqlock_conn; /* an application's connection, adopted */

/* Adopt a connection of the application's for calls through this manager; it must lead to the manager's
 * database. Use the macros sqlock_adopt_postgres(), _mysql(), _sqlite() of the drivers' headers: they
 * pass the caller's own view of the client library, so that two layouts or two copies of it in one
 * process are refused. Nothing is sent.
 * Ownership: the connection stays the application's; on success *out_conn is yours, end it with
 *            sqlock_conn_free(), before or after the connection is closed. It keeps the manager's
 *            memory alive, but not the manager: after sqlock_close() it answers SQLOCK_ESTATE.
 * Threads:   any that may use the connection.
 * Returns:   0, or SQLOCK_EINVAL (an argument is NULL), SQLOCK_EREFUSED (the driver has no such calls;
 *            another copy, layout or version of the client library), SQLOCK_ESTATE (not connected, or
 *            in the middle of something), SQLOCK_EFORK, SQLOCK_ENOMEM. */
SQLOCK_API SQLOCK_CHECKED int sqlock_adopt(sqlock *m, void *native, size_t native_size, void (*library)(void),
                            sqlock_conn **out_conn, sqlock_error *err);
/* Let go of the connection, at which this does not look. NULL is allowed. In a forked child it does
 * nothing. */
SQLOCK_API void sqlock_conn_free(sqlock_conn *conn);

/* Prove that the lock is held, and keep its name from being granted to anybody else until the
 * transaction on conn ends: also if the lease runs out, is released or broken meanwhile. Who does not
 * get 0 must roll back: then nothing that a lost lock's holder wrote is ever committed (P11).
 * On PostgreSQL and MySQL renewals go on meanwhile. SQLite has one writer: there the transaction itself
 * keeps everybody out, and the guard extends the lease by a full one from now, which counts once it is
 * committed. The transaction becomes a writing one by it; a lease that it outlives is UNSURE until a
 * renewal tells, and, with SQLOCK_NO_RENEW, LOST when the extension has passed without one.
 * - Guard first: what was read in the transaction before may be older than the lease.
 * - After ROLLBACK TO a savepoint from before the guard, guard again. What commits by itself ends the
 *   guard with the transaction: DDL and LOCK TABLES on MySQL.
 * - On MySQL the proof is that nobody was granted the name since: a lease that an operator broke, or the
 *   reaper freed, passes as long as that is so, and is kept from everybody all the same.
 * - On MySQL, in its default REPEATABLE READ, a guard that is refused (SQLOCK_ELOST) locks the gap where its
 *   entry was: until the roll back the name before it in byte order cannot be granted (SQLOCK_EGUARDED),
 *   nor can names be made between the two (SQLOCK_ETIMEOUT). READ COMMITTED locks none.
 * - It keeps other holders out, not a second transaction under the same lock; and it covers what is in
 *   this database, nothing else.
 * - A connection to another server or database, which has a copy of the tables (a restored backup, the other
 *   half of a pool that splits reads from writes), is refused. After a restart or a failover that the manager
 *   has not met yet, it first makes the handshake with the server, for request_ms at most.
 * The call waits for a grant of this very name that is just being written, for request_ms of the
 * manager's at most, and for nothing else.
 * Returns:   0 (held, and it stays so), SQLOCK_ELOST (it is not ours any more: roll back at once),
 *            SQLOCK_ESTATE (the lock is released or UNSURE; no open transaction, see above),
 *            SQLOCK_ETXRESTART (the transaction's snapshot is older than the grant or its renewal;
 *            under SQLite it has read before somebody wrote), SQLOCK_ETXGONE, SQLOCK_EREADONLY (a
 *            read-only transaction, a replica), SQLOCK_ETIMEOUT, SQLOCK_EINVAL (lock and conn are of
 *            two managers), SQLOCK_EREFUSED (conn is to another server or database, SQLite: to another file,
 *            or by another name of it; MySQL before 8.0: others would hang on it; MariaDB and MySQL: an XA
 *            transaction, which does not keep it once it is prepared), SQLOCK_EFORK, or the database's
 *            codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_guard(sqlock_lock *lock, sqlock_conn *conn, sqlock_error *err);

/* ---- rows to lock by name --------------------------------------------------------------------- */

/* Make the row that transactions lock by this name, in the manager's namespace: 1 to 255 bytes of
 * UTF-8. It is done on a connection of the manager's, and
 * committed when this returns. Once is enough, any number of times does no harm, and any number may come
 * at once; a row that is there is found without a lock, also while a transaction keeps it locked.
 * Needs version 2 of the schema and, on PostgreSQL and MySQL, the right to SELECT and INSERT on the table
 * of rows ("sqlock_row").
 * Threads:   any. Bounded by the manager's request_ms.
 * Returns:   0, or SQLOCK_EINVAL (name; before any I/O), SQLOCK_EUNSURE (a reply was lost, and no other
 *            came in time: ask again), SQLOCK_ESCHEMA (the schema is older), SQLOCK_ETIMEOUT,
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_ensure(sqlock *m, const char *name, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
