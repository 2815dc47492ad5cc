/* The suite on PostgreSQL. */
#include <sqlock/postgres.h>

#include "tests/drivers/suite.h"
#include "tests/lib/postgres_quirks.h"

TEST_MAIN_OF_SUITE(postgres)
