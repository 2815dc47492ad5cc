/* The suite on MariaDB or MySQL. */
#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/mysql_quirks.h"

int main(void)
{
    return suite_run(&mysql_quirks);
}
