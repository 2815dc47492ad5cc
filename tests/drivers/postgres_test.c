/* The suite on PostgreSQL. */
#include <sqlock/postgres.h>

#include "tests/drivers/suite.h"
#include "tests/lib/postgres_quirks.h"

int main(void)
{
    return suite_run(&postgres_quirks);
}
