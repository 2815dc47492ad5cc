/* The suite on SQLite. */
#include <sqlock/sqlite.h>

#include "tests/drivers/suite.h"
#include "tests/lib/sqlite_quirks.h"

int main(void)
{
    return suite_run(&sqlite_quirks);
}
