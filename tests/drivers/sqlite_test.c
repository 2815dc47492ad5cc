/* The suite on SQLite. */
#include <sqlock/sqlite.h>

#include "tests/drivers/sqlite_quirks.h"

int main(void)
{
    return suite_run(&sqlite_quirks);
}
