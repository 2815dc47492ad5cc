/* Tasks of clients: they take locks by the public API, use them and give them back. They write down
 * what they sent and learned, and judge what only exact time shows. */
#include <poll.h>
#include <stdio.h>

#include "tests/lib/check.h"
#include "tests/lib/db.h"
#include "tests/sim/hand.h"

enum { SETTLE_MS = 1000, SETTLES = 30, RELEASES = 3 };
/* What the library may add to a wait, and what a task may be kept waiting in a calm process. */
enum { ANSWER_MS = 50, SLACK_MS = 100, WAIT_LEAST_MS = 500 };

static bool in_100(int n)
{
    return (int)dice_below(&world.chance, 100) < n;
}

/* ---- what is sent and answered --------------------------------------------------------------- */

static void hand_sends(struct hand *h, int verb, uint32_t name, int64_t token)
{
    h->now.verb = verb;
    h->now.name = name;
    h->now.token = token;
    h->now.outcome = 0;
    h->now.deadline_us = h->now.value = 0;
    h->at = record_invoke(&h->now);
}

static void hand_learns(struct hand *h, int outcome, int64_t deadline_us, int64_t value)
{
    h->now.outcome = outcome;
    h->now.deadline_us = deadline_us;
    h->now.value = value;
    if (deadline_us > 0)
        h->told_us = deadline_us;
    record_return(h->at, &h->now);
}

static bool hand_is_calm(const struct hand *h, int64_t since)
{
    return h->crew->process->calm_since <= since;
}

/* P8: it ends on time, whatever the network and the server do. */
static void hand_judge_time(const struct hand *h, int32_t limit_ms)
{
    int64_t took = h->now.return_us - h->now.invoke_us;

    if (hand_is_calm(h, h->now.invoke_us) && took > (limit_ms + SLACK_MS) * INT64_C(1000))
        record_breach(&h->now, "a call took %lld us, and not %d ms at most", (long long)took,
                      limit_ms);
}

/* In peace each request has its answer, unless it has too little time for one. Then it may be
 * unsure, and settled in vain as long as it may arrive. Who cancels a request makes those unsure
 * that travel with it, if their time ends before they learn more. */
static void hand_judge_outcome(const struct hand *h, int rc, const sqlock_error *err)
{
    bool short_of_time = event_acquires(&h->now) && h->wait_ms > 0 && h->wait_ms < WAIT_LEAST_MS;
    bool settles = h->now.verb == V_SETTLE || (h->now.verb == V_RELEASE && h->now.token == 0);

    if (rc == 0 || rc == SQLOCK_EBUSY || rc == SQLOCK_ELOST || !record_in_peace(&h->now))
        return;
    if (short_of_time || settles)
        return;
    if (h->fired && rc == SQLOCK_ECANCELLED)
        return;
    if (rc == SQLOCK_EUNSURE && h->crew->cancelled_us >= h->now.invoke_us)
        return;
    record_breach(&h->now, "in peace a request failed: %s", err->text);
}

/* A lease that is renewed does not run out in peace. */
static void hand_judge_loss(const struct hand *h, int why)
{
    if (!h->manual && why == SQLOCK_WHY_EXPIRED && h->granted_us >= world.trouble_until)
        record_breach(&h->now, "in peace a lease ran out that is renewed");
}

/* ---- what a lease says of itself ------------------------------------------------------------- */

/* When the end is to be reported at the latest. A server that took over may lack the commit that
 * made a lease of the lock's offer, and knows the offer's end: that shows when it answers. Until
 * then the holder may believe what it was told. */
static int64_t hand_end_us(const struct hand *h, int64_t deadline)
{
    bool may_lack = world.replaced_us >= h->granted_us;

    return may_lack && deadline < h->told_us ? h->told_us : deadline;
}

/* P6: the holder learns of the end at the deadline. */
static void on_event(sqlock_lock *lock, sqlock_state state, void *user)
{
    struct hand *h = user;
    int64_t deadline = sqlock_lock_deadline_us(lock), now = sqlock_now_us();

    if (state != SQLOCK_LOST)
        return;
    h->reported_lost_us = now;
    if (sqlock_lock_why(lock) == SQLOCK_WHY_EXPIRED && hand_is_calm(h, deadline) &&
        now > hand_end_us(h, deadline) + SLACK_MS * INT64_C(1000))
        record_breach(&h->now, "a loss was reported %lld us late", (long long)(now - deadline));
}

static void hand_judge_report(struct hand *h, sqlock_lock *lock)
{
    int64_t deadline = sqlock_lock_deadline_us(lock), now = sqlock_now_us();

    if (sqlock_lock_state(lock) == SQLOCK_LOST && sqlock_lock_why(lock) == SQLOCK_WHY_EXPIRED &&
        hand_is_calm(h, deadline) && now > deadline + 2 * SLACK_MS * INT64_C(1000) &&
        h->reported_lost_us == 0)
        record_breach(&h->now, "a loss was not reported");
}

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
static bool settle(struct hand *h, sqlock_lock *lock, uint32_t name)
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

static int finish_op(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    while (!sqlock_op_step(op))
        sqlock_wait_fd(sqlock_op_fd(op), POLLIN, -1, TIME_NEVER);
    return sqlock_op_finish(op, out_lock, err);
}

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
        rc = finish_op(op, NULL, &err);
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
        rc = finish_op(op, NULL, &err);
    hand_learns(h, rc, 0, rc == SQLOCK_ELOST ? sqlock_lock_why(lock) : 0);
    if (rc == SQLOCK_ELOST)
        hand_judge_loss(h, (int)sqlock_lock_why(lock));
    hand_judge_time(h, h->crew->request_ms + ANSWER_MS);
    hand_judge_outcome(h, rc, &err);
    return rc;
}

/* What could not be released runs out. */
static void release(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    int rc = release_once(h, lock, name);

    if (rc == SQLOCK_EUNSURE && in_100(70)) {
        settle(h, lock, name);
        return;
    }
    for (int i = 1; i < RELEASES && rc != 0 && rc != SQLOCK_ELOST; i++)
        rc = release_once(h, lock, name);
}

static void use(struct hand *h, sqlock_lock *lock, uint32_t name)
{
    if (in_100(30))
        read_held(h, lock, name);
    work(h, lock, name);
    if (in_100(15))
        renew(h, lock, name);
    if (!is_told(lock))
        settle(h, lock, name);
    if (in_100(50))
        read_held(h, lock, name);
    if (in_100(98))
        release(h, lock, name);
}

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
    return rc != 0 ? rc : finish_op(op, out_lock, err);
}

static int acquire(struct hand *h, enum way way, bool shares, const char *word,
                   sqlock_holder *holder, sqlock_lock **out_lock, sqlock_error *err)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_cancel *cancel = NULL;
    int rc;

    opts.wait_ms = way == WAY_TRY       ? 0
                   : way == WAY_FOREVER ? SQLOCK_WAIT_FOREVER
                                        : (int32_t)chance_between(1, h->crew->lease_ms);
    opts.lease_ms = h->crew->lease_ms;
    opts.mode = shares ? SQLOCK_SHARED : SQLOCK_EXCLUSIVE;
    opts.flags = h->manual ? SQLOCK_NO_RENEW : 0;
    opts.holder = holder;
    opts.on_event = on_event;
    opts.user = h;
    h->fired = false;
    if (way != WAY_TRY && (rc = sqlock_cancel_new(&cancel, err)) != 0)
        return rc;
    opts.cancel = h->cancel = cancel;
    rc = way == WAY_LOOP ? acquire_by_loop(h, word, &opts, out_lock, err)
                         : sqlock_acquire(h->crew->m, word, &opts, out_lock, err);
    h->wait_ms = opts.wait_ms;
    h->cancel = NULL;
    while (h->firing)
        task_wait(&h->firing, NULL, TIME_NEVER);
    sqlock_cancel_free(cancel);
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

static void take(struct hand *h, enum way way)
{
    const uint32_t name = (uint32_t)dice_below(&world.chance, world.names);
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    char word[16];
    bool shares;
    int rc;

    snprintf(word, sizeof word, "n%u", name);
    shares = world.shares && name == 0 && in_100(60);
    h->manual = in_100(40);
    h->reported_lost_us = h->told_us = 0;
    hand_sends(h, shares ? V_SHARE : V_ACQUIRE, name, 0);
    h->granted_us = h->now.invoke_us;
    rc = acquire(h, way, shares, word, &holder, &lock, &err);
    hand_learns_of_acquire(h, way, rc, lock, &holder);
    hand_judge_outcome(h, rc, &err);
    h->fired = false;
    if (rc == SQLOCK_EBUSY && holder.token > 0 && in_100(1))
        break_it(h, word, name, holder.token);
    if (lock == NULL)
        return;
    if (rc == 0 || (in_100(80) && settle(h, lock, name)))
        use(h, lock, name);
    else
        release(h, lock, name);
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
