#include "races.h"

TEST_MAIN_OF_RACES("seats")
