/* The PostgreSQL driver (libsqlock-postgres), for PostgreSQL 10 or newer.
 *
 * URLs begin with postgres:// or postgresql://. libpq gets them as they are, with its options,
 * environment and password file. A connection factory returns a PGconn * that is connected and
 * idle.
 *
 * Several hosts are servers of which one grants at a time: a primary and its standbys. They come
 * from the URL (postgresql://h1,h2:5433/db), from host= and hostaddr= with commas, from a service
 * file or from PGHOST. At most 64.
 * - sqlock tries them one at a time. It begins with the one that answered last.
 * - Each host has its share of the time that is left, and at most connect_timeout. With one host
 *   connect_timeout limits each connection attempt too.
 * - sqlock goes on to the next host if one does not answer, refuses, is starting or full, is a
 *   replica, or has left a request without an answer.
 * - It goes on after a wrong password or an unknown database too, but if no host serves, the error is
 *   that one. It does not go on after an invalid URL.
 * - target_session_attrs holds for each host. load_balance_hosts has no effect. */
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
 * PQlibVersion, by which the driver notices a second copy of libpq. A binding calls sqlock_adopt(m,
 * pg, 0, NULL, ...): then it must use the same copy of libpq as the driver. */
#define sqlock_adopt_postgres(m, pg, out_conn, err)                                                \
    sqlock_adopt((m), (PGconn *)(pg), 0, (void (*)(void))PQlibVersion, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
