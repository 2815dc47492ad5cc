/* The private servers' databases, for the driver that belongs to them. */
#ifndef SQLOCK_TESTS_LIB_PRIVATE_DB_H
#define SQLOCK_TESTS_LIB_PRIVATE_DB_H

#include "tests/lib/db.h"

/* A schema of the private PostgreSQL server; private_new(): made anew, and migrated. */
struct db private_db(const char *schema);
struct db private_new(const char *schema);
/* That server's URL for a role without a password. */
char *private_login(const char *role);

#endif
