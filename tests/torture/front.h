/* haproxy before the servers of a cell: it leads to whichever is the primary, and cuts links that
 * are idle for a second. */
#ifndef SQLOCK_TESTS_TORTURE_FRONT_H
#define SQLOCK_TESTS_TORTURE_FRONT_H

#include "tests/torture/cell.h"

/* If the kind of fault wants it: then clients use it. False: it is told, or c->engine.why. */
bool front_start(struct cell *c);
void front_stop(struct cell *c);

#endif
