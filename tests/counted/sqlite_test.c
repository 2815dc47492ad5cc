/* Counted faults on SQLite. */
#include <sqlock/sqlite.h>

#include "tests/counted/scene.h"
#include "tests/lib/sqlite_quirks.h"

int main(int argc, char **argv)
{
    return counted_run(&sqlite_quirks, argc, argv);
}
