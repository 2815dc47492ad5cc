/* Servers that follow one another: pairs and triples, all of the cell's own. The cell's engine is
 * the primary; the others are copies of it, which follow it until one of them is promoted. */
#ifndef SQLOCK_TESTS_TORTURE_FOLLOWERS_H
#define SQLOCK_TESTS_TORTURE_FOLLOWERS_H

#include "tests/torture/cell.h"

/* What each database does in its own way. */
struct follow_ops {
    bool (*prepare)(struct engine *primary); /* once: what followers need to be let in */
    /* These data were copied from a server that was stopped: what is to be changed before they are
     * started, and after that. */
    bool (*adapt)(struct engine *e, const struct engine *primary);
    bool (*follow)(struct engine *e, const struct engine *primary);
    int (*followers)(struct engine *primary); /* that are connected; -1: nobody answers */
    /* From now on a commit is answered when a follower has it. Then it is asked until it is so. */
    bool (*ask_synchronous)(struct engine *primary);
    bool (*is_synchronous)(struct engine *primary);
    void (*stall)(struct engine *primary, struct engine *e); /* it gets nothing more */
    /* It takes over with all that it has got. */
    bool (*promote)(struct engine *e);
    /* What clients use who may reach all of them. */
    void (*url)(const struct engine *const all[], int n, char *out, size_t size);
};

extern const struct follow_ops follow_postgres, follow_mysql;

/* The server's command line, when it begins as one that follows, or as a primary. False: e->why. */
bool follow_mysql_args(struct engine *e, bool follows);

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
/* Until somebody has been granted a lock by the new primary; nobody is for long: a problem. */
void followers_await_grant(struct cell *c);

#endif
