/* The suite on MariaDB or MySQL. */
#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/mysql_quirks.h"

TEST_MAIN_OF_SUITE(mysql)
