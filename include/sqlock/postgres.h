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

#ifdef __cplusplus
}
#endif
#endif
