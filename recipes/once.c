#define _POSIX_C_SOURCE 200809L /* so that -std=c11 does as well as the compiler's own */

#include "recipes/once.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sqlock/driver.h>
#include <sqlock/register.h>

enum { LEDGER_MAX = 64, TRIES_MOST = 60 };

int64_t once_period(int64_t length_ms)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000) / length_ms;
}

/* The ledger is one line: "once", the period, and the token of the grant under which its work was
 * done. An empty register is a ledger without a period. */
static int once_read(struct once *o, int64_t *out_done, sqlock_error *err)
{
    char text[LEDGER_MAX + 1];
    size_t len = 0;
    int64_t token;
    int end = 0, rc = sqlock_register_get(o->m, o->name, text, LEDGER_MAX, &len, &o->version, err);

    *out_done = INT64_MIN;
    if (rc == SQLOCK_EINVAL && len > LEDGER_MAX)
        rc = sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "once: the register of this name is no ledger");
    if (rc != 0 || len == 0)
        return rc;
    text[len] = '\0';
    if (sscanf(text, "once %" SCNd64 " %" SCNd64 "%n", out_done, &token, &end) == 2 &&
        (size_t)end == len)
        return 0;
    return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "once: the register of this name is no ledger");
}

/* The next period may be done already, by a machine whose clock is a little ahead. */
static int once_is_done(int64_t done, int64_t period, sqlock_error *err)
{
    return done - 1 <= period ? ONCE_DONE
                              : sqlock_error_set(err, ONCE_AHEAD, 0, "once: the period that is written down is yet to come: a clock is "
                                          "wrong, or periods had another length");
}

/* Asked before the work, and not behind it: may this role write the ledger? No register has version 1, so
 * nothing is changed. */
static int once_may_note(struct once *o, sqlock_error *err)
{
    int64_t version = 0;
    int rc = sqlock_register_set(o->m, o->name, "", 0, 1, &version, err);

    return rc == SQLOCK_CONFLICT || rc == SQLOCK_EUNSURE ? 0 : rc;
}

int once_look(struct once *o, sqlock *m, const char *name, int64_t period, sqlock_error *err)
{
    int64_t done;
    int rc;

    *o = (struct once){.m = m, .name = name, .period = period};
    if ((rc = once_read(o, &done, err)) != 0)
        return rc;
    return done < period ? once_may_note(o, err) : once_is_done(done, period, err);
}

/* Another holder came, or the reply was lost: the ledger shows whether the work is written down. */
static int once_noted(struct once *o, int code, sqlock_error *err)
{
    int64_t done;
    int rc = once_read(o, &done, err);

    if (rc != 0 || done >= o->period)
        return rc;
    return code == SQLOCK_EUNSURE
               ? sqlock_error_set(err, SQLOCK_EUNSURE, SQLOCK_MAYBE, "once: it is not known whether the work is written down")
               : sqlock_error_set(err, SQLOCK_ELOST, 0, "once: another holder has written the ledger since");
}

/* Who reads the ledger behind this finds it changed, so a former holder cannot change it back. */
static int once_try_note(struct once *o, sqlock_lock *lock, const char *text, sqlock_error *err)
{
    int rc;

    if (!sqlock_is_held(lock))
        return sqlock_error_set(err, SQLOCK_ELOST, 0, "once: the lock was lost before the work was written down");
    rc = sqlock_register_set(o->m, o->name, text, strlen(text), o->version, &o->version, err);
    return rc == SQLOCK_CONFLICT || rc == SQLOCK_EUNSURE ? once_noted(o, rc, err) : rc;
}

/* A database that is away for a moment makes no work be done twice: the lock is held meanwhile. */
int once_note(struct once *o, sqlock_lock *lock, sqlock_error *err)
{
    const struct timespec pause = {0, 200 * 1000000};
    char text[LEDGER_MAX];
    sqlock_error failure = {0};
    int rc, tries = 0;

    snprintf(text, sizeof text, "once %" PRId64 " %" PRId64, o->period, sqlock_lock_token(lock));
    while ((rc = once_try_note(o, lock, text, &failure)) != 0 &&
           (failure.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE)) && ++tries < TRIES_MOST &&
           sqlock_is_held(lock))
        nanosleep(&pause, NULL);
    if (err != NULL)
        *err = failure;
    return rc;
}

struct once_call {
    sqlock *m;
    const char *name;
    int64_t period;
    sqlock_work_fn work;
    void *user;
    int looked, result;
    sqlock_error err;
};

static int once_under_lock(sqlock_lock *lock, void *user)
{
    struct once_call *call = user;
    struct once o;
    int rc = once_look(&o, call->m, call->name, call->period, &call->err);

    call->looked = 1;
    if (rc != 0)
        return rc;
    call->result = call->work(lock, call->user);
    return call->result == 0 ? once_note(&o, lock, &call->err) : 0;
}

/* Once the ledger is written, it matters no more how the lock ends. */
int once_run(sqlock *m, const char *name, int64_t period, const sqlock_acquire_opts *opts,
             sqlock_work_fn work, void *user, int *out_result, sqlock_error *err)
{
    struct once_call call = {.m = m, .name = name, .period = period, .work = work, .user = user};
    sqlock_error of_lock = {0};
    int inner = 0, rc;

    *out_result = 0;
    if (opts != NULL && opts->mode != SQLOCK_EXCLUSIVE)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "once: the lock must be exclusive");
    if (period < 1 || period > SQLOCK_TOKEN_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "once: a period is from 1 on, and below 2^53");
    rc = sqlock_with(m, name, opts, once_under_lock, &call, &inner, &of_lock);
    *out_result = call.result;
    if (call.looked)
        rc = inner;
    if (err != NULL && rc != 0 && rc != ONCE_DONE)
        *err = call.looked ? call.err : of_lock;
    return rc;
}

/* ---- the ledger in the caller's transaction -------------------------------------------------- */

/* The column has a larger period than was asked for. No row has this one, so nothing is changed. */
static int once_why_not(sqlock_conn *conn, const sqlock_row *row, int64_t period, sqlock_error *err)
{
    sqlock_row_version done = {sizeof done, 0, "period", sqlock_int(INT64_MIN), sqlock_null()};
    int rc = sqlock_cas_update(conn, row, &done, NULL, 0, err);

    if (rc != SQLOCK_CONFLICT)
        return rc;
    return done.found.type == SQLOCK_INT && done.found.i >= period
               ? once_is_done(done.found.i, period, err)
               : sqlock_error_set(err, SQLOCK_ETXRESTART, 0, "once: the ledger changed meanwhile");
}

/* A fence passes what is equal, and keeps the row locked. So the period before this one passes exactly if
 * this one is due, and this one passes then. */
int once_note_in(sqlock_conn *conn, sqlock_lock *lock, const sqlock_row *row, int64_t period,
                 sqlock_error *err)
{
    int rc;

    if (period < 2 || period > SQLOCK_TOKEN_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "once: a period is from 2 on, and below 2^53");
    if ((rc = sqlock_guard(lock, conn, err)) != 0)
        return rc;
    rc = sqlock_fence(conn, row, "period", period - 1, err);
    if (rc == SQLOCK_ELOST)
        return once_why_not(conn, row, period, err);
    return rc == 0 ? sqlock_fence(conn, row, "period", period, err) : rc;
}
