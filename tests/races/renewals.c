/* Renewals: renewals.races. */
#include "races.h"

int main(void)
{
    return run_races("renewals", NULL, 0);
}
