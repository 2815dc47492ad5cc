/* Who an acquire says does the work: what becomes of that, and what is refused. */
#define SUITE_NEEDS QUEUES
#include "tests/drivers/suite_actor.h"

sqlock_acquire_opts actor_opts(const char *actor, int64_t mode, int32_t wait_ms)
{
    sqlock_acquire_opts o = mode_opts(mode, wait_ms);

    o.actor = actor;
    return o;
}

sqlock_lock *hold_as(sqlock *m, const char *actor, const char *name, int64_t mode)
{
    sqlock_acquire_opts o = actor_opts(actor, mode, ACTOR_WAIT_MS);

    return take_with(m, name, &o);
}

static bool same_actor(sqlock_lock *a, sqlock_lock *b)
{
    const unsigned char *x = sqlock_lock_owner(a), *y = sqlock_lock_owner(b);

    assert_memory_not_equal(x + 8, y + 8, 8);
    return memcmp(x, y, 8) == 0;
}

TEST(test_owners_of_an_actor_begin_with_the_same_bytes, m, other)
{
    sqlock_lock *a = hold_as(m, "job 1", "a", SQLOCK_EXCLUSIVE);
    sqlock_lock *b = hold_as(other, "job 1", "b", SQLOCK_SHARED);
    sqlock_lock *c = hold_as(m, "job 2", "c", SQLOCK_EXCLUSIVE), *d = take(m, "d"),
                *e = take(m, "e");

    assert_true(same_actor(a, b));
    assert_false(same_actor(a, c));
    assert_false(same_actor(c, d));
    assert_false(same_actor(d, e));
}

TEST(test_actor_is_shown_behind_the_managers_label)
{
    sqlock *m = open_with(w, with.label = "nightly");
    sqlock_acquire_opts o = actor_opts("job 1", SQLOCK_EXCLUSIVE, 0);
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_lock *a = hold_as(m, "job 1", "a", SQLOCK_EXCLUSIVE), *none = NULL;

    o.holder = &holder;
    says(SQLOCK_EBUSY, sqlock_acquire(m, "a", &o, &none, &said));
    assert_non_null(strstr(holder.label, " nightly job 1"));
    give(a);
    o.label = "mine";
    a = take_with(m, "a", &o);
    says(SQLOCK_EBUSY, sqlock_acquire(m, "a", &o, &none, &said));
    assert_null(strstr(holder.label, "job 1"));
    assert_non_null(strstr(holder.label, " mine"));
}

TEST(test_actors_that_cannot_be_are_refused, m)
{
    char longest[SQLOCK_ACTOR_MAX + 2];
    sqlock_acquire_opts o = actor_opts("job 1", SQLOCK_EXCLUSIVE, 0);
    sqlock_lock *a = take(m, "a"), *none = NULL;
    long runs = spy_runs(-1);

    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    o.owner = sqlock_lock_owner(a);
    says(SQLOCK_EINVAL, sqlock_acquire(m, "b", &o, &none, &said));
    o.owner = NULL;
    says(SQLOCK_EINVAL,
         sqlock_import(m, "a", sqlock_lock_owner(a), sqlock_lock_token(a), &o, &none, &said));
    o.actor = "";
    says(SQLOCK_EINVAL, sqlock_acquire(m, "b", &o, &none, &said));
    o.actor = "\xff";
    says(SQLOCK_EINVAL, sqlock_acquire(m, "b", &o, &none, &said));
    o.actor = longest;
    says(SQLOCK_EINVAL, sqlock_acquire(m, "b", &o, &none, &said));
    assert_int_equal(spy_runs(-1), runs);
    o.actor = longest + 1;
    give(take_with(m, "b", &o));
}
