/* Attempts that end under a lock, if optimism does not help. */
#include <sqlock/retry.h>

#include "tests/drivers/suite.h"

struct tries {
    sqlock *other;
    int made, with_lock;
    int64_t token;
    bool lose; /* the first lock is broken under the attempt */
};

static int spoiled(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    struct tries *t = user;

    t->made++;
    if (!attempt->pessimistic) {
        assert_null(attempt->lock);
        assert_true(is_free(t->other, "price"));
        return SQLOCK_CONFLICT;
    }
    t->with_lock++;
    assert_non_null(attempt->lock);
    assert_true(sqlock_is_held(attempt->lock));
    assert_true(sqlock_lock_token(attempt->lock) >= t->token);
    t->token = sqlock_lock_token(attempt->lock);
    assert_int_equal(try_once(t->other, "price"), SQLOCK_EBUSY);
    if (t->lose && t->with_lock == 1) {
        assert_ok(sqlock_break(t->other, "price", t->token, err), err);
        assert_code(SQLOCK_ELOST, sqlock_renew(attempt->lock, err), err);
        return SQLOCK_ELOST;
    }
    return t->with_lock < 2 ? SQLOCK_CONFLICT : 0;
}

static sqlock_retry_opts under(const char *name)
{
    sqlock_retry_opts o = SQLOCK_RETRY_OPTS_INIT;

    o.optimistic = 2;
    o.base_ms = 1;
    o.lock_name = name;
    return o;
}

CORE_TEST(test_attempts_after_the_optimistic_ones_have_the_lock, m)
{
    struct tries t = {.other = open_manager(w, NULL)};
    sqlock_retry_opts o = under("price");

    ok(sqlock_retry(m, spoiled, &t, &o, &said));
    assert_int_equal(t.made, 4);
    assert_int_equal(t.with_lock, 2);
    assert_true(is_free(t.other, "price")); /* given back */
}

CORE_TEST(test_lock_that_was_lost_is_taken_anew, m)
{
    struct tries t = {.other = open_manager(w, NULL), .lose = true};
    sqlock_retry_opts o = under("price");

    ok(sqlock_retry(m, spoiled, &t, &o, &said));
    assert_int_equal(t.with_lock, 2);
    assert_true(is_free(t.other, "price"));
}

CORE_TEST(test_lock_that_is_not_to_be_had_is_the_end, m)
{
    struct tries t = {.other = open_manager(w, NULL)};
    sqlock_retry_opts o = under("taken");
    sqlock_lock *theirs = take(t.other, "taken");
    int64_t before = sqlock_now_us();

    o.total_ms = 300;
    says(SQLOCK_EBUSY, sqlock_retry(m, spoiled, &t, &o, &said));
    assert_int_equal(t.made, 2);
    assert_true(sqlock_now_us() - before < patience_ms(5000) * 1000);
    give(theirs);
}
