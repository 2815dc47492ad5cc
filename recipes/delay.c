#include "recipes/delay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sqlock/async.h>
#include <sqlock/driver.h>
#include <sqlock/register.h>
#include <sqlock/retry.h>

#define NOTE_MAX 64  /* bytes of "closed TOKEN" */
#define PAUSE_MS 100 /* between two looks during the delay, at most */

/* ---- the register ---------------------------------------------------------------------------- */

struct note {
    int open;      /* 1: its holder was at work when it was written */
    int64_t token; /* of that holder; 0: there is no note yet */
};

static int note_read(struct delay *d, struct note *out, sqlock_error *err)
{
    const char *name = sqlock_lock_name(d->lock);
    char text[NOTE_MAX + 1];
    size_t len = 0;
    int end = 0, rc = sqlock_register_get(d->m, name, text, NOTE_MAX, &len, &d->version, err);

    *out = (struct note){0};
    if (rc == SQLOCK_EINVAL && len > NOTE_MAX)
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "%.80s: its register is used for something else", name);
    if (rc != 0 || len == 0)
        return rc;
    text[len] = '\0';
    out->open = strncmp(text, "open ", 5) == 0;
    if (sscanf(text, out->open ? "open %" SCNd64 "%n" : "closed %" SCNd64 "%n", &out->token, &end) == 1 &&
        (size_t)end == len)
        return 0;
    return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "%.80s: its register is used for something else", name);
}

/* Only over what was read: a former holder that does not know of its loss changes nothing. */
static int note_write(struct delay *d, const char *word, sqlock_error *err)
{
    char text[NOTE_MAX];
    int len = snprintf(text, sizeof text, "%s %" PRId64, word, sqlock_lock_token(d->lock));

    return sqlock_register_set(d->m, sqlock_lock_name(d->lock), text, (size_t)len, d->version, &d->version, err);
}

static int delay_lost(const struct delay *d, sqlock_error *err)
{
    return sqlock_error_set(err, SQLOCK_ELOST, 0, "%.80s: the lock was lost before its holder could begin",
                            sqlock_lock_name(d->lock));
}

/* ---- the delay ------------------------------------------------------------------------------- */

struct wait {
    struct delay *d;
    int64_t end_us;
};

/* One look; it is repeated behind a pause, which a cancel ends. A manager without threads renews in its
 * steps. */
static int delay_look(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    const struct wait *wait = user;

    (void)attempt;
    (void)sqlock_loop_step(wait->d->m);
    if (!sqlock_is_held(wait->d->lock))
        return delay_lost(wait->d, err);
    return sqlock_now_us() < wait->end_us ? SQLOCK_EBUSY : 0;
}

static int delay_wait(struct delay *d, int64_t end_us, sqlock_cancel *cancel, sqlock_error *err)
{
    struct wait wait = {d, end_us};
    sqlock_retry_opts opts = SQLOCK_RETRY_OPTS_INIT;

    opts.attempts = INT32_MAX;
    opts.base_ms = opts.cap_ms = PAUSE_MS;
    opts.total_ms = SQLOCK_WAIT_FOREVER;
    opts.cancel = cancel;
    return sqlock_retry(NULL, delay_look, &wait, &opts, err);
}

/* The lock is held. Until the register says that this holder is at work: someone else may write meanwhile,
 * who has lost the lock, or who has been granted it since. */
static int delay_begin(struct delay *d, int64_t end_us, sqlock_cancel *cancel, sqlock_error *err)
{
    const int64_t token = sqlock_lock_token(d->lock);
    int rc;

    do {
        struct note before;

        if ((rc = note_read(d, &before, err)) != 0 || (before.open && before.token == token))
            break; /* or it was written, and the reply lost */
        if (before.token >= token || !sqlock_is_held(d->lock))
            return delay_lost(d, err);
        d->after_loss |= before.open;
        if (before.open && (rc = delay_wait(d, end_us, cancel, err)) != 0)
            break;
        rc = note_write(d, "open", err);
    } while (rc == SQLOCK_CONFLICT || rc == SQLOCK_EUNSURE);
    return rc == 0 && !sqlock_is_held(d->lock) ? delay_lost(d, err) : rc;
}

/* ---- acquire and release --------------------------------------------------------------------- */

static int delay_check(const sqlock_acquire_opts *o, int32_t delay_ms, sqlock_error *err)
{
    if (delay_ms < 0)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "delay: delay_ms is negative");
    if (o->mode != SQLOCK_EXCLUSIVE || (o->flags & SQLOCK_NO_RENEW))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "delay: the lock must be exclusive, and renew itself");
    if (o->max_hold_ms > 0 && o->max_hold_ms <= delay_ms)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "delay: max_hold_ms must be more than delay_ms");
    return 0;
}

int delay_acquire(struct delay *d, sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                  int32_t delay_ms, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    int rc;

    *d = (struct delay){.m = m};
    if (opts != NULL)
        o = *opts;
    if ((rc = delay_check(&o, delay_ms, err)) != 0)
        return rc;
    rc = sqlock_acquire(m, name, &o, &d->lock, err);
    if (rc == SQLOCK_EUNSURE && sqlock_settle(d->lock, 0, NULL) == 0)
        rc = 0;
    if (rc == 0)
        rc = delay_begin(d, sqlock_now_us() + delay_ms * INT64_C(1000), o.cancel, err);
    if (rc != 0)
        sqlock_scope_end(&d->lock);
    return rc;
}

/* Who has lost the lock writes nothing: its work may have gone on without it. */
int delay_release(struct delay *d, sqlock_error *err)
{
    sqlock_error of_note = {0};
    int noted = sqlock_is_held(d->lock) ? note_write(d, "closed", &of_note) : 0;
    int rc = sqlock_lock_end(&d->lock, err);

    if (rc != 0 || noted == 0)
        return rc;
    if (noted == SQLOCK_CONFLICT)
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "delay: the register was changed by someone else");
    if (err != NULL)
        *err = of_note;
    return noted;
}
