/* Striped locks (recipes/stripes.h): by key, and whichever is free. */
#include "recipes/stripes.h"
#include "tests/drivers/suite.h"

enum { STRIPES = 3 };

static int take_any(sqlock *m, int32_t wait_ms, sqlock_lock **out_lock, uint32_t *out_stripe)
{
    sqlock_acquire_opts opts = wait_opts(wait_ms, 0, 0);

    return stripes_acquire_any(m, "stock", STRIPES, &opts, out_lock, out_stripe, &said);
}

/* All of them; a fourth one is refused. */
static void take_all(sqlock *m, sqlock *other, sqlock_lock *locks[STRIPES])
{
    bool taken[STRIPES] = {false};
    sqlock_lock *none = NULL;
    uint32_t stripe = 0;

    for (int i = 0; i < STRIPES; i++) {
        ok(take_any(i % 2 ? m : other, 0, &locks[i], &stripe));
        keep(locks[i]);
        assert_true(stripe < STRIPES && !taken[stripe]);
        taken[stripe] = true;
        assert_int_equal(atoi(strchr(sqlock_lock_name(locks[i]), '/') + 1), stripe);
    }
    says(SQLOCK_EBUSY, take_any(m, 0, &none, &stripe));
    assert_null(none);
}

TEST(test_as_many_hold_as_there_are_stripes, m, other)
{
    sqlock_lock *locks[STRIPES], *one;
    uint32_t stripe = 0;

    take_all(m, other, locks);
    for (int i = 0; i < STRIPES; i++) {
        char *end = strchr(sqlock_lock_name(locks[i]), '/') + 1;
        uint32_t freed = (uint32_t)atoi(end);

        give(locks[i]);
        ok(take_any(other, 0, &one, &stripe));
        keep(one);
        assert_int_equal(stripe, freed);
    }
}

static void *give_later(void *lock)
{
    sleep_ms(300);
    return sqlock_release(lock, NULL) == 0 ? lock : NULL;
}

/* Whichever comes free, a waiter finds it. */
TEST(test_waiter_gets_the_stripe_that_comes_free, m, other)
{
    sqlock_lock *locks[STRIPES], *one = NULL;
    uint32_t stripe = 0;
    pthread_t thread;

    take_all(m, other, locks);
    for (int i = 0; i < STRIPES; i++) {
        assert_int_equal(pthread_create(&thread, NULL, give_later, locks[i]), 0);
        assert_takes(250, patience_ms(5000), ok(take_any(m, 20000, &one, &stripe)));
        pthread_join(thread, NULL);
        locks[i] = keep(one);
    }
    assert_takes(350, patience_ms(3000), says(SQLOCK_EBUSY, take_any(m, 400, &one, &stripe)));
}

TEST(test_what_has_the_same_key_meets, m, other)
{
    sqlock_acquire_opts now = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL, *second = NULL;
    int64_t id = 4711, other_id = id;

    ok(stripes_acquire_key(m, "account", 64, &id, sizeof id, &now, &lock, &said));
    keep(lock);
    says(SQLOCK_EBUSY,
         stripes_acquire_key(other, "account", 64, &id, sizeof id, &now, &second, &said));
    while (stripes_of(&other_id, sizeof other_id, 64) == stripes_of(&id, sizeof id, 64))
        other_id++;
    ok(stripes_acquire_key(other, "account", 64, &other_id, sizeof other_id, &now, &second, &said));
    keep(second);
}

CORE_TEST(test_keys_are_divided_evenly_and_everywhere_alike)
{
    int counts[16] = {0};

    for (int i = 0; i < 16000; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "user-%d", i);

        counts[stripes_of(key, (size_t)len, 16)]++;
    }
    for (int i = 0; i < 16; i++)
        assert_between(850, counts[i], 1150);
    assert_int_equal(stripes_of("foobar", 6, 1000000), 447275); /* for ever: others count on it */
    assert_int_equal(stripes_of("foobar", 6, 1), 0);
}

CORE_TEST(test_wrong_numbers_of_stripes_are_refused, m)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    char prefix[SQLOCK_NAME_MAX + 1];
    sqlock_lock *lock = NULL;
    uint32_t stripe = 0;

    memset(prefix, 'x', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    says(SQLOCK_EINVAL, stripes_acquire_any(m, "stock", 0, NULL, &lock, &stripe, &said));
    says(SQLOCK_EINVAL, stripes_acquire_any(m, "stock", 100001, NULL, &lock, &stripe, &said));
    says(SQLOCK_EINVAL, stripes_acquire_any(m, NULL, 3, NULL, &lock, &stripe, &said));
    says(SQLOCK_EINVAL, stripes_acquire_any(m, prefix, 3, NULL, &lock, &stripe, &said));
    opts.actor = "job";
    says(SQLOCK_EINVAL, stripes_acquire_any(m, "stock", 3, &opts, &lock, &stripe, &said));
    prefix[SQLOCK_NAME_MAX - 6] = '\0';
    ok(stripes_acquire_any(m, prefix, STRIPES_MAX, NULL, &lock, &stripe, &said));
    keep(lock);
}

CORE_TEST(test_wrong_waits_for_a_stripe_are_refused, m)
{
    static const int32_t waits[] = {-2, -5, INT32_MIN};
    sqlock_lock *lock = NULL;
    uint32_t stripe = 0;

    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        sqlock_acquire_opts opts = wait_opts(waits[i], 0, 0);

        says(SQLOCK_EINVAL, stripes_acquire_key(m, "stock", 3, "x", 1, &opts, &lock, &said));
        says(SQLOCK_EINVAL, take_any(m, waits[i], &lock, &stripe));
        assert_non_null(strstr(said.text, "wait_ms"));
        assert_null(lock);
    }
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE), 0);
}
