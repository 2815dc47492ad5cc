/* A driver that looks on: it hands every call to the real one, and kills the process after a call
 * of one's choice, or lets a test act before each. A copy may also know one migration more. */
#ifndef SQLOCK_TESTS_SCHEMA_TAP_H
#define SQLOCK_TESTS_SCHEMA_TAP_H

#include "tests/schema/schema.h"

/* One for the whole program: a driver's calls carry nothing of ours. */
struct tap {
    const sqlock_driver *real;
    long calls;                            /* that change or ask something; not open and close */
    long kill_after;                       /* SIGKILL behind so many calls; -1: never */
    void (*before)(void *user, long call); /* NULL: nothing */
    void *user;
};

/* The place by way of the tap, which is reset; p->driver leads back to the real one. */
struct place place_tapped(const struct place *p, struct tap **out_tap);

/* The same place as a newer library sees it, that knows a migration more: two tables. */
struct place place_grown(const struct place *p);
/* ... as the release before the newest migration sees it. */
struct place place_older(const struct place *p);
/* ... as a library sees it whose migrations, scripts or both are others. */
struct place place_with(const struct place *p, const sqlock_dialect *dialect);

/* ... as a library sees it to which the schema's generation is another one by so many. */
struct place place_of_generation(const struct place *p, int more);

#endif
