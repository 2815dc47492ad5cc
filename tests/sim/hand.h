/* What the files of clients share: a process, and its tasks that use locks. */
#ifndef SQLOCK_TESTS_SIM_HAND_H
#define SQLOCK_TESTS_SIM_HAND_H

#include "tests/sim/sim.h"

/* A task that uses locks, one after the other. */
struct hand {
    struct crew *crew;
    struct task *task;
    struct event now;
    int64_t at;               /* its place in the history */
    struct event beside;      /* of its other thread, where it asks two things at a time */
    int64_t beside_at;        /* and that one's place */
    bool shares;              /* the lock that it has */
    sqlock_cancel *cancel;    /* of the wait under way; NULL: none */
    bool firing, fired;       /* the canceller is at it; it was cancelled */
    int32_t wait_ms;          /* of the last acquire */
    bool manual;              /* the lock that it has is not renewed */
    int64_t granted_us;       /* when that was asked for */
    int64_t reported_lost_us; /* 0: no callback came */
    int64_t told_us;          /* the deadline that the library told last */
};

/* All of a process. */
struct crew {
    struct process *process;
    sqlock *m;
    int32_t lease_ms, request_ms;
    int connections, n_hands;
    int64_t cancelled_us; /* when a wait or request was cancelled last */
    struct hand hands[SIM_HANDS];
};

/* What the library may add to a wait. */
enum { ANSWER_MS = 50 };

static inline bool in_100(int n)
{
    return (int)dice_below(&world.chance, 100) < n;
}

/* ---- what is sent, answered and judged (answers.c) ------------------------------------------- */

void hand_sends(struct hand *h, int verb, uint32_t name, int64_t token);
void hand_learns(struct hand *h, int outcome, int64_t deadline_us, int64_t value);
/* What the task asks and learns next is that of its other thread. */
void hand_steps_aside(struct hand *h);
void hand_judge_time(const struct hand *h, int32_t limit_ms);
void hand_judge_outcome(const struct hand *h, int rc, const sqlock_error *err);
void hand_judge_loss(const struct hand *h, int why);
void hand_judge_report(struct hand *h, sqlock_lock *lock);
/* The callback of its locks. */
void hand_hears(sqlock_lock *lock, sqlock_state state, void *user);

/* ---- with a lock that it has ----------------------------------------------------------------- */

/* Until it gives it back, mostly (use.c). */
void hand_uses(struct hand *h, sqlock_lock **lock, uint32_t name);
void hand_releases(struct hand *h, sqlock_lock *lock, uint32_t name);
/* True: what was unsure is ours. */
bool hand_settles(struct hand *h, sqlock_lock *lock, uint32_t name);
/* From exclusive to shared, or back (change.c). */
void hand_changes(struct hand *h, sqlock_lock **lock, uint32_t name);
/* Two names at once, until they are given back (two.c). */
void hand_takes_two(struct hand *h);

/* ---- hand.c ---------------------------------------------------------------------------------- */

/* How it wants this name. */
int64_t hand_mode(struct hand *h, uint32_t name);
/* The end of an operation of an event loop. */
int hand_finishes(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);
/* The wait that this ends is over; frees it. */
void hand_cancel_ends(struct hand *h, sqlock_cancel *cancel);
/* What it does until the world is over; arg is the hand. */
void *hand_main(void *arg);
/* End the wait that is under way, if there is one. */
void hand_cancel(struct hand *h);

#endif
