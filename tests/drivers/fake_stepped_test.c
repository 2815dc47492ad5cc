/* The suite on the fake driver, by managers without threads. */
#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

TEST_MAIN_OF_STEPPED_SUITE(fake)
