/* A driver that hands everything on to the real one, and fails at the n-th request as it is told.
 */
#ifndef SQLOCK_TESTS_COUNTED_DRIVER_H
#define SQLOCK_TESTS_COUNTED_DRIVER_H

#include "tests/lib/adopt_app.h"
#include "tests/lib/place.h"

/* The table, for the driver of these quirks; one at a time. */
const sqlock_driver *faulty_driver(const struct quirks *q);
/* The connection of the application's that is adopted next. */
void faulty_app(void *app);
/* Connections of the library's own that are open. */
int faulty_open(void);

#endif
