/* What the statements cost PostgreSQL: cost.races. */
#include "races.h"

TEST_MAIN_OF_RACES("cost")
