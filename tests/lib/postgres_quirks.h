/* PostgreSQL's quirks, for the programs that need them. */
#ifndef SQLOCK_TESTS_LIB_POSTGRES_QUIRKS_H
#define SQLOCK_TESTS_LIB_POSTGRES_QUIRKS_H

#include "tests/lib/place.h"

extern const struct quirks postgres_quirks;
/* 1: there is no server, and it has been told; then *out_code is for main(). */
int postgres_is_missing(int *out_code);

#endif
