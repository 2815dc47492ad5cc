/* The suite on SQLite. */
#include <sqlock/sqlite.h>

#include "tests/drivers/suite.h"
#include "tests/lib/sqlite_quirks.h"

TEST_MAIN_OF_SUITE(sqlite)
