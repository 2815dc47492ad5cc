/* Counted faults on PostgreSQL. */
#include <sqlock/postgres.h>

#include "tests/counted/scene.h"
#include "tests/lib/postgres_quirks.h"

int main(int argc, char **argv)
{
    return counted_run(&postgres_quirks, argc, argv);
}
