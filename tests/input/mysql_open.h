/* What the tests of MariaDB servers share. */
#ifndef SQLOCK_TESTS_INPUT_MYSQL_OPEN_H
#define SQLOCK_TESTS_INPUT_MYSQL_OPEN_H

#include <sqlock/sqlock.h>

/* Open and close a manager, with so long for each request; mysql_try: long enough for a server that
 * may forget commits, which makes its first guest wait for two seconds. */
int mysql_try_for(const char *url, unsigned flags, int32_t ms, sqlock_error *err);
int mysql_try(const char *url, unsigned flags, sqlock_error *err);
/* A new user of the private server, without rights; password NULL: without one. */
void mysql_new_user(const char *name, const char *host, const char *password);
/* What that server is: "MariaDB", or MySQL's version, "5.6" or "9.7". */
const char *mysql_kind(void);
/* The private server's database has the newest schema. */
void mysql_migrated(void);

#endif
