/* Counted faults on PostgreSQL. */
#include <sqlock/postgres.h>

#include "tests/counted/counted.h"
#include "tests/lib/postgres_quirks.h"

int main(int argc, char **argv)
{
    int code = 0;

    return postgres_is_missing(&code) ? code : counted_run(&postgres_quirks, argc, argv);
}
