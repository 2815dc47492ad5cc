#ifndef SQLOCK_TESTS_LIB_PUMP_H
#define SQLOCK_TESTS_LIB_PUMP_H

#include <sqlock/sqlock.h>

/* As sqlock_open(), for a manager without threads, and pump_start(). */
int pump_open(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
              sqlock **out_m, sqlock_error *err);
/* Step a manager without threads until pump_stop(), on a thread of the test's. */
void pump_start(sqlock *m);
/* Call it before the manager is closed. Does nothing for one that has no pump. */
void pump_stop(const sqlock *m);

#endif
