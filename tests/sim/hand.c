/* Tasks of clients: they take locks by the public API, use them and give them back. */
#include <poll.h>
#include <stdio.h>

#include "tests/lib/db.h"
#include "tests/sim/hand.h"

/* ---- getting it ------------------------------------------------------------------------------ */

static void break_it(struct hand *h, const char *word, uint32_t name, int64_t token)
{
    sqlock_error err = {0};
    int rc;

    hand_sends(h, V_BREAK, name, token);
    rc = sqlock_break(h->crew->m, word, token, &err);
    hand_learns(h, rc, 0, 0);
    hand_judge_time(h, h->crew->request_ms + ANSWER_MS);
    hand_judge_outcome(h, rc, &err);
}

int hand_finishes(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    while (!sqlock_op_step(op))
        sqlock_wait_fd(sqlock_op_fd(op), POLLIN, -1, TIME_NEVER);
    return sqlock_op_finish(op, out_lock, err);
}

void hand_cancel_ends(struct hand *h, sqlock_cancel *cancel)
{
    h->cancel = NULL;
    while (h->firing)
        task_wait(&h->firing, NULL, TIME_NEVER);
    sqlock_cancel_free(cancel);
}

enum way { WAY_TRY, WAY_WAIT, WAY_LOOP, WAY_FOREVER };

static int acquire_by_loop(struct hand *h, const char *word, const sqlock_acquire_opts *opts,
                           sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_acquire_start(h->crew->m, word, opts, &op, err);

    if (rc == 0 && in_100(10)) {
        task_sleep(chance_between(0, 10000));
        h->fired = true;
        h->crew->cancelled_us = world.now;
        sqlock_op_cancel(op);
    }
    return rc != 0 ? rc : hand_finishes(op, out_lock, err);
}

static int acquire(struct hand *h, enum way way, int64_t mode, const char *word,
                   sqlock_holder *holder, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_cancel *cancel = NULL;
    int rc;

    opts.wait_ms = way == WAY_TRY       ? 0
                   : way == WAY_FOREVER ? SQLOCK_WAIT_FOREVER
                                        : (int32_t)chance_between(1, h->crew->lease_ms);
    opts.lease_ms = h->crew->lease_ms;
    opts.mode = mode;
    opts.flags = h->manual ? SQLOCK_NO_RENEW : 0;
    opts.holder = holder;
    opts.on_event = hand_hears;
    opts.user = h;
    h->fired = false;
    if (way != WAY_TRY && (rc = sqlock_cancel_new(&cancel, err)) != 0)
        return rc;
    opts.cancel = h->cancel = cancel;
    rc = way == WAY_LOOP ? acquire_by_loop(h, word, &opts, out_lock, err)
                         : sqlock_acquire(h->crew->m, word, &opts, out_lock, err);
    h->wait_ms = opts.wait_ms;
    hand_cancel_ends(h, cancel);
    return rc;
}

/* What it learned: the grant, or who has the lock. */
static void hand_learns_of_acquire(struct hand *h, enum way way, int rc, sqlock_lock *lock,
                                   const sqlock_holder *holder)
{
    int64_t deadline_us = 0;

    if (rc == 0) {
        h->now.token = sqlock_lock_token(lock);
        deadline_us = sqlock_lock_deadline_us(lock);
    } else if (rc == SQLOCK_EBUSY && holder->token > 0) {
        h->now.token = holder->token;
        deadline_us = sqlock_now_us() + (holder->left_ms + 1) * 1000;
    }
    hand_learns(h, rc, deadline_us, way == WAY_TRY ? 0 : way == WAY_LOOP ? 2 : 1);
    if (way != WAY_FOREVER)
        hand_judge_time(h, (way == WAY_TRY ? h->crew->request_ms : h->wait_ms) + ANSWER_MS);
}

int64_t hand_mode(struct hand *h, uint32_t name)
{
    h->shares = world.shares && name == SIM_SHARED && in_100(60);
    if (world.kinds && name == SIM_SLOTS)
        return SQLOCK_SLOTS(world.slots);
    return h->shares ? SQLOCK_SHARED : SQLOCK_EXCLUSIVE;
}

static void take(struct hand *h, enum way way)
{
    const uint32_t name = (uint32_t)dice_below(&world.chance, world.names);
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    char word[16];
    int64_t mode;
    int rc;

    snprintf(word, sizeof word, "n%u", name);
    mode = hand_mode(h, name);
    h->manual = in_100(40);
    h->reported_lost_us = h->told_us = 0;
    hand_sends(h, h->shares ? V_SHARE : V_ACQUIRE, name, 0);
    h->granted_us = h->now.invoke_us;
    rc = acquire(h, way, mode, word, &holder, &lock, &err);
    hand_learns_of_acquire(h, way, rc, lock, &holder);
    hand_judge_outcome(h, rc, &err);
    h->fired = false;
    if (rc == SQLOCK_EBUSY && holder.token > 0 && in_100(1))
        break_it(h, word, name, holder.token);
    if (lock == NULL)
        return;
    if (rc == 0 || (in_100(80) && hand_settles(h, lock, name)))
        hand_uses(h, &lock, name);
    else
        hand_releases(h, lock, name);
    sqlock_lock_free(lock);
}

static void reap(struct hand *h)
{
    sqlock_reap_opts opts = SQLOCK_REAP_OPTS_INIT;
    sqlock_reap_report report = {.size = sizeof report};
    sqlock_error err = {0};
    int rc;

    opts.grace_ms = 0;
    opts.pause_ms = 0;
    hand_sends(h, V_REAP, 0, 0);
    rc = sqlock_reap(h->crew->m, &opts, &report, &err);
    hand_learns(h, rc, 0, report.cleared + report.pruned);
    hand_judge_outcome(h, rc, &err);
}

/* ---- its life -------------------------------------------------------------------------------- */

/* Many begin at the same times, so that they meet, and batches form. */
static void hand_thinks(void)
{
    const int64_t beat = SIM_SECOND;

    if (in_100(60))
        task_sleep(beat - world.now % beat + chance_between(0, 2000));
    else
        task_sleep(chance_between(0, 2 * world.think_us));
}

void *hand_main(void *arg)
{
    struct hand *h = arg;

    while (!world.over) {
        int step = (int)dice_below(&world.chance, 100);

        if (step < 1)
            reap(h);
        else if (world.lists && step < 11)
            hand_takes_two(h);
        else
            take(h, step < 50   ? WAY_TRY
                    : step < 75 ? WAY_WAIT
                    : step < 92 ? WAY_LOOP
                                : WAY_FOREVER);
        hand_thinks();
    }
    return NULL;
}

void hand_cancel(struct hand *h)
{
    if (h->cancel == NULL)
        return;
    h->firing = h->fired = true;
    h->crew->cancelled_us = world.now;
    sqlock_cancel_fire(h->cancel);
    h->firing = false;
    task_wake(&h->firing);
}
