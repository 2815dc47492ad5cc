/* Servers that lost commits, or were started anew: servers.races. */
#include "races.h"

int main(void)
{
    return run_races("servers", NULL, 0);
}
