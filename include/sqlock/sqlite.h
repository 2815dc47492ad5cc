/* The SQLite driver (libsqlock-sqlite), for SQLite 3.37 or newer.
 *
 * URLs are sqlite:PATH. Migrating makes the file if it is absent; opening a manager does not
 * (SQLOCK_ESCHEMA). A connection factory returns a sqlite3 *.
 *
 * Journal    A file that migrating makes, or finds empty, is in WAL mode. Any other file stays in
 *            the mode that it has. A rollback journal makes locks several times slower.
 *
 * Time       Waits end on time, with two exceptions. A stalled disk can hold a call. In WAL mode
 *            SQLite itself pauses up to 10 s if another process was stopped while it opened the
 *            file as the first one; nothing ends that pause.
 *
 * fork       SQLite remembers for a whole process which locks it has on a file. A child inherits
 *            that memory but not the locks, so it would be granted what another process holds.
 *            Therefore a process that was forked while a manager was open gets no manager, on any
 *            SQLite file, and its children neither. sqlock_open() and sqlock_migrate() return
 *            SQLOCK_EREFUSED before they open anything, until the process executes a program. Fork
 *            before the first open, or after the last sqlock_close(). You may migrate before the
 *            fork.
 *
 *            Connections that the application has opened itself do the same harm. On Linux, with
 *            /proc and a local file system, the driver finds them by their file locks, and refuses
 *            in the same way. Elsewhere it cannot. So close them before a fork if the child opens a
 *            manager on the same file, and let no thread be inside SQLite then. A connection
 *            factory must not return a connection that was made in the parent.
 *
 * Copies     Two copies of SQLite in one process corrupt files: when one copy closes its file, the
 *            POSIX locks of the other are gone. The driver refuses a second copy that it finds
 *            (SQLOCK_EREFUSED). */
#ifndef SQLOCK_SQLITE_H
#define SQLOCK_SQLITE_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The driver, for sqlock_open() and the other functions that need one. It looks for a second copy
 * of SQLite when it opens, but cannot know which copy the caller uses.
 * Ownership: static; never free it.
 * Threads:   any thread.
 * Bindings:  a plain symbol of libsqlock-sqlite. */
SQLOCK_API const sqlock_driver *sqlock_driver_sqlite(void);

/* The same for a caller that has a copy of SQLite: caller_version is its
 * sqlite3_libversion_number(). If the driver uses another copy, each open fails with
 * SQLOCK_EREFUSED. NULL: as sqlock_driver_sqlite(). */
SQLOCK_API const sqlock_driver *sqlock_driver_sqlite_for(int (*caller_version)(void));

/* For a C or C++ caller that includes sqlite3.h before this header: the call passes its copy. */
#ifdef SQLITE_VERSION_NUMBER
#define sqlock_driver_sqlite() sqlock_driver_sqlite_for(sqlite3_libversion_number)
#endif

/* sqlock_adopt() for a sqlite3 *, for a caller that includes sqlite3.h. It passes the caller's
 * sqlite3_libversion_number. A binding calls sqlock_adopt(m, db, 0, NULL, ...): then the driver
 * looks for a second copy as it does when it opens. */
#define sqlock_adopt_sqlite(m, db, out_conn, err)                                                  \
    sqlock_adopt((m), (db), 0, (void (*)(void))sqlite3_libversion_number, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
