/* The SQLite driver (libsqlock-sqlite). URLs: sqlite:PATH, where
 * migrating makes the file if it is absent, and opening does not (SQLOCK_ESCHEMA). It needs SQLite 3.37 or newer. A connection factory hands out a sqlite3 *. */
#ifndef SQLOCK_SQLITE_H
#define SQLOCK_SQLITE_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Waits end on time, but for a stalled disk, and in WAL mode while another process is stopped in the
 * moment of opening the file as the first one: SQLite then pauses up to 10 s, and nothing cuts it. */

/* fork: SQLite remembers, for all connections of a process, which locks it has on a file. A child
 * inherits that memory and not the locks, and would be granted what another process holds. So a
 * process that was forked while a manager was open, on whichever SQLite file, gets no manager, and
 * its children get none: sqlock_open() and sqlock_migrate() say SQLOCK_EREFUSED, before they open
 * anything, until the process executes a program. Fork before the first open or after the last
 * sqlock_close(); migrating before the fork is fine.
 * Connections that the application has opened itself do the same harm. On Linux, with /proc and a
 * local file system, they are found out by their file locks, and refused in the same way; elsewhere
 * nothing tells of them. So close them before a fork whose child opens a manager on the same file,
 * and let no thread be inside SQLite then. A connection factory must not hand out a connection that
 * was made in the parent. */

/* Two copies of SQLite in one process corrupt files: closing one's file drops the POSIX locks of the
 * other. */

/* The driver, for sqlock_open() and the other functions that need one. It looks for a second copy of
 * SQLite when it opens, but cannot know which copy the caller uses.
 * Ownership: static; never free it.
 * Threads:   any thread.
 * Bindings:  a plain symbol of libsqlock-sqlite. */
SQLOCK_API const sqlock_driver *sqlock_driver_sqlite(void);

/* The same for a caller that has a copy of SQLite: caller_version is its sqlite3_libversion_number().
 * If the driver uses another copy, each open fails with SQLOCK_EREFUSED. NULL: as
 * sqlock_driver_sqlite(). */
SQLOCK_API const sqlock_driver *sqlock_driver_sqlite_for(int (*caller_version)(void));

/* For a C or C++ caller that includes sqlite3.h before this header, the call passes its own copy. */
#ifdef SQLITE_VERSION_NUMBER
#define sqlock_driver_sqlite() sqlock_driver_sqlite_for(sqlite3_libversion_number)
#endif

/* sqlock_adopt() for a sqlite3 *, for a caller that includes sqlite3.h. It passes the caller's
 * sqlite3_libversion_number. A binding calls sqlock_adopt(m, db, 0, NULL, ...): then the driver looks
 * for a second copy as it does when it opens. */
#define sqlock_adopt_sqlite(m, db, out_conn, err)                                                  \
    sqlock_adopt((m), (db), 0, (void (*)(void))sqlite3_libversion_number, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
