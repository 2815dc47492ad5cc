#ifndef SQLOCK_TESTS_DRIVERS_FAKE_NETWORK_H
#define SQLOCK_TESTS_DRIVERS_FAKE_NETWORK_H

#ifdef TEST_HAVE_FAKE
#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

enum { ALWAYS = 1000000 };

/* The next requests of a kind have this fault. */
void fault(struct world *w, int stmt, sqlock_fault what, int times, int32_t delay_ms);
void stall(struct world *w, int stmt, int times, int32_t ms);
long seen(struct world *w, int stmt); /* by the server */
/* All links break; the server goes on. */
void cut_links(struct world *w);
/* For sqlock_list(): goes on. */
int ignore_info(const sqlock_info *info, void *user);

/* A network that lets only so many connections through. */
extern struct network {
    sqlock_fake *db;
    atomic_int allowed; /* so many more */
    atomic_int code;    /* what its factory answers then, without a word; 0: a whole error */
} network;
/* A manager on it; others are not. */
sqlock *open_allowed(struct world *w, int allowed, const sqlock_open_opts *opts);

/* ---- calls that are told nothing --------------------------------------------------------------
 * A fault takes the reply, and no connection comes after it. */

enum { REQUEST_MS = 250 };

/* A manager with request_ms = REQUEST_MS, on that network, with all of its connections open; and
 * the same for tests after this step. */
sqlock *open_fragile(struct world *w, int32_t grace_ms);
extern sqlock *fragile;
void begin_fragile(struct world *w);
/* The next request of this kind has that fault, and no connection comes after it until mend(). */
void fail_and_cut(struct world *w, int stmt, sqlock_fault what, int32_t delay_ms);
void mend(void);
/* A try for "nightly", and a release of it, that end with SQLOCK_EUNSURE; the network stays cut. */
sqlock_lock *take_unsure(struct world *w, sqlock *m, sqlock_fault what, int32_t lease_ms);
sqlock_lock *release_unsure(struct world *w, sqlock *m, sqlock_fault what, int32_t delay_ms,
                            int32_t lease_ms);

#endif
#endif
