/* Leases and the time: time.races. */
#include "races.h"

int main(void)
{
    return run_races("time", NULL, 0);
}
