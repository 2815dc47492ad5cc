#ifndef SQLOCK_TESTS_DRIVERS_FAKE_QUIRKS_H
#define SQLOCK_TESTS_DRIVERS_FAKE_QUIRKS_H

#include <sqlock/fake.h>

#include "tests/drivers/suite.h"

/* The fake driver: a database in memory for each test. */
extern const struct quirks fake_quirks;
/* The test's database. */
sqlock_fake *fake_of(const struct world *w);

#endif
