/* Leases by the public API: three ways to one, what is done with it, and its end. */
#include "tests/lib/db.h"
#include "tests/torture/client_hand.h"
#include <sqlock/admin.h>
#include <sqlock/async.h>
#include <sqlock/many.h>

#include <inttypes.h>
#include <poll.h>

enum {
    SETTLE_MS = 1000, /* one asking */
    SETTLES = 30,     /* so many of them, while the database is away; */
    SETTLES_LAST = 5, /* or when the client's time is up */
    RELEASES = 3,
    PLACE_MS = 5 /* between two looks at a place */
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

/* The rest of it, unless it was released in the work. */
static void swap(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual);

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
    if (!released && hand_dares(h, CHANCE_SWAP)) {
        swap(h, lock, name, manual);
        return;
    }
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
    if (rc == 0 || (!hand_dares(h, CHANCE_GIVE_BACK) && settle(h, lock, name))) {
        use(h, lock, name, manual);
        return;
    }
    release(h, lock, name);
    sqlock_lock_free(lock);
}

/* The old lock's handle is gone then: what is unsure of its release stays so. */
static void swap(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual)
{
    const bool waits = dice_below(&h->dice, 2) == 0;
    const uint32_t next = (name + 1) % hand_names(h);
    sqlock_holder holder;
    sqlock_acquire_opts opts = take_opts(h, waits, manual, &holder);
    sqlock_error err = {0};
    int released = 0, rc;

    if (next == name) {
        release(h, lock, name);
        sqlock_lock_free(lock);
        return;
    }
    h->at = &h->beside;
    hand_fetch(h, V_RELEASE, name, sqlock_lock_token(lock));
    h->at = &h->now;
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
    sqlock_lock *locks[2];
};

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

    for (int i = 0; i < 2; i++) {
        snprintf(texts[i], sizeof texts[i], "n%" PRIu32, t->names[i]);
        h->at = t->at[i];
        hand_fetch(h, V_ACQUIRE, t->names[i], 0);
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
        if (!tells(t->locks[i]))
            settle(h, t->locks[i], t->names[i]);
        else if (hand_dares(h, CHANCE_HELD))
            read_held(h, t->locks[i], t->names[i]);
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
    struct two t = {h, {&h->now, &h->beside}, {first, (first + 1) % hand_names(h)}, {NULL, NULL}};

    if (t.names[0] == t.names[1])
        return;
    two_take(&t, way);
    two_use(&t);
    two_end(&t);
    h->at = &h->now;
}

/* Of the others, order in the queue is judged. */
static bool is_shared(uint32_t name)
{
    return name % 5 == 3;
}

static void take_one(struct hand *h, int way)
{
    const bool manual = hand_dares(h, CHANCE_MANUAL);
    const bool sits = hand_names(h) < h->crew->plan.names && hand_dares(h, CHANCE_SLOT);
    const uint32_t name = sits ? hand_names(h) : hand_name(h);
    const bool shares = !sits && is_shared(name) && hand_dares(h, CHANCE_SHARE);
    const char *word = text("n%" PRIu32, name);
    sqlock_holder holder;
    sqlock_acquire_opts opts = take_opts(h, way != 0, manual, &holder);
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int rc;

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
