/* Counted faults on the fake driver. */
#include <sqlock/fake.h>

#include "tests/counted/scene.h"
#include "tests/lib/fake_quirks.h"

int main(int argc, char **argv)
{
    return counted_run(&fake_quirks, argc, argv);
}
