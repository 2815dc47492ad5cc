/* The SQLite driver (libsqlock-sqlite). URLs: sqlite:PATH, where the file must exist or be creatable.
 * It needs SQLite 3.37 or newer. A connection factory hands out a sqlite3 *. */
#ifndef SQLOCK_SQLITE_H
#define SQLOCK_SQLITE_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Two copies of SQLite in one process corrupt files: closing one's file drops the POSIX locks of the
 * other. A caller that includes sqlite3.h before this header passes its own copy's address along,
 * and a driver linked with another copy then refuses to open (SQLOCK_EREFUSED). */
SQLOCK_API const sqlock_driver *sqlock_driver_sqlite_for(int (*caller_version)(void));
#ifdef SQLITE_VERSION_NUMBER
#define sqlock_driver_sqlite() sqlock_driver_sqlite_for(sqlite3_libversion_number)
#else
#define sqlock_driver_sqlite() sqlock_driver_sqlite_for(NULL)
#endif

#ifdef __cplusplus
}
#endif
#endif
