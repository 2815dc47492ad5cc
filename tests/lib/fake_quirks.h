#ifndef SQLOCK_TESTS_LIB_FAKE_QUIRKS_H
#define SQLOCK_TESTS_LIB_FAKE_QUIRKS_H

#include <sqlock/fake.h>

#include "tests/lib/place.h"

/* The fake driver: a database in memory for each test. */
extern const struct quirks fake_quirks;
/* The database of a place that these quirks made. */
sqlock_fake *fake_at(const struct place *p);

#endif
