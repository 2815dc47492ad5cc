/* The PostgreSQL driver (libsqlock-postgres). URLs: postgres:// and postgresql://, which go to libpq
 * as they are, with its options, environment and password file. A connection factory hands out a
 * PGconn * that is connected and idle. PostgreSQL 10 or newer.
 *
 * Several hosts (postgresql://h1,h2:5433/db, host= and hostaddr= with commas, a service file, PGHOST)
 * are servers of which one grants at a time: a primary and its standbys. sqlock goes over them itself,
 * one at a time, first the one that answered last. Each has its part of the time that is left, and not
 * more than connect_timeout. The next one is asked when a host does not answer, refuses, is starting or
 * full, is a replica, or has left a request without an answer; not after a wrong password, an
 * unknown database or a URL that cannot be. target_session_attrs holds for each; load_balance_hosts
 * does not count. With one host connect_timeout bounds each connecting too. Up to 64 hosts. */
#ifndef SQLOCK_POSTGRES_H
#define SQLOCK_POSTGRES_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The driver, for sqlock_open() and the other functions that need one.
 * Ownership: static; never free it.
 * Threads:   any thread.
 * Bindings:  a plain symbol of libsqlock-postgres. */
SQLOCK_API const sqlock_driver *sqlock_driver_postgres(void);

/* sqlock_adopt() for a PGconn *, for a caller that includes libpq-fe.h. It passes the caller's
 * PQlibVersion, by which the driver notices a second copy of libpq. A binding calls
 * sqlock_adopt(m, pg, 0, NULL, ...): then it must use the same copy of libpq as the driver. */
#define sqlock_adopt_postgres(m, pg, out_conn, err)                                                \
    sqlock_adopt((m), (PGconn *)(pg), 0, (void (*)(void))PQlibVersion, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
