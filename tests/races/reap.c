/* The reaper and the pruner: reap.races. */
#include "races.h"

int main(void)
{
    return run_races("reap", NULL, 0);
}
