#ifndef SQLOCK_TESTS_DRIVERS_FAKE_NETWORK_H
#define SQLOCK_TESTS_DRIVERS_FAKE_NETWORK_H

#ifdef TEST_HAVE_FAKE
#include <pthread.h>

#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

enum { ALWAYS = 1000000 };

/* The next requests of a kind have this fault. */
void fault(struct world *w, int stmt, sqlock_fault what, int times, int32_t delay_ms);
void stall(struct world *w, int stmt, int times, int32_t ms);
long seen(struct world *w, int stmt); /* by the server */
/* All links break; the server goes on. */
void cut_links(struct world *w);
void stays_held(sqlock_lock *lock, int64_t ms);
/* Somebody who asks for a lock on another thread, which is joined by the test. */
struct waiter {
    sqlock *m;
    const char *name;
    int32_t wait_ms;
    unsigned flags;
    sqlock_cancel *cancel;
    pthread_t thread;
    int code; /* and what comes of it */
    int64_t ended_us;
    sqlock_lock *lock;
    sqlock_error err;
};
void wait_start(struct waiter *t);
/* For sqlock_list(): goes on. */
int ignore_info(const sqlock_info *info, void *user);

/* ---- calls that are told nothing --------------------------------------------------------------
 * A fault takes the reply, and no connection comes after it. */

enum { REQUEST_MS = 250 };

/* Options with request_ms = REQUEST_MS. */
sqlock_open_opts short_requests(void);
/* A manager with them, on a network that can be cut. Other managers are not on it. */
sqlock *open_fragile(struct world *w);
/* The same for tests after this step. */
extern sqlock *fragile;
void begin_fragile(struct world *w);
/* ... with other options. */
sqlock *open_fragile_with(struct world *w, const sqlock_open_opts *o);
/* The next request of this kind has that fault, and no connection comes after it until mend(). */
void fail_and_cut(struct world *w, int stmt, sqlock_fault what, int32_t delay_ms);
void mend(void);
/* A try for "nightly", and a release of it, that end with SQLOCK_EUNSURE; the network stays cut. */
sqlock_lock *take_unsure(struct world *w, sqlock *m, sqlock_fault what, int32_t lease_ms);
sqlock_lock *release_unsure(struct world *w, sqlock *m, sqlock_fault what, int32_t delay_ms,
                            int32_t lease_ms);

#endif
#endif
