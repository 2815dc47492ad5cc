/* Owners and withdrawals: owners.races. */
#include "races.h"

int main(void)
{
    return run_races("owners", NULL, 0);
}
