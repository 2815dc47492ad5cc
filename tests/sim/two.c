/* Two names at once: all or none, or as many as possible. In the history another thread of the task
 * asked for the second one. */
#include <stdio.h>

#include <sqlock/many.h>

#include "tests/lib/db.h"
#include "tests/sim/hand.h"

struct two {
    struct hand *h;
    uint32_t names[2];
    char words[2][16];
    int64_t modes[2];
    sqlock_lock *locks[2];
    bool all;
};

static void two_sends(struct two *t, int i, int verb)
{
    hand_sends(t->h, verb, t->names[i], t->locks[i] != NULL ? sqlock_lock_token(t->locks[i]) : 0);
}

/* For each name, the second one aside. */
static void two_each(struct two *t, void (*fn)(struct two *t, int i))
{
    fn(t, 0);
    hand_steps_aside(t->h);
    fn(t, 1);
    hand_steps_aside(t->h);
}

static void two_asks(struct two *t, int i)
{
    two_sends(t, i, t->modes[i] == SQLOCK_SHARED ? V_SHARE : V_ACQUIRE);
}

/* If one was refused, the other one was given back, as if it had been cancelled. */
static int two_code(const struct two *t, int code)
{
    return t->all && code == SQLOCK_EBUSY ? SQLOCK_ECANCELLED : code;
}

static void two_hears(struct two *t, int i, int code)
{
    struct hand *h = t->h;
    int64_t deadline_us = 0;

    if (code == 0) {
        h->now.token = sqlock_lock_token(t->locks[i]);
        deadline_us = sqlock_lock_deadline_us(t->locks[i]);
    }
    hand_learns(h, two_code(t, code), deadline_us, 1);
}

static int two_acquire(struct two *t, int codes[2], sqlock_error *err)
{
    const char *names[] = {t->words[0], t->words[1]};
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_cancel *cancel = NULL;
    struct hand *h = t->h;
    int rc;

    h->wait_ms = opts.wait_ms = in_100(40) ? 0 : (int32_t)chance_between(1, h->crew->lease_ms);
    opts.lease_ms = h->crew->lease_ms;
    opts.modes = t->modes;
    opts.flags = in_100(40) ? SQLOCK_NO_RENEW : 0;
    h->fired = false;
    if (h->wait_ms > 0 && (codes[0] = codes[1] = sqlock_cancel_new(&cancel, err)) != 0)
        return codes[0];
    opts.cancel = h->cancel = cancel;
    if (t->all)
        rc = codes[0] = codes[1] = sqlock_acquire_all(h->crew->m, names, 2, &opts, t->locks, err);
    else
        rc = sqlock_acquire_each(h->crew->m, names, 2, &opts, t->locks, codes, err);
    hand_cancel_ends(h, cancel);
    return rc;
}

/* Behind a wait it may need the time of a request to make leases long enough, and to give back what
 * it took. */
static int32_t two_limit(const struct two *t)
{
    const struct hand *h = t->h;

    return h->wait_ms > 0 ? h->wait_ms + 2 * h->crew->request_ms
                          : (t->all ? 2 : 1) * h->crew->request_ms;
}

static void two_take(struct two *t)
{
    struct hand *h = t->h;
    sqlock_error err = {0};
    int codes[2], rc;

    two_each(t, two_asks);
    rc = two_acquire(t, codes, &err);
    two_hears(t, 0, codes[0]);
    hand_judge_time(h, two_limit(t) + ANSWER_MS);
    hand_judge_outcome(h, rc, &err);
    hand_steps_aside(h);
    two_hears(t, 1, codes[1]);
    hand_steps_aside(h);
    h->fired = false;
}

static void two_look(struct two *t, int i)
{
    int64_t deadline_us;
    int outcome;

    if (t->locks[i] == NULL)
        return;
    if (sqlock_lock_state(t->locks[i]) == SQLOCK_UNSURE) {
        hand_settles(t->h, t->locks[i], t->names[i]);
        return;
    }
    two_sends(t, i, V_HELD);
    outcome = lock_look(t->locks[i], &deadline_us);
    hand_learns(t->h, outcome, deadline_us,
                outcome == SQLOCK_ELOST ? sqlock_lock_why(t->locks[i]) : 0);
}

static void two_gives(struct two *t, int i)
{
    if (t->locks[i] != NULL)
        two_sends(t, i, V_RELEASE);
}

static void two_end(struct two *t)
{
    const bool had[] = {t->locks[0] != NULL, t->locks[1] != NULL};
    struct hand *h = t->h;
    sqlock_error err = {0};
    int codes[2] = {0}, rc;

    two_each(t, two_gives);
    rc = sqlock_end_each(t->locks, 2, codes, &err);
    if (had[0]) {
        hand_learns(h, codes[0], 0, 0);
        hand_judge_time(h, h->crew->request_ms + ANSWER_MS);
        hand_judge_outcome(h, rc, &err);
    }
    hand_steps_aside(h);
    if (had[1])
        hand_learns(h, codes[1], 0, 0);
    hand_steps_aside(h);
}

void hand_takes_two(struct hand *h)
{
    struct two t = {.h = h, .all = in_100(70)};

    t.names[0] = (uint32_t)dice_below(&world.chance, world.names);
    t.names[1] = (t.names[0] + 1) % world.names;
    for (int i = 0; i < 2; i++) {
        t.modes[i] = hand_mode(h, t.names[i]);
        snprintf(t.words[i], sizeof t.words[i], "n%u", t.names[i]);
    }
    two_take(&t);
    two_each(&t, two_look);
    task_sleep(chance_between(0, 20000));
    two_each(&t, two_look);
    two_end(&t);
}
