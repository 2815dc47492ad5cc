/* Several locks in one call. Each has its own op, and the engine sends together what is due at the
 * same time. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/many.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/engine/loop.h"
#include "core/leases/leases.h"

static int many_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int many_is_twice(const char *const *names, size_t n, sqlock_error *err)
{
    const char **sorted = sqlock_mem_alloc(n * sizeof *sorted);
    int rc = 0;

    if (sorted == NULL)
        return error_nomem(err);
    memcpy(sorted, names, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, many_by_name);
    for (size_t i = 1; rc == 0 && i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            rc = sqlock_error_set(err, SQLOCK_EINVAL, 0, "the name \"%.200s\" is there twice",
                                  sorted[i]);
    sqlock_mem_free(sorted);
    return rc;
}

int many_check(sqlock *m, const char *const *names, size_t n, const sqlock_acquire_opts *opts,
               sqlock_lock **out_locks, sqlock_acquire_opts *o, sqlock_error *err)
{
    size_t len;
    int rc;

    if (names == NULL || out_locks == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "names or out_locks is NULL");
    if (n < 1 || n > SQLOCK_MANY_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "%zu names (use 1 to %d)", n,
                                SQLOCK_MANY_MAX);
    memset(out_locks, 0, n * sizeof *out_locks);
    if ((rc = check_alive(m, err)) != 0 || (rc = check_acquire_opts(m, opts, o, err)) != 0)
        return rc;
    if (o->owner != NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "owner must be NULL: each grant has an owner of its own");
    for (size_t i = 0; i < n; i++)
        if ((rc = check_name(names[i], &len, err)) != 0 ||
            (rc = o->modes != NULL ? check_mode(o->modes[i], err) : 0) != 0)
            return rc;
    return many_is_twice(names, n, err);
}

sqlock_acquire_opts many_opts(const sqlock_acquire_opts *opts, size_t i)
{
    sqlock_acquire_opts o = *opts;

    if (o.modes != NULL)
        o.mode = o.modes[i];
    o.modes = NULL;
    return o;
}

/* The ops of one call. One is NULL where none is needed. */
struct many {
    size_t n;        /* of these, without NULLs */
    sqlock_op **ops; /* one for each name or handle */
    sqlock_op **all; /* those to be driven */
};

static int many_begin(struct many *many, size_t n, sqlock_error *err)
{
    many->n = 0;
    many->ops = sqlock_mem_alloc(2 * n * sizeof *many->ops);
    if (many->ops == NULL)
        return error_nomem(err);
    many->all = many->ops + n;
    return 0;
}

static void many_add(struct many *many, size_t i, sqlock_op *op)
{
    many->ops[i] = op;
    many->all[many->n++] = op;
}

static void many_drive(struct many *many)
{
    if (many->n > 0)
        ops_drive_together(many->all, many->n);
}

/* All ops are finished. */
static void many_end(struct many *many)
{
    sqlock_mem_free(many->ops);
}

/* Nothing was sent, and nothing will be. */
static void many_give_up(struct many *many)
{
    for (size_t i = 0; i < many->n; i++) {
        op_end(many->all[i], op_error_set(many->all[i], SQLOCK_ECANCELLED, 0, "not sent"));
        op_finish(many->all[i], NULL, NULL);
    }
    many_end(many);
}

/* The first name that failed; n: none. */
static size_t many_first(const int *codes, size_t n)
{
    size_t i = 0;

    while (i < n && codes[i] == 0)
        i++;
    return i;
}

/* Also if it was lost meanwhile: the renewal says so. */
static int many_is_short(sqlock_lock *lock)
{
    int64_t ttl = lock->lease.ttl, half = ttl / 2 - lease_margin(ttl);

    return !sqlock_is_held(lock) || sqlock_lock_deadline_us(lock) - sqlock_now_us() < half;
}

static int many_lengthened(sqlock_lock *lock, sqlock_op *op, sqlock_error *err)
{
    int rc = op_finish(op, NULL, err);

    if (rc == SQLOCK_EUNSURE)
        rc = sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                              "its lease could not be renewed in time");
    return check_context(err, "acquire", lock->name, lock->name_len, rc);
}

int many_lengthen(sqlock_lock *const *locks, size_t n, int *codes, sqlock_error *err)
{
    struct many many = {0};
    size_t first = n;
    int rc = many_begin(&many, n, err);

    for (size_t i = 0; i < n; i++) {
        sqlock_op *op = NULL;

        if (codes[i] != 0 || !many_is_short(locks[i]))
            continue;
        if ((codes[i] = rc) != 0) { /* no memory */
            first = i < first ? i : first;
            continue;
        }
        codes[i] = renew_begin(locks[i], &op, first == n ? err : NULL);
        if (codes[i] == 0)
            many_add(&many, i, op);
        else if (first == n)
            check_context(err, "acquire", locks[first = i]->name, locks[i]->name_len, codes[i]);
    }
    many_drive(&many);
    for (size_t i = n; rc == 0 && i-- > 0;) {
        if (many.ops[i] == NULL)
            continue;
        codes[i] = many_lengthened(locks[i], many.ops[i], i < first ? err : NULL);
        if (codes[i] != 0 && i < first)
            first = i;
    }
    many_end(&many);
    return first < n ? codes[first] : 0;
}

/* None of them was begun. */
static int many_failed(int *codes, size_t n, int rc)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = rc;
    return rc;
}

/* The one that waits goes ahead, and is driven first. */
static void many_line_up(struct many *many, struct many_wait *wait)
{
    sqlock_op *first = many->ops[wait->first];
    sqlock *m = first->m;

    mutex_lock(&m->mu);
    party_lead(&wait->party, first);
    for (size_t i = many->n; i-- > 0;) {
        if (many->all[i] == first) {
            many->all[i] = many->all[0];
            many->all[0] = first;
        }
    }
    for (size_t i = 1; i < many->n; i++)
        party_follow(&wait->party, many->all[i]);
    mutex_unlock(&m->mu);
}

/* Take all results. The first failure stays in err. Whether the others have begun is known when the
 * one ahead has ended. */
static int many_take(const struct many *many, const char *const *names,
                     const struct many_wait *wait, sqlock_lock **locks, int *codes,
                     sqlock_error *err)
{
    const size_t ahead = wait != NULL ? wait->first : many->n;
    sqlock_error own = {0};
    int first = 0, unsent;

    if (wait != NULL)
        codes[ahead] = op_finish(many->ops[ahead], &locks[ahead], &own);
    unsent = wait != NULL && !wait->party.begun;
    for (size_t i = many->n; i-- > 0;) {
        if (i == ahead)
            error_give(err, &own);
        else
            codes[i] = op_finish(many->ops[i], &locks[i], unsent ? NULL : err);
        if (codes[i] != 0 && (i == ahead || !unsent))
            first = check_context(err, "acquire", names[i], strlen(names[i]), codes[i]);
    }
    return first;
}

int many_acquire(sqlock *m, const char *const *names, size_t n, struct many_wait *wait,
                 const sqlock_acquire_opts *opts, int64_t until, sqlock_lock **locks, int *codes,
                 sqlock_error *err)
{
    struct many many = {0};
    size_t len;
    int rc = many_begin(&many, n, err);

    if (rc != 0)
        return many_failed(codes, n, rc);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        sqlock_acquire_opts o = many_opts(opts, i);
        sqlock_op *op = NULL;

        if ((rc = acquire_begin(m, names[i], &o, &op, &len, err)) == 0) {
            op->deadline = time_min(op->deadline, until);
            many_add(&many, i, op);
        }
    }
    if (rc != 0) {
        many_give_up(&many);
        return many_failed(codes, n, rc);
    }
    if (wait != NULL && n > 1)
        many_line_up(&many, wait);
    many_drive(&many);
    rc = many_take(&many, names, wait, locks, codes, err);
    many_end(&many);
    return rc;
}

/* Give back those whose lease could not be made long enough. Without memory, one after the other.
 */
static void many_drop_short(sqlock_lock **locks, size_t n, const int *codes)
{
    sqlock_lock **shorts = sqlock_mem_alloc(n * sizeof(sqlock_lock *));

    for (size_t i = 0; i < n; i++) {
        if (codes[i] == 0 || codes[i] == SQLOCK_EUNSURE || locks[i] == NULL)
            continue;
        if (shorts != NULL)
            shorts[i] = locks[i];
        else
            sqlock_scope_end(&locks[i]);
        locks[i] = NULL;
    }
    if (shorts != NULL && sqlock_end_each(shorts, n, NULL, NULL) != 0)
        for (size_t i = 0; i < n; i++)
            sqlock_scope_end(&shorts[i]); /* what cannot be released runs out */
    sqlock_mem_free(shorts);
}

static int each_acquire(sqlock *m, const char *const *names, size_t n, const sqlock_acquire_opts *o,
                        sqlock_lock **locks, int *codes, sqlock_error *err)
{
    sqlock_error late = {0};
    int rc = many_acquire(m, names, n, NULL, o, TIME_NEVER, locks, codes, err);
    const size_t first = many_first(codes, n);

    if (o->wait_ms == 0 || many_lengthen(locks, n, codes, &late) == 0)
        return rc;
    many_drop_short(locks, n, codes);
    return many_first(codes, n) < first ? error_give(err, &late) : rc;
}

int sqlock_acquire_each(sqlock *m, const char *const *names, size_t n,
                        const sqlock_acquire_opts *opts, sqlock_lock **out_locks, int *out_codes,
                        sqlock_error *err)
{
    UNCANCELLED;
    sqlock_acquire_opts o;
    int *codes = out_codes;
    int rc = many_check(m, names, n, opts, out_locks, &o, err);

    if (rc != 0)
        return rc;
    if (codes == NULL && (codes = sqlock_mem_alloc(n * sizeof *codes)) == NULL)
        return error_nomem(err);
    rc = each_acquire(m, names, n, &o, out_locks, codes, err);
    if (out_codes == NULL)
        sqlock_mem_free(codes);
    return rc;
}

/* A callback of a manager without threads cannot wait for the step that calls it. */
static int many_may_wait(sqlock *m, sqlock_error *err)
{
    int mine = 0;

    mutex_lock(&m->mu);
    if (m->loop != NULL)
        mine = loop_is_mine(m);
    mutex_unlock(&m->mu);
    return mine ? sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                   "a callback may not wait for the manager that calls it")
                : 0;
}

/* The manager of the first one, which all must have. NULL if there is none. */
static int many_manager(sqlock_lock *const *locks, size_t n, sqlock **out_m, sqlock_error *err)
{
    int rc;

    *out_m = NULL;
    for (size_t i = 0; i < n; i++) {
        if (locks[i] == NULL)
            continue;
        if ((rc = check_lock(locks[i], err)) != 0)
            return rc;
        if (*out_m != NULL && locks[i]->m != *out_m)
            return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the locks are of several managers");
        *out_m = locks[i]->m;
    }
    return *out_m != NULL ? many_may_wait(*out_m, err) : 0;
}

/* Begin to release each, and send what was begun. What could not begin is left out. */
static void many_release(struct many *many, sqlock_lock *const *locks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sqlock_op *op = NULL;

        if (locks[i] != NULL && release_begin(locks[i], &op, NULL) == 0)
            many_add(many, i, op);
    }
    many_drive(many);
}

/* The result of a release that was driven. */
static int many_released(sqlock_lock *lock, sqlock_op *op, sqlock_error *err)
{
    int rc = op_finish(op, NULL, err);

    release_await_callback(lock);
    rc = release_once_more(lock, rc);
    return check_context(err, "release", lock->name, lock->name_len, rc);
}

/* Those that were not driven are released one after the other: memory ran out, or the manager is
 * closed, and the release says so. */
int sqlock_end_each(sqlock_lock **locks, size_t n, int *out_codes, sqlock_error *err)
{
    UNCANCELLED;
    struct many many = {0};
    sqlock *m;
    int rc = locks == NULL ? sqlock_error_set(err, SQLOCK_EINVAL, 0, "locks is NULL")
                           : many_manager(locks, n, &m, err);
    int first = 0;

    if (rc != 0)
        return rc;
    if (many_begin(&many, n, NULL) == 0)
        many_release(&many, locks, n);
    for (size_t i = n; i-- > 0;) { /* the first failure stays in err */
        sqlock_op *op = many.n > 0 ? many.ops[i] : NULL;

        rc = locks[i] == NULL ? 0
             : op != NULL     ? many_released(locks[i], op, err)
                              : release_once_more(locks[i], sqlock_release(locks[i], err));
        sqlock_lock_free(locks[i]);
        locks[i] = NULL;
        first = rc != 0 ? rc : first;
        if (out_codes != NULL)
            out_codes[i] = rc;
    }
    many_end(&many);
    return first;
}

static int swap_check(const sqlock *m, sqlock_lock *const *lock, const char *name,
                      sqlock_error *err)
{
    size_t len;
    int rc;

    if (lock == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "lock is NULL");
    if (*lock == NULL)
        return 0;
    if ((rc = check_lock(*lock, err)) != 0 || (rc = check_name(name, &len, err)) != 0)
        return rc;
    if ((*lock)->m != m)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the lock is of another manager");
    if (strcmp((*lock)->name, name) == 0)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "it is the name of the lock itself");
    return many_may_wait((*lock)->m, err);
}

int sqlock_swap(sqlock *m, sqlock_lock **lock, const char *name, const sqlock_acquire_opts *opts,
                int *out_released, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_op *ops[2] = {NULL, NULL}; /* release, acquire */
    sqlock_lock *old;
    size_t len = 0;
    int rc = swap_check(m, lock, name, err), released = 0;

    if (rc == 0)
        rc = acquire_begin(m, name, opts, &ops[1], &len, err);
    if (rc != 0)
        return check_context(err, "swap", name, len, rc);
    old = *lock;
    *lock = NULL;
    if (old != NULL && release_begin(old, &ops[0], NULL) != 0)
        released = sqlock_release(old, err); /* it says why */
    ops_drive_together(ops + (ops[0] == NULL), 1 + (ops[0] != NULL));
    if (ops[0] != NULL)
        released = many_released(old, ops[0], err);
    rc = op_finish(ops[1], lock, err);
    sqlock_lock_free(old);
    if (out_released != NULL)
        *out_released = released;
    return check_context(err, "swap", name, len, rc);
}
