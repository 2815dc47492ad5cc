/* The MariaDB and MySQL driver (libsqlock-mysql). URLs, for mysql:// and mariadb:// alike:
 *   mysql://user:password@host:port/database?socket=PATH
 * Every part but the database may be left away, and is percent-decoded; the socket stands in place of
 * host and port. The database is the one that the tables are in, unless sqlock_open_opts.schema names
 * another. A connection factory hands out a MYSQL * that is connected with CLIENT_MULTI_STATEMENTS and
 * outside any transaction; MariaDB's client library must have been given MYSQL_OPT_NONBLOCK before it
 * connected. It is the client library that the driver was built with: MariaDB's, or MySQL's 8.0.16 or newer.
 * MariaDB 10.6 or MySQL 5.6, or newer, and InnoDB. */
#ifndef SQLOCK_MYSQL_H
#define SQLOCK_MYSQL_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

SQLOCK_API const sqlock_driver *sqlock_driver_mysql(void);

/* sqlock_adopt() for a MYSQL *, for a caller that includes mysql.h. */
#define sqlock_adopt_mysql(m, mysql, out_conn, err)                                                \
    sqlock_adopt((m), (mysql), sizeof(*(mysql)), (void (*)(void))mysql_init, (out_conn), (err))

#ifdef __cplusplus
}
#endif
#endif
