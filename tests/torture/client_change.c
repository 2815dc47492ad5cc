/* Changes of mode: a lease becomes another one. The history has the end of the former grant as a
 * release, as if another thread had asked for it, beside the question for the new one. */
#include "tests/torture/client_hand.h"

#include <sqlock/mode.h>

static int change_by_loop(struct hand *h, sqlock_lock **lock, int32_t wait_ms, sqlock_error *err)
{
    sqlock_lock *next = NULL;
    sqlock_op *op = NULL;
    int rc = h->shares ? sqlock_upgrade_start(*lock, wait_ms, h->crew->cancel, &op, err)
                       : sqlock_downgrade_start(*lock, &op, err);

    if (rc == 0)
        rc = lease_finish(op, &next, err);
    if (next != NULL) {
        sqlock_lock_free(*lock);
        *lock = next;
    }
    return rc;
}

static int change_mode(struct hand *h, sqlock_lock **lock, sqlock_error *err)
{
    const int32_t wait_ms = (int32_t)dice_between(&h->dice, 0, h->crew->plan.lease_ms);

    if (hand_dares(h, CHANCE_START))
        return change_by_loop(h, lock, wait_ms, err);
    return h->shares ? sqlock_upgrade(lock, wait_ms, h->crew->cancel, err)
                     : sqlock_downgrade(lock, err);
}

/* What the former grant says of itself: a shared one that was given back, for nothing, was
 * released. */
static void former_answers(struct hand *h, sqlock_lock *lock, int rc)
{
    const bool given_back = rc == SQLOCK_ELOST && sqlock_lock_state(lock) == SQLOCK_RELEASED;

    h->at = &h->beside;
    if (given_back)
        hand_answer(h, 0, 0, 0);
    else
        hand_answer(h, rc, 0, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    h->at = &h->now;
}

/* An upgrade in doubt leaves the former lock, a downgrade the new one. */
static void change_settle(struct hand *h, sqlock_lock *lock, uint32_t name, bool former)
{
    h->at = former ? &h->beside : &h->now;
    lease_settle(h, lock, name);
    h->at = &h->now;
}

/* A guard of its own may keep an upgrade from the lock while others share it. That says nothing of
 * them. */
static int code_of_change(int rc)
{
    return rc == SQLOCK_EGUARDED ? SQLOCK_EBUSY : rc;
}

bool lease_change(struct hand *h, sqlock_lock **lock, uint32_t name)
{
    const bool upgrades = h->shares;
    sqlock_error err = {0};
    int rc;

    if (!lease_is_shared(name) || !sqlock_is_held(*lock))
        return false;
    h->at = &h->beside;
    hand_fetch(h, V_RELEASE, name, sqlock_lock_token(*lock));
    h->at = &h->now;
    hand_fetch(h, upgrades ? V_ACQUIRE : V_SHARE, name, 0);
    rc = change_mode(h, lock, &err);
    if (rc == 0)
        h->now.token = sqlock_lock_token(*lock);
    hand_answer(h, code_of_change(rc), rc == 0 ? sqlock_lock_deadline_us(*lock) : 0, 0);
    hand_explain(h, rc, &err, upgrades ? "upgrade" : "downgrade");
    former_answers(h, *lock, code_of_change(rc));
    if (rc == 0 || (rc == SQLOCK_EUNSURE && !upgrades))
        h->shares = !upgrades;
    if (rc == SQLOCK_EUNSURE)
        change_settle(h, *lock, name, upgrades);
    if (sqlock_is_held(*lock) && hand_dares(h, CHANCE_GUARDED))
        rows_guarded(h, *lock, name, GUARDED_AT_ONCE);
    return !sqlock_is_held(*lock);
}
