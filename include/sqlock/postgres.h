/* The PostgreSQL driver (libsqlock-postgres). URLs: postgres:// and postgresql://, which go to libpq
 * as they are, with its options, environment and password file. A connection factory hands out a
 * PGconn * that is connected and idle. PostgreSQL 10 or newer. */
#ifndef SQLOCK_POSTGRES_H
#define SQLOCK_POSTGRES_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

SQLOCK_API const sqlock_driver *sqlock_driver_postgres(void);

/* sqlock_adopt() for a PGconn *, for a caller that includes libpq-fe.h. */
#define sqlock_adopt_postgres(m, pg, out_conn, err)                                                \
    sqlock_adopt((m), (PGconn *)(pg), 0, (void (*)(void))PQlibVersion, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
