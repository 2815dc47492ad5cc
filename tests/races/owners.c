/* Owners and withdrawals: owners.races. */
#include "races.h"

TEST_MAIN_OF_RACES("owners")
