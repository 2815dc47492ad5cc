/* The PostgreSQL server that tests run on: SQLOCK_TEST_POSTGRES_URL, which tests/tools/run.sh sets
 * to a private one. Each test works in a schema of its own. */
#ifndef SQLOCK_TESTS_LIB_PG_H
#define SQLOCK_TESTS_LIB_PG_H

#include <stdint.h>

extern const struct test_server pg_server; /* for test_server_is_missing() */
/* The server's URL. Where there is none the test is skipped, loudly; with STRICT=1 it fails. Call
 * it in the test itself: cmocka takes a skip in a setup for an error. */
const char *pg_url(void);
/* A new, empty schema, "test_" and random letters; dropped by undo_now() (tests/lib/undo.h) or
 * when this process ends. Skips or fails as pg_url() does. */
char *pg_schema_new(void);

/* Run SQL with a connection of the test's own, outside the library; a failure fails the test. With
 * pg_number() the first column of the first row, NULL and no row are -1. */
#define pg_exec(...) ((void)pg_number(__VA_ARGS__))
int64_t pg_number(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* url with host and port replaced: the same database by way of a proxy. free() it. */
char *pg_url_through(const char *url, const char *host, const char *port);
/* Where url leads: a socket's path, or host and port of TCP (then *out_port is not ""). */
void pg_url_target(const char *url, char out_host[256], char out_port[16]);

#endif
