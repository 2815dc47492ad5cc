/* MariaDB or MySQL's quirks, for the programs that need them. */
#ifndef SQLOCK_TESTS_LIB_MYSQL_QUIRKS_H
#define SQLOCK_TESTS_LIB_MYSQL_QUIRKS_H

#include "tests/lib/place.h"

extern const struct quirks mysql_quirks;
/* 1: there is no server, and it has been told; then *out_code is for main(). */
int mysql_is_missing(int *out_code);

#endif
