/* Counted faults on MariaDB or MySQL. */
#include <sqlock/mysql.h>

#include "tests/counted/counted.h"
#include "tests/lib/mysql_quirks.h"

int main(int argc, char **argv)
{
    int code = 0;

    return mysql_is_missing(&code) ? code : counted_run(&mysql_quirks, argc, argv);
}
