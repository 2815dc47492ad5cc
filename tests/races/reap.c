/* The reaper and the pruner: reap.races. */
#include "races.h"

TEST_MAIN_OF_RACES("reap")
