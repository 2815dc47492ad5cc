/* Servers that follow one another: pairs and triples, all of the cell's own. The cell's engine is
 * the primary; the others are copies of it, which follow it until one of them is promoted. */
#ifndef SQLOCK_TESTS_TORTURE_FOLLOWERS_H
#define SQLOCK_TESTS_TORTURE_FOLLOWERS_H

#include "tests/torture/cell.h"

/* Make all that the cell's kind of fault wants, and let them follow. False: it is told. */
bool followers_start(struct cell *c);
void followers_stop(struct cell *c);
/* From now on nothing reaches the others that the primary commits. */
void followers_stall(struct cell *c);
/* others[i] is promoted, or started again as the primary that it was when it died, and becomes
 * c->engine; which becomes others[i]. */
void followers_promote(struct cell *c, int i);
void followers_fail_back(struct cell *c, int i);
/* others[i], which is dead, becomes a copy of the primary and follows it. */
void followers_rebuild(struct cell *c, int i);
/* haproxy before them, if the kind of fault wants it: then clients use it. False: it is told, or
 * c->engine.why. */
bool front_start(struct cell *c);
void front_stop(struct cell *c);
/* Until somebody has been granted a lock by the new primary; nobody is for long: a problem. */
void followers_await_grant(struct cell *c);

#endif
