/* Registers and named rows: registers.races. */
#include "races.h"

int main(void)
{
    return run_races("registers", NULL, 0);
}
