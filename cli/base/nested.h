/* A lock that a `sqlock run` around this process holds. SQLOCK_OUTER has the owners of all of them.
 */
#ifndef SQLOCK_CLI_NESTED_H
#define SQLOCK_CLI_NESTED_H

#include <sqlock/sqlock.h>

struct grant_opts;

/* Before a wait for this lock in this mode. If an outer run has it alone, or all of its slots, or
 * this one wants it alone, the wait would never end: returns EXIT_USAGE after saying so. Else 0. A
 * shared one inside a shared one may stand behind an exclusive one, which waits for the outer one:
 * so the wait of g is cut to a second. If the look fails, so will the request, and that reports
 * it. */
int nested_look(sqlock *m, const char *name, int64_t mode, struct grant_opts *g);
/* The lock was busy until the end of the wait. Returns EXIT_USAGE after saying so if nested_look()
 * has cut it, else 0. */
int nested_busy(const struct grant_opts *g);

#endif
