/* The suite on SQLite, by managers without threads. */
#include <sqlock/sqlite.h>

#include "tests/drivers/suite.h"
#include "tests/lib/sqlite_quirks.h"

TEST_MAIN_OF_STEPPED_SUITE(sqlite)
