/* What the tests of MariaDB servers share. */
#ifndef SQLOCK_TESTS_INPUT_MYSQL_OPEN_H
#define SQLOCK_TESTS_INPUT_MYSQL_OPEN_H

#include <sqlock/sqlock.h>

/* Open and close a manager, with two seconds for each request. */
int mysql_try(const char *url, unsigned flags, sqlock_error *err);
/* The private server's database has the newest schema. */
void mysql_migrated(void);

#endif
