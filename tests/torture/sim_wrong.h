/* One thing that is made wrong in a true history of the simulation, and the rules that must find
 * it. */
#ifndef SQLOCK_TESTS_TORTURE_SIM_WRONG_H
#define SQLOCK_TESTS_TORTURE_SIM_WRONG_H

#include <stdbool.h>

#include "tests/lib/dice.h"
#include "tests/torture/sim.h"

#define SIM_WRONGS(X)                                                                              \
    X(token_of_before)              /* the next grant has the same token */                        \
    X(smaller_token)                /* ... or a smaller one */                                     \
    X(passed_on_without_a_release)  /* the next one is granted, and nobody had given it back */    \
    X(grant_that_never_was)         /* used, and granted by nobody */                              \
    X(lost_update)                  /* two writes of one value */                                  \
    X(updates_in_the_wrong_order)   /* two values change places */                                 \
    X(write_that_nobody_owns_up_to) /* refused, and in the row */                                  \
    X(write_that_is_not_in_the_row) /* committed, and not in the row */                            \
    X(write_under_an_old_token)     /* the token falls back */                                     \
    X(late_write_that_is_accepted)  /* after others were granted it */                             \
    X(commit_after_a_later_grant)   /* while the guard should have kept them out */                \
    X(conflict_with_nobody)         /* nobody had written the next version */                      \
    X(change_of_another_version)    /* than the one that was expected */                           \
    X(busy_with_the_one_before)     /* a refusal names a grant that is over */                     \
    X(row_that_ends_too_early)      /* ... or ends it before its holder does */                    \
    X(loss_without_a_cause)         /* a use in time is refused */                                 \
    X(deadline_that_is_too_late)    /* a whole lease ahead */                                      \
    X(use_after_the_end)            /* held or renewed after the next grant */

/* ... of simulations that hold names together. */
#define SIM_WRONGS_TOGETHER(X)                                                                     \
    X(exclusive_grant_beside_a_shared_one)  /* of two who share the later one does not */          \
    X(shared_grant_beside_an_exclusive_one) /* ... the earlier one */                              \
    X(slots_that_are_too_few)               /* one less than were held at some time */

struct wrong {
    struct sim sim;
    struct dice dice;
    int found_by[3]; /* rules, any of which may find it; the rest is 0 */
};

/* False: there is nothing in this history that can be made wrong so. */
#define WRONG_DECLARE(name) bool wrong_##name(struct wrong *w);
SIM_WRONGS(WRONG_DECLARE)
SIM_WRONGS_TOGETHER(WRONG_DECLARE)
#undef WRONG_DECLARE

/* Some event for which this is so, or NULL. */
struct event *wrong_pick(struct wrong *w, bool (*fits)(const struct wrong *, const struct event *));
bool wrong_answered(const struct event *e, int verb, int outcome);
bool wrong_same_grant(const struct event *a, const struct event *b);

#endif
