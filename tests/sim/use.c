/* What a task does with a lock that it has. */
#include "tests/lib/db.h"
#include "tests/sim/hand.h"

enum { SETTLE_MS = 1000, SETTLES = 30, RELEASES = 3 };

/* ---- what it says of itself ------------------------------------------------------------------ */

static void read_held(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int64_t deadline_us;
    int outcome;

    hand_sends(h, V_HELD, name, sqlock_lock_token(lock));
    outcome = lock_look(lock, &deadline_us);
    hand_learns(h, outcome, deadline_us, outcome == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    if (outcome == SQLOCK_ELOST)
        hand_judge_loss(h, (int)sqlock_lock_why(lock));
    if (outcome == SQLOCK_ELOST)
        hand_judge_report(h, lock);
}

/* ---- what was unsure ------------------------------------------------------------------------- */

static bool is_told(sqlock_lock *lock)
{
    return sqlock_lock_state(lock) != SQLOCK_UNSURE;
}

/* True: it is ours. */
bool hand_settles(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    for (int i = 0; i < SETTLES && !is_told(lock); i++) {
        sqlock_error err = {0};
        int rc;

        task_sleep(i * INT64_C(50000));
        hand_sends(h, V_SETTLE, name, sqlock_lock_token(lock));
        rc = sqlock_settle(lock, SETTLE_MS, &err);
        h->now.token = sqlock_lock_token(lock);
        if (sqlock_lock_state(lock) == SQLOCK_RELEASED)
            hand_learns(h, rc, 0, SQLOCK_WHY_RELEASED);
        else if (rc == 0)
            hand_learns(h, rc, sqlock_lock_deadline_us(lock), 0);
        else if (sqlock_lock_state(lock) == SQLOCK_LOST)
            hand_learns(h, SQLOCK_ELOST, 0, sqlock_lock_why(lock));
        else
            hand_learns(h, rc, 0, 0);
        hand_judge_time(h, SETTLE_MS + ANSWER_MS);
        hand_judge_outcome(h, rc, &err);
    }
    return sqlock_is_held(lock);
}

/* ---- while it is held ------------------------------------------------------------------------ */

static void renew(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    sqlock_error err = {0};
    sqlock_op *op = NULL;
    int64_t deadline_us = 0;
    int rc;

    hand_sends(h, V_RENEW, name, sqlock_lock_token(lock));
    if (!in_100(20))
        rc = sqlock_renew(lock, &err);
    else if ((rc = sqlock_renew_start(lock, &op, &err)) == 0)
        rc = hand_finishes(op, NULL, &err);
    if (rc == 0)
        deadline_us = sqlock_lock_deadline_us(lock);
    hand_learns(h, rc, deadline_us, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    hand_judge_time(h, h->crew->request_ms + ANSWER_MS);
    hand_judge_outcome(h, rc, &err);
}

static void hold_long(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    for (int i = 0; i < 8; i++) {
        task_sleep(h->crew->lease_ms * INT64_C(250));
        read_held(h, lock, name);
    }
}

static void work(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    if (in_100(6))
        hold_long(h, lock, name); /* a lease that is not renewed runs out meanwhile */
    else
        task_sleep(chance_between(0, in_100(20) ? h->crew->lease_ms * INT64_C(800) : 20000));
}

/* ---- its end --------------------------------------------------------------------------------- */

static int release_once(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    sqlock_error err = {0};
    sqlock_op *op = NULL;
    int rc;

    hand_sends(h, V_RELEASE, name, sqlock_lock_token(lock));
    if (!in_100(20))
        rc = sqlock_release(lock, &err);
    else if ((rc = sqlock_release_start(lock, &op, &err)) == 0)
        rc = hand_finishes(op, NULL, &err);
    hand_learns(h, rc, 0, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    if (rc == SQLOCK_ELOST)
        hand_judge_loss(h, (int)sqlock_lock_why(lock));
    hand_judge_time(h, h->crew->request_ms + ANSWER_MS);
    hand_judge_outcome(h, rc, &err);
    return rc;
}

/* What could not be released runs out. */
void hand_releases(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int rc = release_once(h, lock, name);

    if (rc == SQLOCK_EUNSURE && in_100(70)) {
        hand_settles(h, lock, name);
        return;
    }
    for (int i = 1; i < RELEASES && rc != 0 && rc != SQLOCK_ELOST; i++)
        rc = release_once(h, lock, name);
}

void hand_uses(struct hand *h, sqlock_lock **lock, uint32_t name)
{
    if (in_100(30))
        read_held(h, *lock, name);
    work(h, *lock, name);
    while (world.kinds && name == SIM_SHARED && sqlock_is_held(*lock) && in_100(30))
        hand_changes(h, lock, name);
    if (sqlock_lock_state(*lock) == SQLOCK_RELEASED)
        return; /* an upgrade gave it back */
    if (in_100(15))
        renew(h, *lock, name);
    if (!is_told(*lock))
        hand_settles(h, *lock, name);
    if (in_100(50))
        read_held(h, *lock, name);
    if (in_100(98))
        hand_releases(h, *lock, name);
}
