/* Notes of breaks: breaks.races. */
#include "races.h"

int main(void)
{
    return run_races("breaks", NULL, 0);
}
