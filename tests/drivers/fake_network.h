#ifndef SQLOCK_TESTS_DRIVERS_FAKE_NETWORK_H
#define SQLOCK_TESTS_DRIVERS_FAKE_NETWORK_H

#ifdef TEST_HAVE_FAKE
#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

/* Calls that are told nothing: a fault takes the reply, and no connection comes after it. */

enum { REQUEST_MS = 250, ALWAYS = 1000000 };

/* Options with request_ms = REQUEST_MS. */
sqlock_open_opts short_requests(void);
/* A manager with them, on a network that can be cut. Other managers are not on it. */
sqlock *open_fragile(struct world *w);
/* ... with other options. */
sqlock *open_fragile_with(struct world *w, const sqlock_open_opts *o);
/* The next request of this kind has that fault, and no connection comes after it until mend(). */
void fail_and_cut(struct world *w, int stmt, sqlock_fault fault, int32_t delay_ms);
void mend(void);
/* A try for "nightly", and a release of it, that end with SQLOCK_EUNSURE; the network stays cut. */
sqlock_lock *take_unsure(struct world *w, sqlock *m, sqlock_fault fault, int32_t lease_ms);
sqlock_lock *release_unsure(struct world *w, sqlock *m, sqlock_fault fault, int32_t delay_ms,
                            int32_t lease_ms);

#endif
#endif
