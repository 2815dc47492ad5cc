#ifndef SQLOCK_MODEL_CIRCLE_H
#define SQLOCK_MODEL_CIRCLE_H

#include <stddef.h>
#include <stdint.h>

#include <sqlock/sqlock.h>

/* Who waits for whom, and circles among them: no one in a circle goes on unless one gives up.
 *
 * What the database shows are stands: one that holds a lock, or waits for it. Their owners
 * say which are of one actor (actor.h). It does one thing at a time. So while it waits it releases
 * nothing, and who waits for what it holds waits for the actor. */
enum stand_kind {
    STAND_ROW,  /* the holder of the lock's own row, or who has the turn there */
    STAND_SEAT, /* a shared holder, or one of a slot */
    STAND_WAITS /* in the queue */
};

struct stand {
    unsigned char owner[SQLOCK_OWNER_SIZE];
    enum stand_kind kind;
    int64_t id;     /* of a holder its token, of a waiter its ticket */
    int64_t since;  /* granted, or queued */
    int64_t end;    /* of a holder's lease */
    int64_t beside; /* of a row: 0: no one may stand beside it. -1: shared holders, N: those of N
                       slots. Then it is a turn */
    const char *name, *label; /* they end with the answer that shows them */
    size_t name_len, label_len;
    int waits; /* it is in the queue, or has the turn and waits for seats */

    size_t lot, actor; /* numbers: the same for stands of one lock, and of one actor */
    int stuck;         /* it waits, and no one it waits for can go on */
    int ahead;         /* of the stand in question: it is reached from there */
    uint32_t behind;   /* so many steps away from there, and 1; 0: there is no way */
};

struct circle_actor {
    int several, stuck, ahead; /* several: it has more than one owner */
    uint32_t behind;
};

struct circle {
    struct stand *stands;
    size_t n;
    struct circle_actor *actors; /* room for n */
    size_t n_actors;
};

/* For the two below: put them into an order in which they can be compared. */
void stands_sort(struct stand *stands, size_t n);
/* Keep those that stood there before, and still do. Returns how many that are. Tokens are drawn
 * once, and places get new tickets or times, so it was there all the time in between. Both are
 * sorted. Who has the turn waits if it has extended that meanwhile: no one else does. */
size_t stands_keep(struct stand *now, size_t n, const struct stand *before, size_t n_before);

/* Find out who is stuck. It sorts the stands, by names. waits was set. */
void circle_settle(struct circle *c);
/* The one of all in circles with stand i that is to give up: who came last. It is the same
 * whichever of them i is. Returns its number, or n: stand i is in no circle. */
size_t circle_victim(struct circle *c, size_t i);
/* The circle, beginning with stand i, for which circle_victim() has just been called. Returns the
 * stand that comes next on the shortest way back to stand i. *out_by: the one that stand i waits
 * for: it is that same stand, or what its actor holds. */
size_t circle_next(const struct circle *c, size_t i, size_t *out_by);

#endif
