#include "tests/lib/fake_quirks.h"

static void make(struct place *p)
{
    p->own = p->connect_user = sqlock_fake_new();
    assert_non_null(p->own);
    p->connect = sqlock_fake_connect;
}

static void drop(struct place *p)
{
    sqlock_fake_free(p->own);
}

static void age(const struct place *p, int64_t ms)
{
    sqlock_fake_step_clock(p->own, ms);
}

const struct quirks fake_quirks = {.name = "fake",
                                   .driver = sqlock_driver_fake,
                                   .born_migrated = true,
                                   .tries_core = true,
                                   .make = make,
                                   .drop = drop,
                                   .age = age};

sqlock_fake *fake_at(const struct place *p)
{
    return p->own;
}
