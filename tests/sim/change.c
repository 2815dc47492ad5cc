/* Changes of mode: a task's lock becomes another one. The history has the end of the former grant
 * as a release, which a thread of its own asked for, beside the question for the new one. */
#include <sqlock/mode.h>

#include "tests/sim/hand.h"

static int change_by_loop(struct hand *h, sqlock_lock **lock, sqlock_cancel *cancel,
                          sqlock_error *err)
{
    sqlock_lock *next = NULL;
    sqlock_op *op = NULL;
    int rc = h->shares ? sqlock_upgrade_start(*lock, h->wait_ms, cancel, &op, err)
                       : sqlock_downgrade_start(*lock, &op, err);

    if (rc == 0)
        rc = hand_finishes(op, &next, err);
    if (next != NULL) {
        sqlock_lock_free(*lock);
        *lock = next;
    }
    return rc;
}

static int change_mode(struct hand *h, sqlock_lock **lock, sqlock_error *err)
{
    sqlock_cancel *cancel = NULL;
    int rc;

    h->fired = false;
    h->wait_ms = !h->shares   ? 0
                 : in_100(10) ? SQLOCK_WAIT_FOREVER
                              : (int32_t)chance_between(0, h->crew->lease_ms);
    if (h->shares && (rc = sqlock_cancel_new(&cancel, err)) != 0)
        return rc;
    h->cancel = cancel;
    if (in_100(40))
        rc = change_by_loop(h, lock, cancel, err);
    else
        rc =
            h->shares ? sqlock_upgrade(lock, h->wait_ms, cancel, err) : sqlock_downgrade(lock, err);
    hand_cancel_ends(h, cancel);
    return rc;
}

/* How the former grant ended. A shared one that was given back, for nothing, was released. */
static void former_learns(struct hand *h, sqlock_lock *lock, int rc)
{
    const bool given_back = rc == SQLOCK_ELOST && sqlock_lock_state(lock) == SQLOCK_RELEASED;

    hand_steps_aside(h);
    if (given_back)
        hand_learns(h, 0, 0, 0);
    else
        hand_learns(h, rc, 0, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    hand_steps_aside(h);
}

/* An upgrade in doubt leaves the former lock, a downgrade the new one. */
static void change_settles(struct hand *h, sqlock_lock *lock, uint32_t name, bool former)
{
    if (former)
        hand_steps_aside(h);
    hand_settles(h, lock, name);
    if (former)
        hand_steps_aside(h);
}

/* What it does behind the wait, and then giving back what may have been granted. */
static void change_judge_time(const struct hand *h, int rc)
{
    const int requests = rc == SQLOCK_EUNSURE || rc == SQLOCK_ELOST ? 2 : 1;

    if (h->wait_ms != SQLOCK_WAIT_FOREVER)
        hand_judge_time(h, h->wait_ms + requests * h->crew->request_ms + ANSWER_MS);
}

void hand_changes(struct hand *h, sqlock_lock **lock, uint32_t name)
{
    const bool upgrades = h->shares;
    sqlock_error err = {0};
    int rc;

    hand_steps_aside(h);
    hand_sends(h, V_RELEASE, name, sqlock_lock_token(*lock));
    hand_steps_aside(h);
    hand_sends(h, upgrades ? V_ACQUIRE : V_SHARE, name, 0);
    rc = change_mode(h, lock, &err);
    if (rc == 0)
        h->now.token = sqlock_lock_token(*lock);
    hand_learns(h, rc, rc == 0 ? sqlock_lock_deadline_us(*lock) : 0, 0);
    change_judge_time(h, rc);
    hand_judge_outcome(h, rc, &err);
    former_learns(h, *lock, rc);
    if (rc == 0)
        h->granted_us = h->now.invoke_us;
    if (rc == 0 || (rc == SQLOCK_EUNSURE && !upgrades))
        h->shares = !upgrades;
    if (rc == SQLOCK_EUNSURE)
        change_settles(h, *lock, name, upgrades);
}
