/* Registers and named rows: registers.races. */
#include "races.h"

TEST_MAIN_OF_RACES("registers")
