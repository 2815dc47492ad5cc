#define _POSIX_C_SOURCE 200809L /* so that -std=c11 does as well as the compiler's own */

#include "recipes/lead.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sqlock/driver.h>
#include <sqlock/register.h>

#define PAUSE_MS 1000 /* while the database does not answer */
#define ASK_MAX  64   /* bytes of "resign TOKEN" */

/* ---- election -------------------------------------------------------------------------------- */

static void lead_pause(void)
{
    const struct timespec pause = {PAUSE_MS / 1000, PAUSE_MS % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

int lead_may_try_again(int code, const sqlock_error *err)
{
    if (code == SQLOCK_EDEADLOCK) /* it ends when the caller gives its other locks back */
        return 0;
    return code == SQLOCK_EUNSURE || code == SQLOCK_EUNREACH || code == SQLOCK_ETIMEOUT ||
           code == SQLOCK_EGUARDED ||
           (code != 0 && (err->flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)) != 0);
}

struct lead_turn {
    sqlock_work_fn lead;
    void *user;
    int led; /* this time it was the leader */
};

static int lead_take_turn(sqlock_lock *lock, void *turn)
{
    struct lead_turn *t = turn;

    t->led = 1;
    return t->lead(lock, t->user);
}

int lead_campaign(sqlock *m, const char *name, const sqlock_acquire_opts *opts, sqlock_work_fn lead,
                  void *user, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error said = {0};

    if (opts != NULL)
        o = *opts;
    if (lead == NULL || o.owner != NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "lead: it needs a function, and no owner");
    if (o.mode != SQLOCK_EXCLUSIVE)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "lead: the lock must be exclusive");
    o.wait_ms = SQLOCK_WAIT_FOREVER;
    for (;;) {
        struct lead_turn turn = {.lead = lead, .user = user};
        int result = LEAD_AGAIN;
        int rc = sqlock_with(m, name, &o, lead_take_turn, &turn, &result, &said);

        if (result != LEAD_AGAIN)
            return 0; /* however the lock ended */
        if (rc == 0 || (rc == SQLOCK_ELOST && turn.led))
            continue;
        if (rc != SQLOCK_ELOST && !lead_may_try_again(rc, &said)) { /* lost: before it could lead */
            if (err != NULL)
                *err = said;
            return rc;
        }
        lead_pause();
    }
}

/* ---- handing over ---------------------------------------------------------------------------- */

/* *out_token: of the leader that was asked last; 0: none was. */
static int ask_read(sqlock *m, const char *name, int64_t *out_token, int64_t *out_version,
                    sqlock_error *err)
{
    char text[ASK_MAX + 1];
    size_t len = 0;
    int end = 0, rc = sqlock_register_get(m, name, text, ASK_MAX, &len, out_version, err);

    *out_token = 0;
    if (rc == SQLOCK_EINVAL && len > ASK_MAX)
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "%.80s: its register is used for something else", name);
    if (rc != 0 || len == 0)
        return rc;
    text[len] = '\0';
    if (sscanf(text, "resign %" SCNd64 "%n", out_token, &end) == 1 && (size_t)end == len)
        return 0;
    return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "%.80s: its register is used for something else", name);
}

int lead_ask_to_resign(sqlock *m, const char *name, sqlock_info *out_leader, sqlock_error *err)
{
    sqlock_info info = {.size = sizeof info};
    int64_t token, version = 0;
    char text[ASK_MAX];
    int rc = sqlock_find(m, name, &info, err), len;

    if (rc == 0 && (!info.held || info.holder.left_ms <= 0))
        rc = SQLOCK_ABSENT;
    if (rc != 0)
        return rc;
    if (out_leader != NULL)
        *out_leader = info;
    len = snprintf(text, sizeof text, "resign %" PRId64, info.holder.token);
    do {
        rc = ask_read(m, name, &token, &version, err);
        if (rc != 0 || token >= info.holder.token)
            return rc; /* it was asked already, or another one leads by now */
        rc = sqlock_register_set(m, name, text, (size_t)len, version, NULL, err);
    } while (rc == SQLOCK_CONFLICT);
    return rc;
}

int lead_is_asked_to_resign(sqlock_lock *lock, sqlock *m)
{
    int64_t token = 0, version;

    return ask_read(m, sqlock_lock_name(lock), &token, &version, NULL) == 0 &&
           token == sqlock_lock_token(lock);
}
