/* SQLite's quirks, for the programs that need them. */
#ifndef SQLOCK_TESTS_LIB_SQLITE_QUIRKS_H
#define SQLOCK_TESTS_LIB_SQLITE_QUIRKS_H

#include "tests/lib/place.h"

extern const struct quirks sqlite_quirks;       /* files that sqlock makes: in WAL mode */
extern const struct quirks sqlite_given_quirks; /* files of an application: a rollback journal */

#endif
