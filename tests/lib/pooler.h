/* A pgbouncer before the private PostgreSQL server, in transaction mode: two sessions of the server
 * for all clients, so that they get each other's. */
#ifndef SQLOCK_TESTS_LIB_POOLER_H
#define SQLOCK_TESTS_LIB_POOLER_H

/* One before the server whose folder this is, with so many sessions of it; its URL, or NULL where
 * no pgbouncer is installed. */
const char *pooler_start(const char *server_dir, int sessions);
/* One before the private server, with two. Its URL; started at the first use, and ended with this
 * process. Where there is none the test is skipped, or fails with STRICT=1. In tests alone. */
const char *pooler_url(void);
/* End it; a group's teardown. */
int pooler_stop(void **state);

#endif
