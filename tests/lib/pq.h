/* A PostgreSQL connection of the test's own, past the library; a failure fails the test. */
#ifndef SQLOCK_TESTS_LIB_PQ_H
#define SQLOCK_TESTS_LIB_PQ_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlock/sqlock.h>

struct pg_conn; /* libpq's PGconn */

/* End it with PQfinish(). */
struct pg_conn *pq_open(const char *url);
/* Run SQL: the first column of the first row; NULL and no row are -1. */
#define pq_exec(...) ((void)pq_number(__VA_ARGS__))
int64_t pq_number(struct pg_conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for one statement on a connection of its own; false: it failed, and it says why. */
bool pq_fetch(const char *url, const char *sql, int64_t *out_number);

/* A factory of connections on which a role's rights count, which need not be able to log in; its
 * user is a pq_login. */
struct pq_login {
    const char *url, *role;
};
int pq_connect_as(void *login, void **out_native, sqlock_error *err);

#endif
