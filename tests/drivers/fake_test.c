/* The suite on the fake driver. */
#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

int main(void)
{
    return suite_run(&fake_quirks);
}
