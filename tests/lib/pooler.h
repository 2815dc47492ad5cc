/* A pgbouncer before the private PostgreSQL server, in transaction mode: two sessions of the server
 * for all clients, so that they get each other's. */
#ifndef SQLOCK_TESTS_LIB_POOLER_H
#define SQLOCK_TESTS_LIB_POOLER_H

/* Its URL; started at the first use, and ended with this process. Where there is none the test is
 * skipped, loudly; with STRICT=1 it fails. Call it in the test itself. */
const char *pooler_url(void);
/* End it; a group's teardown. */
int pooler_stop(void **state);

#endif
