/* Leases by the public API: three ways to one, two at once, one in the place of another. */
#include "tests/torture/client_hand.h"
#include <sqlock/admin.h>
#include <sqlock/many.h>

#include <inttypes.h>
#include <poll.h>
#include <string.h>

enum { PLACE_MS = 5 /* between two looks at a place */ };

/* ---- getting it ------------------------------------------------------------------------------ */

static void break_it(struct hand *h, uint32_t name, int64_t token)
{
    sqlock_error err = {0};
    int rc;

    hand_fetch(h, V_BREAK, name, token);
    rc = sqlock_break(h->m, text("n%" PRIu32, name), token, &err);
    hand_done(h, rc, &err, 0, 0);
}

/* When it has got a place, or has lost that and got another one. A thread writes what it is at by
 * its own number, and this beside it. */
static void note_place(struct hand *h, sqlock_op *op, int64_t *last)
{
    const int64_t place = sqlock_op_place(op);

    if (place > *last) {
        h->at = &h->beside;
        hand_fetch(h, V_PLACE, h->now.name, 0);
        hand_answer(h, 0, h->now.invoke_us, place);
        h->at = &h->now;
    }
    if (place > 0)
        *last = place;
}

static int wait_for_grant(struct hand *h, sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    struct pollfd fd = {.fd = sqlock_op_fd(op), .events = POLLIN};
    int64_t place = 0;

    while (!sqlock_op_step(op)) {
        note_place(h, op, &place);
        poll(&fd, 1, PLACE_MS);
    }
    return sqlock_op_finish(op, out_lock, err);
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
    return rc != 0 ? rc : wait_for_grant(h, op, out_lock, err);
}

static sqlock_acquire_opts take_opts(struct hand *h, bool waits, bool manual, sqlock_holder *holder)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    *holder = (sqlock_holder){.size = sizeof *holder};
    opts.wait_ms = waits ? (int32_t)dice_between(&h->dice, 1, h->crew->plan.lease_ms) : 0;
    opts.lease_ms = (int32_t)h->crew->plan.lease_ms;
    opts.flags = manual ? SQLOCK_NO_RENEW : 0;
    opts.cancel = waits ? h->crew->cancel : NULL;
    opts.holder = holder;
    return opts;
}

/* What the acquire said, and what is done with it. */
static void taken(struct hand *h, sqlock_lock *lock, int rc, const sqlock_holder *holder,
                  const sqlock_error *err, int way)
{
    int64_t deadline_us = 0;

    if (rc == 0) {
        h->at->token = sqlock_lock_token(lock);
        deadline_us = sqlock_lock_deadline_us(lock);
    } else if (rc == SQLOCK_EBUSY && holder != NULL && holder->token > 0) {
        h->at->token = holder->token;
        deadline_us = sqlock_now_us() + (holder->left_ms + 1) * 1000;
    }
    hand_done(h, rc, err, deadline_us, way);
}

static void go_on(struct hand *h, sqlock_lock *lock, uint32_t name, int rc, bool manual)
{
    if (lock == NULL)
        return;
    if (rc == 0 || (!hand_dares(h, CHANCE_GIVE_BACK) && lease_settle(h, lock, name))) {
        lease_use(h, lock, name, manual);
        return;
    }
    lease_release(h, lock, name);
    sqlock_lock_free(lock);
}

/* The old lock's handle is gone then: what is unsure of its release stays so. */
void lease_swap(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual)
{
    const bool waits = dice_below(&h->dice, 2) == 0;
    const uint32_t next = (name + 1) % hand_names(h);
    sqlock_holder holder;
    sqlock_acquire_opts opts = take_opts(h, waits, manual, &holder);
    sqlock_error err = {0};
    int released = 0, rc;

    if (next == name) {
        lease_release(h, lock, name);
        sqlock_lock_free(lock);
        return;
    }
    h->at = &h->beside;
    hand_fetch(h, V_RELEASE, name, sqlock_lock_token(lock));
    h->at = &h->now;
    h->shares = false;
    hand_fetch(h, V_ACQUIRE, next, 0);
    rc = sqlock_swap(h->m, &lock, text("n%" PRIu32, next), &opts, &released, &err);
    taken(h, lock, rc, &holder, &err, waits);
    h->at = &h->beside;
    hand_answer(h, released, 0, 0);
    h->at = &h->now;
    go_on(h, lock, next, rc, manual);
}

/* Two names at once. Of the second one it is told as if another thread had it. */
struct two {
    struct hand *h;
    struct event *at[2];
    uint32_t names[2];
    int64_t modes[2];
    sqlock_lock *locks[2];
};

static int64_t two_mode(struct hand *h, uint32_t name)
{
    if (name >= hand_names(h))
        return SQLOCK_SLOTS(CLIENT_SLOTS);
    return lease_is_shared(name) && hand_dares(h, CHANCE_SHARE) ? SQLOCK_SHARED : SQLOCK_EXCLUSIVE;
}

/* What all or none says of one name. If another one was refused, this one may have been taken, and
 * was given back: it is over, as if by a cancel. */
static int code_of_all(int rc, const sqlock_error *err, const char *name)
{
    const char *of = strstr(err->text, text("\"%s\"", name));

    return (rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED) && of == NULL ? SQLOCK_ECANCELLED : rc;
}

static void two_take(struct two *t, int way)
{
    struct hand *h = t->h;
    const bool all = dice_below(&h->dice, 2) == 0;
    char texts[2][16];
    const char *names[] = {texts[0], texts[1]};
    sqlock_holder holder;
    sqlock_acquire_opts opts = take_opts(h, way != 0, true, &holder);
    sqlock_error err = {0};
    int codes[2] = {0}, rc;

    opts.modes = t->modes;
    for (int i = 0; i < 2; i++) {
        snprintf(texts[i], sizeof texts[i], "n%" PRIu32, t->names[i]);
        t->modes[i] = two_mode(h, t->names[i]);
        h->at = t->at[i];
        hand_fetch(h, t->modes[i] == SQLOCK_SHARED ? V_SHARE : V_ACQUIRE, t->names[i], 0);
    }
    rc = all ? sqlock_acquire_all(h->m, names, 2, &opts, t->locks, &err)
             : sqlock_acquire_each(h->m, names, 2, &opts, t->locks, codes, &err);
    for (int i = 0; i < 2; i++) {
        h->at = t->at[i];
        if (all)
            codes[i] = code_of_all(rc, &err, names[i]);
        taken(h, t->locks[i], codes[i], NULL, &err, way); /* whose holder was told? */
    }
}

static void two_use(struct two *t)
{
    struct hand *h = t->h;

    for (int i = 0; i < 2; i++) {
        if (t->locks[i] == NULL)
            continue;
        h->at = t->at[i];
        if (!lease_tells(t->locks[i]))
            lease_settle(h, t->locks[i], t->names[i]);
        else if (hand_dares(h, CHANCE_HELD))
            lease_read(h, t->locks[i], t->names[i]);
    }
    hand_nap((int64_t)dice_below(&h->dice, 4));
}

static void two_end(struct two *t)
{
    struct hand *h = t->h;
    bool had[2] = {t->locks[0] != NULL, t->locks[1] != NULL};
    sqlock_error err = {0};
    int codes[2] = {0}, rc;

    for (int i = 0; i < 2; i++) {
        h->at = t->at[i];
        if (had[i])
            hand_fetch(h, V_RELEASE, t->names[i], sqlock_lock_token(t->locks[i]));
    }
    rc = sqlock_end_each(t->locks, 2, codes, &err);
    for (int i = 0; i < 2; i++) {
        h->at = t->at[i];
        if (had[i])
            hand_answer(h, codes[i], 0, 0);
    }
    hand_explain(h, rc, &err, "end");
}

static void take_two(struct hand *h, int way)
{
    uint32_t first = hand_name(h);
    uint32_t second = (first + 1) % (uint32_t)h->crew->plan.names;
    struct two t = {.h = h, .at = {&h->now, &h->beside}, .names = {first, second}};

    if (t.names[0] == t.names[1])
        return;
    two_take(&t, way);
    two_use(&t);
    two_end(&t);
    h->at = &h->now;
}

bool lease_is_shared(uint32_t name)
{
    return name % 5 == 3;
}

static void take_one(struct hand *h, int way)
{
    const bool manual = hand_dares(h, CHANCE_MANUAL);
    const bool sits = hand_names(h) < h->crew->plan.names && hand_dares(h, CHANCE_SLOT);
    const uint32_t name = sits ? hand_names(h) : hand_name(h);
    const bool shares = !sits && lease_is_shared(name) && hand_dares(h, CHANCE_SHARE);
    const char *word = text("n%" PRIu32, name);
    sqlock_holder holder;
    sqlock_acquire_opts opts = take_opts(h, way != 0, manual, &holder);
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int rc;

    h->shares = shares;
    opts.mode = sits ? SQLOCK_SLOTS(CLIENT_SLOTS) : shares ? SQLOCK_SHARED : SQLOCK_EXCLUSIVE;
    hand_fetch(h, shares ? V_SHARE : V_ACQUIRE, name, 0);
    rc = way == 2 ? acquire_by_loop(h, word, &opts, &lock, &err)
                  : sqlock_acquire(h->m, word, &opts, &lock, &err);
    taken(h, lock, rc, &holder, &err, way);
    if (rc == SQLOCK_EBUSY && holder.token > 0 && hand_dares(h, CHANCE_BREAK))
        break_it(h, name, holder.token);
    go_on(h, lock, name, rc, manual);
}

void lease_take(struct hand *h, int way)
{
    if (hand_dares(h, CHANCE_TWO))
        take_two(h, way == 2 ? 1 : way);
    else
        take_one(h, way);
}
