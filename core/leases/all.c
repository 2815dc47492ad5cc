/* All of a list of names, or none. It is made of the calls for lists. */
#include <assert.h>
#include <string.h>

#include <sqlock/many.h>

#include "core/engine/arguments.h"
#include "core/engine/cancel.h"
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
    int rounds;                /* waits for a name so far, */
    int apart;                 /* of which one was offered its lock, and not granted it, */
    int in_vain;               /* and the last one ended without the others */
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

/* The name to wait for: of those that were refused, the first by key. So callers with the same
 * names in any order wait for the same one first. */
static size_t all_missing(const struct all *a)
{
    size_t first = a->n;

    for (size_t i = 0; i < a->n; i++)
        if ((all_may_go_on(a->codes[i]) || a->codes[i] == SQLOCK_EUNSURE) &&
            (first == a->n || strcmp(a->names[i], a->names[first]) < 0))
            first = i;
    return first;
}

/* What is left of the wait, in milliseconds. */
static int32_t all_wait(const struct all *a)
{
    int64_t left;

    if (a->deadline == TIME_NEVER)
        return SQLOCK_WAIT_FOREVER;
    left = (a->deadline - sqlock_now_us()) / 1000;
    return left > 0 ? (int32_t)time_min(left, INT32_MAX) : 0;
}

/* The end of each try. A caller that does not wait has request_ms, as with one name. */
static int64_t all_until(const struct all *a)
{
    return a->deadline == TIME_NEVER || a->o.wait_ms == 0 ? TIME_NEVER : a->deadline + ALL_LATE_US;
}

static int all_try(struct all *a)
{
    sqlock_acquire_opts o = a->o;

    o.wait_ms = 0;
    return many_acquire(a->m, a->names, a->n, NULL, &o, all_until(a), a->locks, a->codes, &a->err);
}

/* Wait for this name, and take up its offer together with the others. While it is held, wait for
 * them for a moment. Its length is random: of two callers that hold what the other one wants, one
 * gives up first.
 *
 * An offer that was refused needs another wait, for the seats beside the lock, or for a guard. From
 * then on the others wait until that is over: else each wait would end at the offer. */
static int all_wait_for(struct all *a, size_t first)
{
    uint32_t most = (uint32_t)backoff_span(++a->rounds);
    struct many_wait wait = {.first = first,
                             .party = {.apart = a->apart,
                                       .wait = sqlock_random_below(most),
                                       .deadline = a->deadline,
                                       .until = all_until(a)}};
    sqlock_acquire_opts o = a->o;
    int rc;

    if ((o.wait_ms = all_wait(a)) == 0)
        o.wait_ms = 1; /* a try may last for request_ms */
    rc = many_acquire(a->m, a->names, a->n, &wait, &o, TIME_NEVER, a->locks, a->codes, &a->err);
    a->in_vain = rc != 0 && !wait.party.begun;
    if (wait.party.begun && a->codes[first] != 0)
        a->apart = 1;
    return rc;
}

/* A reply was lost, or a cancel came before it, and what it may have granted was given back. */
static int all_lost(struct all *a, int rc)
{
    if (rc != SQLOCK_EUNSURE)
        return rc;
    return cancel_wait(a->o.cancel, 0)
               ? sqlock_error_set(&a->err, SQLOCK_ECANCELLED, 0, "cancelled")
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
    int rc = all_try(a);

    while (rc != 0 || (rc = all_hand_out(a)) != 0) {
        size_t first = all_missing(a);

        rc = all_give_back(a, rc);
        if (a->in_vain || !all_may_go_on(rc) || all_wait(a) == 0)
            return rc;
        rc = all_wait_for(a, first);
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
