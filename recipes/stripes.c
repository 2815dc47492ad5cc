#include "recipes/stripes.h"

#include <stdio.h>
#include <string.h>

#include <sqlock/driver.h>

#define SLICE_MS 250 /* of a wait for one stripe; then the others are tried again */

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv), and behind it the finalizer of MurmurHash3
 * (Austin Appleby), because FNV hardly mixes the bits of keys that are short and alike. */
uint32_t stripes_of(const void *key, size_t len, uint32_t n)
{
    const unsigned char *byte = key;
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)((hash ^ hash >> 33) % n);
}

static int stripes_check(const char *prefix, uint32_t n, sqlock_error *err)
{
    if (n < 1 || n > STRIPES_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "stripes: there are 1 to 100000 stripes");
    if (prefix == NULL || strlen(prefix) + strlen("/99999") > SQLOCK_NAME_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "stripes: the prefix is NULL or too long for a name");
    return 0;
}

static int acquire_stripe(sqlock *m, const char *prefix, uint32_t stripe,
                          const sqlock_acquire_opts *opts, sqlock_lock **out_lock,
                          sqlock_error *err)
{
    char name[SQLOCK_NAME_MAX + 1];

    snprintf(name, sizeof name, "%s/%u", prefix, (unsigned)stripe);
    return sqlock_acquire(m, name, opts, out_lock, err);
}

int stripes_acquire_key(sqlock *m, const char *prefix, uint32_t n, const void *key, size_t len,
                        const sqlock_acquire_opts *opts, sqlock_lock **out_lock,
                        sqlock_error *err)
{
    int rc = stripes_check(prefix, n, err);

    *out_lock = NULL;
    return rc != 0 ? rc : acquire_stripe(m, prefix, stripes_of(key, len, n), opts, out_lock, err);
}

static int is_held_by_others(int rc)
{
    return rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED;
}

/* All of them once, without waiting. */
static int try_all(sqlock *m, const char *prefix, uint32_t first, uint32_t n,
                   sqlock_acquire_opts *opts, sqlock_lock **out_lock, uint32_t *out_stripe,
                   sqlock_error *err)
{
    int rc = SQLOCK_EBUSY;

    opts->wait_ms = 0;
    for (uint32_t i = 0; i < n && is_held_by_others(rc); i++) {
        *out_stripe = (uint32_t)(((uint64_t)first + i) % n);
        rc = acquire_stripe(m, prefix, *out_stripe, opts, out_lock, err);
    }
    return rc;
}

int stripes_acquire_any(sqlock *m, const char *prefix, uint32_t n, const sqlock_acquire_opts *opts,
                        sqlock_lock **out_lock, uint32_t *out_stripe, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    const int64_t begun = sqlock_now_us();
    int64_t left_ms;
    int32_t wait_ms;
    int rc = stripes_check(prefix, n, err);

    *out_lock = NULL;
    if (rc != 0)
        return rc;
    o = opts != NULL ? *opts : o;
    if (o.actor != NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "stripes: no actor, who waits for any stripe is in no circle");
    wait_ms = o.wait_ms;
    if (wait_ms < SQLOCK_WAIT_FOREVER)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "stripes: wait_ms is %d (use 0 or more, or SQLOCK_WAIT_FOREVER)",
                                (int)wait_ms);
    for (;;) {
        const int64_t now = sqlock_now_us();
        const uint32_t first = stripes_of(&now, sizeof now, n);

        rc = try_all(m, prefix, first, n, &o, out_lock, out_stripe, err);
        left_ms = wait_ms == SQLOCK_WAIT_FOREVER ? SLICE_MS
                                                 : wait_ms - (sqlock_now_us() - begun) / 1000;
        if (!is_held_by_others(rc) || left_ms <= 0)
            return rc;
        o.wait_ms = (int32_t)(left_ms < SLICE_MS ? left_ms : SLICE_MS);
        *out_stripe = first;
        rc = acquire_stripe(m, prefix, first, &o, out_lock, err);
        if (!is_held_by_others(rc))
            return rc;
    }
}
