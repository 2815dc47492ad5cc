/* The suite on MariaDB or MySQL, by managers without threads. */
#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/mysql_quirks.h"

TEST_MAIN_OF_STEPPED_SUITE(mysql)
