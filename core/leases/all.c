/* All of a list of names, or none. It is made of the calls for lists. */
#include <assert.h>

#include <sqlock/many.h>

#include "core/engine/arguments.h"
#include "core/leases/leases.h"
#include "core/model/backoff.h"

static int many_is_refusal(int code)
{
    return code == SQLOCK_EBUSY || code == SQLOCK_EGUARDED;
}

#define ALL_LATE_US 50000 /* for an answer under way when the wait is over */

struct all {
    sqlock *m;
    const char *const *names;
    size_t n;
    sqlock_acquire_opts o; /* of the caller */
    int64_t deadline;
    sqlock_lock **locks;
    int *codes;
    int rounds;
    sqlock_error err, refusal; /* the last ones; the codes are 0 if there was none */
};

/* It may be granted if it is tried again. ETIMEOUT: a short wait had no time for an answer.
 * EDEADLOCK: with what it held itself it stood in a circle, and that is given back. A database that
 * is away: the try gives up at once, and the wait for one name opens the connection again. */
static int all_may_go_on(int code)
{
    return many_is_refusal(code) || code == SQLOCK_ETIMEOUT || code == SQLOCK_EDEADLOCK ||
           code == SQLOCK_EUNREACH || code == SQLOCK_EREADONLY;
}

/* The first name to wait for. */
static size_t all_missing(const struct all *a)
{
    size_t i = 0;

    while (i < a->n && !all_may_go_on(a->codes[i]) && a->codes[i] != SQLOCK_EUNSURE)
        i++;
    return i;
}

/* What is left of the wait, for one name: at most `most` milliseconds. */
static int32_t all_wait(const struct all *a, int64_t most)
{
    int64_t left =
        a->deadline == TIME_NEVER ? most : time_min(most, (a->deadline - sqlock_now_us()) / 1000);

    return left > 0 ? (int32_t)left : 0;
}

/* Wait for this name. */
static int all_wait_for(struct all *a, size_t i)
{
    sqlock_acquire_opts o = many_opts(&a->o, i);
    int rc;

    o.wait_ms = a->deadline == TIME_NEVER ? SQLOCK_WAIT_FOREVER : all_wait(a, INT32_MAX);
    if (o.wait_ms == 0)
        o.wait_ms = 1; /* a try may last for request_ms */
    rc = sqlock_acquire(a->m, a->names[i], &o, &a->locks[i], &a->err);
    a->codes[i] = rc;
    return rc;
}

/* Twice the time that answers took of late, in milliseconds. */
static int64_t all_answer_ms(const struct all *a)
{
    int64_t ms;

    mutex_lock(&a->m->mu);
    ms = 2 * a->m->round / 1000;
    mutex_unlock(&a->m->mu);
    return ms;
}

/* The end of each try. A caller that does not wait has request_ms, as with one name. */
static int64_t all_until(const struct all *a)
{
    return a->deadline == TIME_NEVER || a->o.wait_ms == 0 ? TIME_NEVER : a->deadline + ALL_LATE_US;
}

/* Try for all names but number `held`. While that one is held, wait for the others for a moment.
 * Its length is random: of two callers that hold what the other one wants, one gives up first. */
static int all_try(struct all *a, size_t held)
{
    sqlock_acquire_opts o = a->o;
    uint32_t most = (uint32_t)(backoff_span(a->rounds++) / 1000);

    o.wait_ms = held == a->n ? 0 : all_wait(a, sqlock_random_below(most) + all_answer_ms(a));
    return many_acquire(a->m, a->names, a->n, held, &o, all_until(a), a->locks, a->codes, &a->err);
}

/* A reply was lost, and what it may have granted was given back. */
static int all_lost(struct all *a, int rc)
{
    return rc != SQLOCK_EUNSURE ? rc
                                : sqlock_error_set(&a->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                                   "the database did not answer in time");
}

/* Give back what was granted. Returns rc, or says that one of them may still stand. */
static int all_give_back(struct all *a, int rc)
{
    sqlock_error failure = {0};

    if (many_is_refusal(rc))
        a->refusal = a->err;
    if (sqlock_end_each(a->locks, a->n, a->codes, &failure) == 0)
        return all_lost(a, rc);
    for (size_t i = 0; i < a->n; i++)
        if (a->codes[i] != 0 && a->codes[i] != SQLOCK_ELOST)
            return sqlock_error_set(&a->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                    "a lock could not be given back, and stands until its lease "
                                    "runs out: %.200s",
                                    failure.text);
    return rc;
}

/* The one that was held first has waited for the others, and they for each other. */
static int all_hand_out(struct all *a)
{
    return a->o.wait_ms == 0 ? 0 : many_lengthen(a->locks, a->n, a->codes, &a->err);
}

static int all_acquire(struct all *a)
{
    size_t held = a->n;
    int rc;

    while ((rc = all_try(a, held)) != 0 || (rc = all_hand_out(a)) != 0) {
        held = all_missing(a);
        rc = all_give_back(a, rc);
        if (!all_may_go_on(rc) || all_wait(a, 1) == 0)
            return rc;
        if ((rc = all_wait_for(a, held)) != 0)
            return all_give_back(a, rc);
    }
    return 0;
}

int sqlock_acquire_all(sqlock *m, const char *const *names, size_t n,
                       const sqlock_acquire_opts *opts, sqlock_lock **out_locks, sqlock_error *err)
{
    UNCANCELLED;
    struct all a = {.m = m, .names = names, .n = n, .locks = out_locks};
    int rc = many_check(m, names, n, opts, out_locks, &a.o, err);

    if (rc != 0)
        return rc;
    if ((a.codes = sqlock_mem_alloc(n * sizeof *a.codes)) == NULL)
        return error_nomem(err);
    a.deadline = a.o.wait_ms == SQLOCK_WAIT_FOREVER ? TIME_NEVER
                                                    : sqlock_now_us() + a.o.wait_ms * INT64_C(1000);
    rc = all_acquire(&a);
    sqlock_mem_free(a.codes);
    if (rc == SQLOCK_ETIMEOUT && a.refusal.code != 0) /* the last answer stands */
        a.err = a.refusal;
    return rc != 0 ? error_give(err, &a.err) : 0;
}
