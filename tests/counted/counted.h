/* The programs of this folder: all calls, all faults, on one driver. */
#ifndef SQLOCK_TESTS_COUNTED_H
#define SQLOCK_TESTS_COUNTED_H

#include "tests/lib/place.h"

/* Returns what main() returns. With arguments the program is a process that is to be killed. */
int counted_run(const struct quirks *q, int argc, char **argv);

#endif
