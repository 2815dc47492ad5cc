/* What is done with a lease, and its end. */
#include "tests/lib/db.h"
#include "tests/torture/client_hand.h"

#include <poll.h>

enum {
    SETTLE_MS = 1000, /* one asking */
    SETTLES = 30,     /* so many of them, while the database is away; */
    SETTLES_LAST = 5, /* or when the client's time is up */
    RELEASES = 3
};

/* ---- what was unsure ------------------------------------------------------------------------- */

bool lease_tells(sqlock_lock *lock)
{
    return sqlock_lock_state(lock) != SQLOCK_UNSURE;
}

static bool sends_on(const struct hand *h, int asked)
{
    return asked < (atomic_load(&h->crew->over) ? SETTLES_LAST : SETTLES);
}

bool lease_settle(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    for (int i = 0; sends_on(h, i) && !lease_tells(lock); i++) {
        sqlock_error err = {0};
        int rc;

        hand_fetch(h, V_SETTLE, name, sqlock_lock_token(lock));
        rc = sqlock_settle(lock, SETTLE_MS, &err);
        h->at->token = sqlock_lock_token(lock);
        if (sqlock_lock_state(lock) == SQLOCK_RELEASED)
            hand_answer(h, rc, 0, SQLOCK_WHY_RELEASED);
        else if (rc == 0)
            hand_answer(h, rc, sqlock_lock_deadline_us(lock), 0);
        else if (sqlock_lock_state(lock) == SQLOCK_LOST)
            hand_answer(h, SQLOCK_ELOST, 0, sqlock_lock_why(lock));
        else
            hand_answer(h, rc, 0, 0);
        if (!hand_explain(h, rc, &err, "settle"))
            break;
    }
    return sqlock_is_held(lock);
}

/* ---- while it is held ------------------------------------------------------------------------ */

void lease_read(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int64_t deadline_us;
    int outcome;

    hand_fetch(h, V_HELD, name, sqlock_lock_token(lock));
    outcome = lock_look(lock, &deadline_us);
    hand_answer(h, outcome, deadline_us, outcome == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
}

int lease_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    struct pollfd fd = {.fd = sqlock_op_fd(op), .events = POLLIN};

    while (!sqlock_op_step(op))
        poll(&fd, 1, 1000);
    return sqlock_op_finish(op, out_lock, err);
}

static int renew_by_loop(sqlock_lock *lock, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_renew_start(lock, &op, err);

    return rc != 0 ? rc : lease_finish(op, NULL, err);
}

static void renew(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    sqlock_error err = {0};
    int64_t deadline_us = 0;
    int rc;

    hand_fetch(h, V_RENEW, name, sqlock_lock_token(lock));
    rc = hand_dares(h, CHANCE_START) ? renew_by_loop(lock, &err) : sqlock_renew(lock, &err);
    if (rc == 0)
        deadline_us = sqlock_lock_deadline_us(lock);
    hand_answer(h, rc, deadline_us, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    /* Under SQLite a guarding transaction that outlives the lease leaves it unsure. */
    if (rc != SQLOCK_ESTATE || lease_tells(lock))
        hand_explain(h, rc, &err, "renew");
}

static void hold_long(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    for (int i = 0; i < 8; i++) {
        hand_sleep(h, h->crew->plan.lease_ms / 4);
        lease_read(h, lock, name);
    }
}

static bool releases_early(struct hand *h)
{
    return hand_dares(h, CHANCE_EARLY) &&
           (!h->crew->app->one_writer || dice_below(&h->dice, 10) == 0);
}

/* True: it has been released in it. */
static bool work(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual)
{
    if (manual && hand_dares(h, CHANCE_LATE)) {
        hand_oversleep(h);
        rows_guarded(h, lock, name, GUARDED_AT_ONCE);
    } else if (hand_dares(h, CHANCE_STALE)) {
        rows_guarded(h, lock, name, GUARDED_SLOWLY);
    } else if (hand_dares(h, CHANCE_GUARDED)) {
        bool early = releases_early(h);

        rows_guarded(h, lock, name, early ? GUARDED_RELEASED : GUARDED_AT_ONCE);
        return early;
    } else if (!manual && hand_dares(h, CHANCE_LONG)) {
        hold_long(h, lock, name);
    } else {
        hand_nap((int64_t)dice_below(&h->dice, 4));
    }
    return false;
}

/* ---- its end --------------------------------------------------------------------------------- */

static int release_once(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    sqlock_error err = {0};
    sqlock_op *op = NULL;
    int rc;

    hand_fetch(h, V_RELEASE, name, sqlock_lock_token(lock));
    if (!hand_dares(h, CHANCE_START))
        rc = sqlock_release(lock, &err);
    else if ((rc = sqlock_release_start(lock, &op, &err)) == 0)
        rc = lease_finish(op, NULL, &err);
    hand_done(h, rc, &err, 0, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    return rc;
}

static bool told(int rc)
{
    return rc == 0 || rc == SQLOCK_ELOST || rc == SQLOCK_EGUARDED;
}

/* What could not be released runs out. */
void lease_release(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int rc = release_once(h, lock, name);

    if (rc == SQLOCK_EUNSURE && !hand_dares(h, CHANCE_GIVE_BACK)) {
        lease_settle(h, lock, name);
        return;
    }
    for (int i = 1; i < RELEASES && !told(rc) && !atomic_load(&h->crew->failed); i++)
        rc = release_once(h, lock, name);
}

void lease_release_beside(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    h->at = &h->beside;
    release_once(h, lock, name);
    h->at = &h->now;
}

/* Unless it was released in the work. */
void lease_use(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual)
{
    bool released;

    if (hand_dares(h, CHANCE_HELD))
        lease_read(h, lock, name);
    released = work(h, lock, name, manual);
    if (!released && hand_dares(h, CHANCE_RENEW))
        renew(h, lock, name);
    if (!lease_tells(lock))
        lease_settle(h, lock, name);
    if (!released && hand_dares(h, CHANCE_HELD))
        lease_read(h, lock, name);
    if (!released && hand_dares(h, CHANCE_CHANGE))
        released = lease_change(h, &lock, name);
    if (!released && hand_dares(h, CHANCE_SWAP)) {
        lease_swap(h, lock, name, manual);
        return;
    }
    if (!hand_dares(h, CHANCE_FORGET))
        lease_release(h, lock, name);
    sqlock_lock_free(lock);
}
