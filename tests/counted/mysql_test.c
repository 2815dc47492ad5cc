/* Counted faults on MariaDB or MySQL. */
#include <sqlock/mysql.h>

#include "tests/counted/scene.h"
#include "tests/lib/mysql_quirks.h"

int main(int argc, char **argv)
{
    return counted_run(&mysql_quirks, argc, argv);
}
