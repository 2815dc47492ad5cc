/* Many callers' requests in one, on the fake driver: one whose time ends, or who is cancelled,
 * takes no other along. */
#define SUITE_NEEDS BATCHES
#include "tests/drivers/fake_batch.h"

TEST_AFTER(begin_crowd, test_P8_follower_whose_time_ends_leaves_its_batch_in_doubt)
{
    struct caller *c = &crowd.callers[4];
    long opens = spy_opens();

    c->opts.wait_ms = 400;
    atomic_store(&gate.hang_ms, 1500);
    gather();
    let_through();
    check_others_granted(4);
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    assert_true(c->ended < crowd.callers[5].ended);
    assert_int_equal(spy_opens(), opens);
}

static sqlock_cancel *cancel_for(struct caller *c)
{
    sqlock_cancel *cancel = NULL;

    ok(sqlock_cancel_new(&cancel, &said));
    c->opts.cancel = cancel;
    return cancel;
}

/* The batch hangs in the database, after so many runs of acquires. */
static void await_batch(long runs)
{
    atomic_store(&gate.shut, 0);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == runs, patience_ms(3000));
}

/* It learns at once that no one knows, and may free its handle while the batch is under way. */
static void cancel_caller(struct caller *c)
{
    int64_t fired = now_us();

    sqlock_cancel_fire(c->opts.cancel);
    end_caller(c);
    sqlock_cancel_free(c->opts.cancel);
    assert_between(0, c->ended - fired, late_ms(50) * INT64_C(1000));
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    drop(c->lock);
    c->lock = NULL;
}

/* P8: the others get their answers over the same connection. */
TEST_AFTER(begin_crowd, test_P8_cancelled_follower_leaves_its_batch_in_doubt)
{
    struct caller *c = &crowd.callers[4];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    cancel_for(c);
    atomic_store(&gate.hang_ms, 1000);
    gather();
    await_batch(runs + 2);
    cancel_caller(c);
    let_through();
    check_others_granted(4);
    assert_int_equal(spy_opens(), opens);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
}

/* P8, P25: another thread goes on to wait for the answer. */
TEST_AFTER(begin_crowd, test_P25_cancelled_leader_ends_soon_and_the_others_get_their_answers)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    cancel_for(c);
    atomic_store(&gate.hang_ms, 1000);
    gather();
    await_batch(runs + 2);
    cancel_caller(c);
    let_through();
    check_others_granted(0);
    for (int i = 1; i < MEMBERS; i++)
        assert_token_is_the_rows(&crowd.callers[i]);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3); /* no one had to settle */
    assert_int_equal(spy_opens(), opens);
}

TEST_AFTER(begin_crowd, test_P25_who_leads_after_the_leader_may_leave_too)
{
    struct caller *last = &crowd.callers[MEMBERS - 1]; /* it can wait longest */
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    cancel_for(&crowd.callers[0]);
    cancel_for(last);
    atomic_store(&gate.hang_ms, 1500);
    gather();
    await_batch(runs + 2);
    cancel_caller(&crowd.callers[0]);
    await_batch(runs + 3);
    cancel_caller(last);
    await_batch(runs + 4);
    let_through();
    for (int i = 1; i < MEMBERS - 1; i++)
        assert_granted(&crowd.callers[i]);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 4);
    assert_int_equal(spy_opens(), opens);
}

TEST_AFTER(begin_crowd, test_P25_leader_whose_time_ends_leaves_the_others_their_time)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    for (int i = 0; i < MEMBERS; i++)
        crowd.callers[i].opts.wait_ms = i == 0 ? 2000 : 3500; /* so the first one leads */
    atomic_store(&gate.hang_ms, 2500);
    gather();
    await_batch(runs + 2);
    end_caller(c);
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    assert_int_equal(atomic_load(&gate.held), 0);
    let_through();
    check_others_granted(0);
    assert_true(c->ended < crowd.callers[5].ended);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3);
    assert_int_equal(spy_opens(), opens);
}

/* The last one ends the call. */
TEST_AFTER(begin_crowd, test_P8_batch_that_no_one_waits_for_is_cancelled)
{
    struct caller *c = crowd.callers;
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);
    int64_t begun;

    for (int i = 0; i < MEMBERS; i++)
        cancel_for(&c[i]);
    atomic_store(&gate.hang_ms, 15000);
    gather();
    await_batch(runs + 2);
    begun = now_us();
    for (int i = 1; i < MEMBERS; i++)
        cancel_caller(&c[i]);
    cancel_caller(&c[0]);
    let_through();
    give(take(crowd.m, "later"));
    assert_between(0, now_us() - begun, 10 * INT64_C(1000000));
    assert_int_equal(spy_opens(), opens + 1); /* that one was given up */
}

/* Whoever was cancelled has left, even if the answer came before its thread noticed. */
TEST_AFTER(begin_crowd, test_P25_cancelled_member_never_learns_of_success)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens();

    cancel_for(c);
    atomic_store(&gate.hold, 1);
    gather();
    atomic_store(&gate.shut, 0);
    assert_soon(atomic_load(&gate.held), patience_ms(3000));
    sqlock_cancel_fire(c->opts.cancel);
    atomic_store(&gate.hold, 0);
    let_through();
    check_others_granted(0);
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    ok(sqlock_settle(c->lock, patience_ms(5000), &said)); /* it was granted */
    assert_int_equal(spy_opens(), opens);
    sqlock_cancel_free(c->opts.cancel);
}

/* Where the driver cannot pause, a leader's end would cut off the others: the one with the most
 * time leads. */
TEST_AFTER(begin_crowd, test_P8_who_has_little_time_does_not_lead_a_batch)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    w->driver.caps &= ~SQLOCK_CAP_PAUSES;
    c->opts.wait_ms = 500;
    atomic_store(&gate.hang_ms, 1500);
    gather();
    let_through();
    check_others_granted(0);
    if (c->code != SQLOCK_ETIMEOUT) /* it gave the connection away, and may miss the batch */
        assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    assert_true(c->ended < crowd.callers[5].ended);
    assert_int_equal(spy_opens(), opens); /* nothing was cut, and no one had to settle */
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
}

TEST_MAIN_ON(fake)
