/* Servers that lost commits, or were started anew: servers.races. */
#include "races.h"

TEST_MAIN_OF_RACES("servers")
