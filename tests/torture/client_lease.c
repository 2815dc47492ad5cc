/* Leases by the public API: three ways to one, what is done with it, and its end. */
#include "tests/lib/db.h"
#include "tests/torture/client_hand.h"
#include <sqlock/admin.h>
#include <sqlock/async.h>

#include <inttypes.h>
#include <poll.h>

enum {
    SETTLE_MS = 1000, /* one asking */
    SETTLES = 30,     /* so many of them, while the database is away; */
    SETTLES_LAST = 5, /* or when the client's time is up */
    RELEASES = 3
};

/* ---- what was unsure ------------------------------------------------------------------------- */

static bool tells(sqlock_lock *lock)
{
    return sqlock_lock_state(lock) != SQLOCK_UNSURE;
}

static bool sends_on(const struct hand *h, int asked)
{
    return asked < (atomic_load(&h->crew->over) ? SETTLES_LAST : SETTLES);
}

/* Until it is told, or for half a minute. True: it is ours. */
static bool settle(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    for (int i = 0; sends_on(h, i) && !tells(lock); i++) {
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

static void read_held(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int64_t deadline_us;
    int outcome;

    hand_fetch(h, V_HELD, name, sqlock_lock_token(lock));
    outcome = lock_look(lock, &deadline_us);
    hand_answer(h, outcome, deadline_us, outcome == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
}

/* As an event loop does it. */
static int finish_op(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
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

    return rc != 0 ? rc : finish_op(op, NULL, err);
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
    if (rc != SQLOCK_ESTATE || tells(lock))
        hand_explain(h, rc, &err, "renew");
}

static void hold_long(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    for (int i = 0; i < 8; i++) {
        hand_sleep(h, h->crew->plan.lease_ms / 4);
        read_held(h, lock, name);
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
        rc = finish_op(op, NULL, &err);
    hand_done(h, rc, &err, 0, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    return rc;
}

static bool told(int rc)
{
    return rc == 0 || rc == SQLOCK_ELOST || rc == SQLOCK_EGUARDED;
}

/* What could not be released runs out. */
static void release(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int rc = release_once(h, lock, name);

    if (rc == SQLOCK_EUNSURE && !hand_dares(h, CHANCE_GIVE_BACK)) {
        settle(h, lock, name);
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

static void use(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual)
{
    bool released;

    if (hand_dares(h, CHANCE_HELD))
        read_held(h, lock, name);
    released = work(h, lock, name, manual);
    if (!released && hand_dares(h, CHANCE_RENEW))
        renew(h, lock, name);
    if (!tells(lock))
        settle(h, lock, name);
    if (!released && hand_dares(h, CHANCE_HELD))
        read_held(h, lock, name);
    if (!hand_dares(h, CHANCE_FORGET))
        release(h, lock, name);
    sqlock_lock_free(lock);
}

/* ---- getting it ------------------------------------------------------------------------------ */

static void break_it(struct hand *h, uint32_t name, int64_t token)
{
    sqlock_error err = {0};
    int rc;

    hand_fetch(h, V_BREAK, name, token);
    rc = sqlock_break(h->m, text("n%" PRIu32, name), token, &err);
    hand_done(h, rc, &err, 0, 0);
}

static int acquire_by_loop(struct hand *h, const char *name, const sqlock_acquire_opts *opts,
                           sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_acquire_start(h->m, name, opts, &op, err);

    if (rc == 0 && hand_dares(h, CHANCE_CANCEL)) {
        hand_nap((int64_t)dice_below(&h->dice, 10));
        sqlock_op_cancel(op);
    }
    return rc != 0 ? rc : finish_op(op, out_lock, err);
}

void lease_take(struct hand *h, int way)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_holder holder = {.size = sizeof holder};
    const bool manual = hand_dares(h, CHANCE_MANUAL);
    const uint32_t name = hand_name(h);
    const char *word = text("n%" PRIu32, name);
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int64_t deadline_us = 0;
    int rc;

    opts.wait_ms = way == 0 ? 0 : (int32_t)dice_between(&h->dice, 1, h->crew->plan.lease_ms);
    opts.lease_ms = (int32_t)h->crew->plan.lease_ms;
    opts.flags = manual ? SQLOCK_NO_RENEW : 0;
    opts.cancel = way == 0 ? NULL : h->crew->cancel;
    opts.holder = &holder;
    hand_fetch(h, V_ACQUIRE, name, 0);
    rc = way == 2 ? acquire_by_loop(h, word, &opts, &lock, &err)
                  : sqlock_acquire(h->m, word, &opts, &lock, &err);
    if (rc == 0) {
        h->at->token = sqlock_lock_token(lock);
        deadline_us = sqlock_lock_deadline_us(lock);
    } else if (rc == SQLOCK_EBUSY && holder.token > 0) {
        h->at->token = holder.token;
        deadline_us = sqlock_now_us() + (holder.left_ms + 1) * 1000;
    }
    hand_done(h, rc, &err, deadline_us, way);
    if (rc == SQLOCK_EBUSY && holder.token > 0 && hand_dares(h, CHANCE_BREAK))
        break_it(h, name, holder.token);
    if (lock == NULL)
        return;
    if (rc == 0 || (!hand_dares(h, CHANCE_GIVE_BACK) && settle(h, lock, name))) {
        use(h, lock, name, manual);
        return;
    }
    release(h, lock, name);
    sqlock_lock_free(lock);
}
