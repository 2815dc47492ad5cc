/* PostgreSQL's quirks, for the programs that need them. */
#ifndef SQLOCK_TESTS_LIB_POSTGRES_QUIRKS_H
#define SQLOCK_TESTS_LIB_POSTGRES_QUIRKS_H

#include "tests/lib/place.h"

extern const struct quirks postgres_quirks;

#endif
