/* The suite on the fake driver. */
#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

TEST_MAIN_OF_SUITE(fake)
