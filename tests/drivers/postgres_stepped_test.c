/* The suite on PostgreSQL, by managers without threads. */
#include <sqlock/postgres.h>

#include "tests/drivers/suite.h"
#include "tests/lib/postgres_quirks.h"

TEST_MAIN_OF_STEPPED_SUITE(postgres)
