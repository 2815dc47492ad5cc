/* Requests for event loops: start, descriptor, step, finish; and cancel. */
#include "tests/drivers/suite.h"

/* As an event loop does it. */
static int loop_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    assert_true(readable_within(sqlock_op_fd(op), patience_ms(5000)));
    assert_int_equal(sqlock_op_step(op), 1);
    assert_int_equal(sqlock_op_step(op), 1);
    return sqlock_op_finish(op, out_lock, err);
}

static sqlock_op *start(sqlock *m, const char *name, int32_t wait_ms)
{
    sqlock_acquire_opts o = wait_opts(wait_ms, 0, 0);
    sqlock_op *op = NULL;

    ok(sqlock_acquire_start(m, name, &o, &op, &said));
    assert_non_null(op);
    assert_between(0, sqlock_op_fd(op), INT32_MAX);
    return op;
}

CORE_TEST(test_loop_acquires_renews_and_releases, m)
{
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    int64_t deadline;

    ok(loop_finish(start(m, "nightly", 0), &lock, &said));
    assert_true(sqlock_is_held(lock));
    deadline = sqlock_lock_deadline_us(lock);
    sleep_ms(5);
    ok(sqlock_renew_start(lock, &op, &said));
    ok(loop_finish(op, NULL, &said));
    assert_between(deadline + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    ok(sqlock_release_start(lock, &op, &said));
    assert_false(sqlock_is_held(lock));
    ok(loop_finish(op, NULL, &said));
    assert_state(SQLOCK_RELEASED, lock);
    drop(lock);
    assert_true(is_free(m, "nightly"));
}

CORE_TEST(test_loop_that_waits_is_woken_by_the_grant, a, b)
{
    sqlock_lock *lock = take(a, "nightly"), *next = NULL;
    sqlock_op *op = start(b, "nightly", SQLOCK_WAIT_FOREVER);

    assert_false(readable_within(sqlock_op_fd(op), 300));
    assert_int_equal(sqlock_op_step(op), 0);
    give(lock);
    ok(loop_finish(op, &next, &said));
    give(next);
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* P18: as the errors of blocking calls do, whether the request began or not. */
CORE_TEST(test_errors_of_loops_say_what_was_called_and_the_name, m)
{
    sqlock_lock *lock = take(m, "nightly"), *none = NULL;
    sqlock_op *op = NULL;

    says(SQLOCK_EBUSY, loop_finish(start(m, "nightly", 0), &none, &said));
    assert_true(begins_with(said.text, "acquire \"nightly\": held by "));
    says(SQLOCK_EINVAL, sqlock_acquire_start(m, "", NULL, &op, &said));
    assert_true(begins_with(said.text, "acquire: "));
    says(SQLOCK_EINVAL, sqlock_release_start(lock, NULL, &said));
    assert_string_equal(said.text, "release: out_op is NULL");
    ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    ok(sqlock_release_start(lock, &op, &said));
    says(SQLOCK_ELOST, loop_finish(op, NULL, &said));
    assert_true(begins_with(said.text, "release \"nightly\": "));
    says(SQLOCK_ELOST, sqlock_renew_start(lock, &op, &said));
    assert_true(begins_with(said.text, "renew \"nightly\": "));
    drop(lock);
}

CORE_TEST(test_loops_timed_wait_ends_on_time_and_says_who_holds_the_lock, a, b)
{
    sqlock_holder h = {.size = sizeof h};
    sqlock_acquire_opts o = wait_opts(300, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_op *op = NULL;
    int64_t begun;

    give(take(b, "other")); /* so that the renewals' connection is there */
    o.holder = &h;
    begun = now_us();
    ok(sqlock_acquire_start(b, "nightly", &o, &op, &said));
    says(SQLOCK_EBUSY, loop_finish(op, &none, &said));
    assert_between(290000, now_us() - begun, (300 + late_ms(100)) * INT64_C(1000));
    assert_null(none);
    assert_int_equal(h.token, sqlock_lock_token(lock));
    assert_non_null(strstr(said.text, h.label));
    give(lock);
}

/* One that was cut in the middle of a try may have been applied (P5). Its handle tells that it was
 * not, for somebody else has the lock; if its manager is closed, nobody tells any more. */
static void finish_cut(sqlock_op *op, bool closed)
{
    sqlock_lock *unsure = NULL;
    int64_t begun = now_us();
    int rc = loop_finish(op, &unsure, &said);

    assert_between(0, now_us() - begun, late_ms(200) * INT64_C(1000));
    if (rc != SQLOCK_EUNSURE) {
        says(SQLOCK_ECANCELLED, rc);
        assert_null(unsure);
        return;
    }
    assert_non_null(unsure);
    assert_false(sqlock_is_held(unsure));
    if (!closed)
        says(SQLOCK_EBUSY, sqlock_settle(unsure, patience_ms(10000), &said));
    drop(unsure);
}

CORE_TEST(test_loop_cancels_a_waiting_acquire, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *op = start(b, "nightly", SQLOCK_WAIT_FOREVER);

    sleep_ms(300);
    sqlock_op_cancel(op);
    sqlock_op_cancel(op);
    finish_cut(op, false);
    give(lock);
    assert_soon(is_free(b, "nightly"), patience_ms(1000)); /* it may have been offered to b */
}

CORE_TEST(test_cancel_after_the_end_changes_nothing, m)
{
    sqlock_lock *lock = NULL;
    sqlock_op *op = start(m, "nightly", 0);

    assert_soon(sqlock_op_step(op) == 1, patience_ms(5000));
    sqlock_op_cancel(op);
    ok(sqlock_op_finish(op, &lock, &said));
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* As sqlock_lock_free() does: the row's lease runs out by itself. */
CORE_TEST(test_finish_without_a_place_for_the_lock_frees_it, m)
{
    sqlock_acquire_opts o = wait_opts(0, 300, 0);
    sqlock_op *op = NULL;

    ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    ok(sqlock_op_finish(op, NULL, &said));
    give(take(m, "nightly"));
}

/* A loop has nothing but the descriptor to wait for: also for an answer that was known before. */
CORE_TEST(test_second_release_wakes_the_loop_too, m)
{
    sqlock_lock *lock = take(m, "nightly");
    sqlock_op *op = NULL;

    for (int i = 0; i < 2; i++) {
        ok(sqlock_release_start(lock, &op, &said));
        ok(loop_finish(op, NULL, &said));
    }
}

enum { AT_ONCE = 20 };

CORE_TEST(test_many_requests_are_under_way_at_once, m)
{
    sqlock_lock *locks[AT_ONCE] = {NULL};
    sqlock_op *ops[AT_ONCE];
    char name[32];

    for (int i = 0; i < AT_ONCE; i++) {
        snprintf(name, sizeof name, "at once/%d", i);
        ops[i] = start(m, name, patience_ms(10000));
    }
    for (int i = AT_ONCE - 1; i >= 0; i--)
        ok(loop_finish(ops[i], &locks[i], &said));
    for (int i = 0; i < AT_ONCE; i++)
        ok(sqlock_release_start(locks[i], &ops[i], &said));
    for (int i = 0; i < AT_ONCE; i++) {
        ok(loop_finish(ops[i], NULL, &said));
        drop(locks[i]);
    }
}

/* P7: the same thread does both. */
CORE_TEST(test_waiting_requests_do_not_keep_renewals_waiting, a, b)
{
    sqlock_lock *busy = take(a, "busy"), *held = take_for(b, "held", patience_ms(600), 0);
    sqlock_op *ops[5];

    for (int i = 0; i < 5; i++)
        ops[i] = start(b, "busy", SQLOCK_WAIT_FOREVER);
    stays_held(held, patience_ms(1400));
    for (int i = 0; i < 5; i++) {
        sqlock_op_cancel(ops[i]);
        finish_cut(ops[i], false);
    }
    give(held);
    give(busy);
}

static struct told slow;

/* A lock at risk, with its callback running, which takes half a second. */
static sqlock_lock *take_with_slow_callback(sqlock *m)
{
    sqlock_acquire_opts o = reported_opts(&slow, 1500, SQLOCK_NO_RENEW);
    sqlock_lock *lock;

    atomic_store(&slow.hold_up_ms, 500);
    lock = take_with(m, "nightly", &o);
    assert_soon(atomic_load(&slow.in_callback), patience_ms(3000));
    return lock;
}

/* P8: a loop that waited for its own program's callback would stand still with it. */
TEST_IF(CORE_TRIED | LIBRARY_THREADS, test_start_of_a_release_does_not_wait_for_a_callback, m)
{
    sqlock_lock *lock = take_with_slow_callback(m);
    sqlock_op *op = NULL;
    int64_t begun = now_us();

    ok(sqlock_release_start(lock, &op, &said));
    ok(loop_finish(op, NULL, &said));
    assert_between(0, now_us() - begun, late_ms(300) * INT64_C(1000));
    assert_int_equal(atomic_load(&slow.at_risk), 0);
    drop(lock);
    assert_int_equal(atomic_load(&slow.at_risk), 1);
    assert_int_equal(atomic_load(&slow.lost), 0);
}

/* Whoever waits for the lock does not wait for the callback; who released it does. */
CORE_TEST(test_release_gives_the_lock_back_before_it_waits_for_a_callback, m)
{
    sqlock_lock *lock = take_with_slow_callback(m);

    ok(sqlock_release(lock, &said)); /* its lease ends before the callback does */
    assert_state(SQLOCK_RELEASED, lock);
    assert_int_equal(atomic_load(&slow.at_risk), 1);
}

/* The request cannot be made any more; its handle still has to be finished. */
CORE_TEST(test_close_ends_what_is_under_way, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *op = start(b, "nightly", SQLOCK_WAIT_FOREVER);

    sleep_ms(50);
    close_manager(w, b);
    finish_cut(op, true);
    give(lock);
}
