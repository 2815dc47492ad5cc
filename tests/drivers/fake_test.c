/* The suite on the fake driver. */
#include "tests/drivers/fake_quirks.h"

int main(void)
{
    return suite_run(&fake_quirks);
}
