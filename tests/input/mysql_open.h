/* What the tests of MariaDB servers share. */
#ifndef SQLOCK_TESTS_INPUT_MYSQL_OPEN_H
#define SQLOCK_TESTS_INPUT_MYSQL_OPEN_H

#include "tests/lib/db.h"
#include "tests/lib/words.h"

/* A database with requests that are long enough for a server that may forget commits, which makes
 * its first guest wait for two seconds. */
struct db mysql_db(const char *url);
/* Open and close a manager. */
int mysql_try(const char *url, unsigned flags, sqlock_error *err);
/* The same with so long for each request; and it took no more than three times that. */
void assert_given_up_in_time(const char *url);
/* The private server's database has the newest schema. */
struct db mysql_migrated(void);
/* That database's URL for a user, or for "user:password". */
char *mysql_login(const char *user);
/* A new user of the private server, without rights; password NULL: without one. */
void mysql_new_user(const char *name, const char *host, const char *password);
/* What that server is: "MariaDB", or MySQL's version, "5.6" or "9.7". */
const char *mysql_kind(void);
/* Skips the test on a version of MySQL. */
void mysql_skip_on(const char *kind);
/* Writes a file of this name into the folder; its path. */
char *put_file(const char *dir, const char *name, const char *text);

#endif
