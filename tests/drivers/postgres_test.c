/* The suite on PostgreSQL. */
#include <sqlock/postgres.h>

#include "tests/drivers/suite.h"
#include "tests/lib/postgres_quirks.h"

int main(void)
{
    int code = 0;

    return postgres_is_missing(&code) ? code : suite_run(&postgres_quirks);
}
