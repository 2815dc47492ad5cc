/* Runs attempts that other sessions may spoil: first optimistic ones, then ones under a lock. */
#include <assert.h>
#include <sqlock/retry.h>

#include <string.h>

#include "core/engine/arguments.h"
#include "core/engine/op.h"
#include "core/leases/leases.h"
#include "core/model/backoff.h"

struct retry {
    sqlock *m;
    sqlock_attempt_fn attempt;
    void *user;
    sqlock_retry_opts o;
    sqlock_attempt at;
    int pauses; /* since the start, or since the lock was needed */
    int rc;     /* result of the last attempt */
    sqlock_error *err;
    int uncancelled; /* the thread's cancel state before this call */
};

static int retry_wants_lock(const struct retry *r)
{
    return r->at.pessimistic && r->o.lock_name != NULL;
}

static int retry_is_out_of_time(const struct retry *r, int64_t at)
{
    return at >= r->at.end_us;
}

/* Full jitter: sessions that met once are spread over the whole span. */
static int64_t retry_pause_us(struct retry *r)
{
    int64_t span =
        backoff_doubled(r->o.base_ms * INT64_C(1000), r->o.cap_ms * INT64_C(1000), r->pauses++);

    assert(span >= 0 && span < UINT32_MAX);
    return sqlock_random_below((uint32_t)span + 1);
}

static int retry_wait_ms(const struct retry *r)
{
    int64_t left = (r->at.end_us - sqlock_now_us()) / 1000;

    if (r->at.end_us == TIME_NEVER)
        return SQLOCK_WAIT_FOREVER;
    return left < 0 ? 0 : left < INT32_MAX ? (int32_t)left : INT32_MAX;
}

/* A lock that was lost meanwhile is acquired again. */
static int retry_take_lock(struct retry *r, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    int rc;

    if (r->at.lock != NULL && sqlock_is_held(r->at.lock))
        return 0;
    sqlock_scope_end(&r->at.lock);
    o.wait_ms = retry_wait_ms(r);
    o.lease_ms = r->o.lease_ms;
    o.cancel = r->o.cancel;
    rc = sqlock_acquire(r->m, r->o.lock_name, &o, &r->at.lock, err);
    if (rc == SQLOCK_EUNSURE)
        rc = sqlock_settle(r->at.lock, 0, err);
    if (rc == 0)
        memset(err, 0, sizeof *err);
    return rc;
}

static int retry_may_help(const struct retry *r, int rc)
{
    switch (rc) {
    case SQLOCK_CONFLICT:
    case SQLOCK_EBUSY:
    case SQLOCK_ETXRESTART:
    case SQLOCK_ETXGONE:
        return 1;
    case SQLOCK_ELOST:
        return r->at.lock != NULL && !sqlock_is_held(r->at.lock);
    default:
        return 0;
    }
}

/* Returns 0 for one more attempt. Otherwise *out is the result. */
static int retry_ended(struct retry *r, int rc, int *out, sqlock_error *err)
{
    int64_t next;

    *out = rc;
    if (!retry_may_help(r, rc) || r->at.number >= r->o.attempts)
        return 1;
    if (!r->at.pessimistic && r->at.number >= r->o.optimistic)
        r->pauses = 0;
    next = sqlock_now_us() + retry_pause_us(r);
    if (retry_is_out_of_time(r, next))
        return 1;
    if (!cancel_wait(r->o.cancel, next))
        return 0;
    *out = sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "retry: cancelled");
    return 1;
}

static void retry_call_attempt(void *arg)
{
    struct retry *r = arg;

    r->rc = r->attempt(&r->at, r->user, r->err);
}

/* The thread was cancelled during an attempt. */
static void retry_drop(void *arg)
{
    struct retry *r = arg;

    sqlock_scope_end(&r->at.lock);
}

static int retry_run(struct retry *r, sqlock_error *err)
{
    int rc = 0;

    do {
        memset(err, 0, sizeof *err);
        r->at.number++;
        r->at.pessimistic = r->at.number > r->o.optimistic;
        if (retry_wants_lock(r) && (rc = retry_take_lock(r, err)) != 0)
            break;
        assert(!retry_wants_lock(r) || r->at.lock != NULL);
        cancel_let(r->uncancelled, retry_call_attempt, retry_drop, r);
        rc = r->rc;
    } while (!retry_ended(r, rc, &rc, err));
    sqlock_scope_end(&r->at.lock);
    return rc;
}

static int retry_check(const struct retry *r, sqlock_error *err)
{
    size_t len;
    int rc;

    if (r->attempt == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "retry: attempt is NULL");
    if (r->o.lock_name == NULL)
        return 0;
    if (r->m == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "retry: a lock needs a manager");
    return (rc = check_alive(r->m, err)) != 0 ? rc : check_name(r->o.lock_name, &len, err);
}

int sqlock_retry(sqlock *m, sqlock_attempt_fn attempt, void *user, const sqlock_retry_opts *opts,
                 sqlock_error *err)
{
    UNCANCELLED;
    struct retry r = {.m = m, .attempt = attempt, .user = user, .at = {.size = sizeof r.at}};
    sqlock_error own = {0};
    int rc;

    r.err = err = err != NULL ? err : &own;
    r.uncancelled = uncancelled;
    if ((rc = check_retry_opts(opts, &r.o, err)) != 0 || (rc = retry_check(&r, err)) != 0)
        return rc;
    r.at.end_us = r.o.total_ms == SQLOCK_WAIT_FOREVER
                      ? TIME_NEVER
                      : sqlock_now_us() + r.o.total_ms * INT64_C(1000);
    return retry_run(&r, err);
}
