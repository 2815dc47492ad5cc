/* The suite on SQLite, in a file that the application has made: with a rollback journal. */
#include <sqlock/sqlite.h>

#include "tests/drivers/suite.h"
#include "tests/lib/sqlite_quirks.h"

TEST_MAIN_OF_SUITE(sqlite_given)
