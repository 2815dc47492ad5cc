/* A PostgreSQL server that a test may misconfigure: from its first use to the process's end. */
#ifndef SQLOCK_TESTS_LIB_PRIVATE_H
#define SQLOCK_TESTS_LIB_PRIVATE_H

#include "tests/lib/db.h"
#include "tests/lib/servers.h"

/* Its URL, for a superuser without a password. Where there can be none the test is skipped, loudly;
 * with STRICT=1 it fails. Call it in the test itself. */
const char *private_url(void);
/* Its clock, so many seconds from the true one. Its first call comes before anything else of this
 * file, and the server starts with it. */
void private_clock(int seconds);
/* Its folder, which its socket lies in, and data/. */
const char *private_dir(void);
/* Lines for the top of pg_hba.conf; they count at once. */
void private_hba(const char *lines);
/* Its end without a word and its start, as a replica that follows nobody, or as itself again. */
void private_restart(int as_replica);
/* The server itself, and SQL on it. */
const struct server *private_server(void);
#define private_exec(...)        server_exec(private_server(), __VA_ARGS__)
#define private_set(name, value) server_set(private_server(), (name), (value))
#define private_number(...)      server_number(private_server(), __VA_ARGS__)

/* A schema of the private PostgreSQL server; private_new(): made anew, and migrated. */
struct db private_db(const char *schema);
struct db private_new(const char *schema);
/* That server's URL for a role without a password. */
char *private_login(const char *role);

#endif
