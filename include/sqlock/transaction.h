/* sqlock in your own transaction: what no lock service outside the database can do.
 *
 * If the lock and the data are in one database, a holder that lost its lock can be kept from
 * committing: begin a transaction, call sqlock_guard(), read, write, commit.
 *
 *     sqlock_conn *conn;                              // once for each connection
 *     sqlock_adopt_postgres(m, pg, &conn, &err);      // or _mysql, _sqlite: in the driver's header
 *     ...
 *     PQexec(pg, "BEGIN");
 *     rc = sqlock_guard(lock, conn, &err);            // first, before you read anything
 *     if (rc == 0) ... read, write, PQexec(pg, "COMMIT") ...
 *     else PQexec(pg, "ROLLBACK");
 *
 * Adopted   On an adopted connection the library never commits. It rolls back nothing but a
 *           savepoint around its own statement, and restores every setting after it. The driver's
 *           README lists what it cannot restore.
 * States    These calls need an open transaction. With autocommit off, one that the next statement
 *           opens will do. Without one, in a failed one, or while a result is only half read, they
 *           answer SQLOCK_ESTATE, and send nothing.
 * Errors    The code says what became of the transaction:
 *             SQLOCK_ETXGONE     It is gone, with all that was done in it. Either the database
 *                                ended it (a deadlock on MySQL, a full disk on SQLite), or the
 *                                connection is lost (flag SQLOCK_RECONNECT). Begin again. After a
 *                                reconnect, also by PQreset(), adopt the connection again
 *             SQLOCK_ETXRESTART  It is open, but can no longer succeed: roll back, and begin again
 *             any other code     It goes on as if the call had not been made
 * Threads   One thread at a time uses a sqlock_conn: the one that may use the connection.
 */
#ifndef SQLOCK_TRANSACTION_H
#define SQLOCK_TRANSACTION_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sqlock_conn sqlock_conn; /* an application's connection, adopted */

/* Adopt a connection of yours for calls through this manager. It must lead to the manager's
 * database. Use the macros sqlock_adopt_postgres(), _mysql(), _sqlite() of the drivers' headers.
 * They pass your program's view of the client library, so that two layouts or two copies of it in
 * one process are refused. Nothing is sent.
 * Ownership: the connection stays yours. On success *out_conn is yours too: end it with
 *            sqlock_conn_free(), before or after the connection is closed. It keeps the manager's
 *            memory alive, but not the manager: after sqlock_close() it answers SQLOCK_ESTATE.
 * Threads:   any that may use the connection.
 * Returns:   0, or
 *            SQLOCK_EINVAL   an argument is NULL
 *            SQLOCK_EREFUSED the driver has no such calls; or another copy, layout or version of
 *                            the client library
 *            SQLOCK_ESTATE   not connected, or busy with another request
 *            SQLOCK_EFORK, SQLOCK_ENOMEM. */
SQLOCK_API SQLOCK_CHECKED int sqlock_adopt(sqlock *m, void *native, size_t native_size, void (*library)(void),
                            sqlock_conn **out_conn, sqlock_error *err);
/* Free the handle. This does not touch the connection. NULL is allowed. In a forked child it does
 * nothing. */
SQLOCK_API void sqlock_conn_free(sqlock_conn *conn);

/* Prove that the lock is held, and keep its name from being granted to anyone else until the
 * transaction on conn ends. That holds even if the lease ends, is released or is broken meanwhile.
 * If you do not get 0, roll back. Then nothing that the holder of a lost lock wrote is ever
 * committed (P11).
 * On PostgreSQL and MySQL renewals go on meanwhile. SQLite has one writer, so there the transaction
 * itself keeps everyone out. The guard makes it a writing transaction, and extends the lease by a
 * full one from now, which counts once it is committed. If the transaction outlives the lease, the
 * lock is UNSURE until a renewal succeeds. With SQLOCK_NO_RENEW it is LOST when that extension has
 * passed without a renewal.
 * - Guard first: what the transaction read before may be older than the lease.
 * - After ROLLBACK TO a savepoint from before the guard, guard again. Statements that commit
 *   implicitly end the guard with the transaction: DDL and LOCK TABLES on MySQL.
 * - On MySQL the proof is that the name was granted to no one since. A lease that an operator
 *   broke, or the reaper freed, passes as long as that is so; no one else gets the name all the
 *   same.
 * - On MySQL, in its default REPEATABLE READ, a failed guard (SQLOCK_ELOST) locks the gap where its
 *   entry was. Until you roll back, the name before it in byte order cannot be granted
 *   (SQLOCK_EGUARDED), and no names can be made between the two (SQLOCK_ETIMEOUT). READ COMMITTED
 *   locks no gap.
 * - It keeps other holders out, but not a second transaction under the same lock. It protects data
 *   in this database, and nothing else.
 * - It refuses a connection to another server or database that has a copy of the tables: a restored
 *   backup, or the other half of a pool that splits reads from writes. After a restart or a
 *   failover that the manager has not met yet, it first makes the handshake with the server, for at
 *   most request_ms. If conn's server has died by then, it says SQLOCK_ETXGONE.
 * - On MariaDB and MySQL a temporary table hides the one of the same name. Make none that is called
 *   like a table of sqlock's.
 * It waits for a grant of this very name that is just being written, at most for the manager's
 * request_ms, and for nothing else.
 * Returns:   0                 held, and it stays held until the transaction ends
 *            SQLOCK_ELOST      it is no longer yours: roll back at once
 *            SQLOCK_ESTATE     the lock is released or UNSURE; or no open transaction, see above
 *            SQLOCK_ETXRESTART the transaction's snapshot is older than the grant or its renewal;
 *                              under SQLite, it has read before another program wrote
 *            SQLOCK_ETXGONE    the transaction is gone, see above
 *            SQLOCK_EREADONLY  a read-only transaction, a replica
 *            SQLOCK_EINVAL     lock and conn belong to two managers
 *            SQLOCK_EREFUSED   conn leads to another server or database. SQLite: to another file,
 *                              or to this one by another name. MySQL before 8.0: others would hang
 *                              on the guard. MariaDB and MySQL: an XA transaction, which loses the
 *                              guard when it is prepared
 *            SQLOCK_ETIMEOUT, SQLOCK_EFORK, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_guard(sqlock_lock *lock, sqlock_conn *conn, sqlock_error *err);

/* ---- rows to lock by name --------------------------------------------------------------------- */

/* Make the row that transactions lock by this name (sqlock_name_lock), in the manager's namespace.
 * The name has 1 to 255 bytes of UTF-8. It happens
 * on a connection of the manager's, and is committed when this returns. Once is enough; more calls,
 * also at once, do no harm. A row that exists is found without a lock, even while a transaction
 * keeps it locked.
 * Needs version 2 of the schema, and on PostgreSQL and MySQL the rights to SELECT and INSERT on the
 * table sqlock_row.
 * Threads:   any. Takes at most the manager's request_ms.
 * Returns:   0, or
 *            SQLOCK_EINVAL  name; before any I/O
 *            SQLOCK_EUNSURE a reply was lost, and no other came in time: call it again
 *            SQLOCK_ESCHEMA the schema is older than version 2
 *            SQLOCK_ETIMEOUT, SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_ensure(sqlock *m, const char *name, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
