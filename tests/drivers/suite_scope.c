/* Scoped use: whatever way the scope is left, the lock is given back. Attempts that end under a
 * lock, if optimism does not help. */
#include <sqlock/retry.h>

#include "tests/drivers/suite.h"

struct work {
    sqlock *other;
    int calls;
    int held;
    int busy_for_others;
    int lose, broken;
    int result;
};

static int do_work(sqlock_lock *lock, void *user)
{
    struct work *k = user;

    k->calls++;
    k->held = sqlock_is_held(lock);
    k->busy_for_others = try_once(k->other, "nightly") == SQLOCK_EBUSY;
    if (k->lose)
        k->broken = sqlock_break(k->other, "nightly", sqlock_lock_token(lock), NULL);
    return k->result;
}

CORE_TEST(test_work_is_done_under_the_lock, m)
{
    struct work k = {.other = open_manager(w, NULL), .result = 42};
    int result = -1;

    ok(sqlock_with(m, "nightly", NULL, do_work, &k, &result, &said));
    assert_int_equal(k.calls, 1);
    assert_int_equal(k.held, 1);
    assert_int_equal(k.busy_for_others, 1);
    assert_int_equal(result, 42);
    assert_true(is_free(k.other, "nightly"));
    ok(sqlock_with(m, "nightly", NULL, do_work, &k, NULL, &said));
    assert_int_equal(k.calls, 2);
}

CORE_TEST(test_work_is_not_done_without_the_lock, m)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    struct work k = {.other = open_manager(w, NULL)};
    sqlock_lock *lock = take(k.other, "nightly");
    int result = -1;

    says(SQLOCK_EBUSY, sqlock_with(m, "nightly", &o, do_work, &k, &result, &said));
    says(SQLOCK_EINVAL, sqlock_with(m, "", &o, do_work, &k, &result, &said));
    assert_int_equal(k.calls, 0);
    assert_int_equal(result, -1);
    give(lock);
}

CORE_TEST(test_work_that_outlived_its_lock_is_reported_lost, m)
{
    struct work k = {.other = open_manager(w, NULL), .lose = 1, .result = 7};
    int result = -1;

    says(SQLOCK_ELOST, sqlock_with(m, "nightly", NULL, do_work, &k, &result, &said));
    assert_int_equal(k.calls, 1);
    assert_int_equal(result, 7);
    assert_true(is_free(k.other, "nightly"));
}

static int leave_early(sqlock *m, sqlock *other)
{
    SQLOCK_SCOPED sqlock_lock *lock = NULL;

    if (sqlock_acquire(m, "nightly", NULL, &lock, NULL) != 0)
        return -1;
    return try_once(other, "nightly");
}

CORE_TEST(test_scope_gives_back_the_lock_on_every_way_out, m, other)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(leave_early(m, other), SQLOCK_EBUSY);
        assert_true(is_free(other, "nightly"));
    }
    {
        SQLOCK_SCOPED sqlock_lock *nothing = NULL; /* never acquired */
        (void)nothing;
    }
}

/* P5: no answer to the acquire, nor to its settling: what may be granted is given back. */
CORE_TEST(test_acquire_that_cannot_be_settled_is_withdrawn)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    struct work k = {.other = open_manager(w, NULL)};
    sqlock *m = open_with(w, with.request_ms = patience_ms(300));

    spy_hold_back_acquires();
    says(SQLOCK_EUNSURE, sqlock_with(m, "nightly", &o, do_work, &k, NULL, &said));
    spy_arrive(0);
    assert_int_equal(k.calls, 0);
    assert_between(1, spy_runs(SQLOCK_STMT_WITHDRAW), INT64_MAX);
}

CORE_TEST(test_end_releases_and_frees_in_any_state, m, other)
{
    sqlock_lock *lock = forget(take(m, "nightly"));

    ok(sqlock_lock_end(&lock, &said));
    assert_null(lock);
    assert_true(is_free(other, "nightly"));
    ok(sqlock_lock_end(&lock, &said));
    ok(sqlock_lock_end(NULL, &said));

    lock = forget(take(m, "nightly"));
    ok(sqlock_break(other, "nightly", sqlock_lock_token(lock), &said));
    says(SQLOCK_ELOST, sqlock_lock_end(&lock, &said));
    assert_null(lock);

    lock = forget(take(m, "nightly"));
    ok(sqlock_release(lock, &said));
    ok(sqlock_lock_end(&lock, &said));
    assert_null(lock);
}

/* ---- attempts -------------------------------------------------------------------------------- */

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
