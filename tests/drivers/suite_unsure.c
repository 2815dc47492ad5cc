/* P5, P18: an acquire whose reply was lost, and which arrives only after its owner has asked to
 * give it back, or to be told what became of it. */
#include "tests/drivers/suite.h"

enum { LEASE_MS = 60000 };
#define ON_THE_WAY_MS patience_ms(700)

/* Its handle. It may be granted until so long after it was sent, or until a shorter lease's end. */
static sqlock_lock *on_its_way_for(struct world *w, sqlock **out_m, int32_t lease_ms)
{
    sqlock_acquire_opts o = wait_opts(ON_THE_WAY_MS, lease_ms, 0);
    sqlock_op *op = NULL;
    sqlock_lock *lock = NULL;

    *out_m = open_with(w, with.request_ms = 2 * ON_THE_WAY_MS + patience_ms(1000));
    spy_hold_back_acquires();
    ok(sqlock_acquire_start(*out_m, "nightly", &o, &op, &said));
    assert_soon(spy_held_back() > 0, patience_ms(1000));
    sqlock_op_cancel(op);
    says(SQLOCK_EUNSURE, sqlock_op_finish(op, &lock, &said));
    assert_state(SQLOCK_UNSURE, lock);
    spy_arrive(0);
    return keep(lock);
}

static sqlock_lock *still_on_its_way(struct world *w, sqlock **out_m)
{
    return on_its_way_for(w, out_m, LEASE_MS);
}

static int note_held(const sqlock_info *info, void *user)
{
    *(int *)user = info->held;
    return 0;
}

/* Whether somebody is in the row; what has been held back arrives first. */
static int row_is_held(sqlock *m)
{
    int held = 0;

    ok(sqlock_list(m, NULL, note_held, &held, &said));
    return held;
}

/* Begin to release; return when the database has been told of it. */
static sqlock_op *release_that_is_reported(sqlock_lock *lock)
{
    long before = spy_runs(SQLOCK_STMT_WITHDRAW);
    sqlock_op *op = NULL;

    ok(sqlock_release_start(lock, &op, &said));
    assert_soon(spy_runs(SQLOCK_STMT_WITHDRAW) > before, patience_ms(1000));
    sleep_ms(50);
    return op;
}

static void assert_released(sqlock *other, sqlock_op *op, sqlock_lock *lock, int64_t sent)
{
    ok(sqlock_op_finish(op, NULL, &said));
    assert_state(SQLOCK_RELEASED, lock);
    assert_between(ON_THE_WAY_MS * INT64_C(1000), now_us() - sent, INT64_MAX);
    assert_int_equal(row_is_held(other), 0);
    assert_true(is_free(other, "nightly"));
    drop(lock);
}

/* The name has no row yet, has one, and others come and go in between: what the release left in the
 * row outlives the next owner's end. */
TEST(test_acquire_that_arrives_after_its_release_grants_nothing)
{
    sqlock *m, *other = open_manager(w, NULL);

    for (int round = 0; round < 3; round++) {
        int64_t sent = now_us();
        sqlock_lock *lock = still_on_its_way(w, &m);
        sqlock_op *op = release_that_is_reported(lock);

        assert_int_equal(sqlock_op_step(op), 0); /* nobody can know yet */
        if (round == 2)
            give(take(other, "nightly"));
        spy_arrive(1);
        row_is_held(other);
        assert_int_equal(row_is_held(other), 0);
        assert_released(other, op, lock, sent);
    }
}

/* P6: a holder whose lock was broken, and who asks when somebody has withdrawn an acquire. */
TEST(test_withdrawal_leaves_the_reason_of_a_loss)
{
    sqlock *m, *other = open_manager(w, NULL);
    sqlock_lock *broken = take_for(other, "nightly", 60000, SQLOCK_NO_RENEW);
    sqlock_lock *lock = still_on_its_way(w, &m);

    ok(sqlock_break(m, "nightly", sqlock_lock_token(broken), &said));
    ok(sqlock_release(lock, &said));
    says(SQLOCK_ELOST, sqlock_renew(broken, &said));
    assert_lost(broken, SQLOCK_WHY_BROKEN);
}

/* Somebody else has it: that does not say that ours will not come. */
CORE_TEST(test_settle_is_not_sure_while_the_acquire_may_still_arrive)
{
    sqlock *m, *other = open_manager(w, NULL);
    int64_t sent = now_us();
    sqlock_lock *lock = still_on_its_way(w, &m), *theirs = take(other, "nightly");

    says(SQLOCK_EUNSURE, sqlock_settle(lock, 50, &said));
    assert_state(SQLOCK_UNSURE, lock);
    says(SQLOCK_EBUSY, sqlock_settle(lock, 4 * ON_THE_WAY_MS, &said));
    assert_between(ON_THE_WAY_MS * INT64_C(1000), now_us() - sent, INT64_MAX);
    assert_lost(lock, SQLOCK_WHY_NOT_GRANTED);
    give(theirs);
}

/* The holder could believe in it no more: nobody would know of it for another lease. */
TEST(test_acquire_that_arrives_after_its_lease_grants_nothing)
{
    sqlock *m, *other = open_manager(w, NULL);

    on_its_way_for(w, &m, ON_THE_WAY_MS / 4);
    sleep_ms(ON_THE_WAY_MS / 4 + 50);
    spy_arrive(1);
    row_is_held(other);
    assert_int_equal(row_is_held(other), 0);
}

/* The settling's own request is lost too: good for a moment only, it is no word on the first. */
CORE_TEST(test_settling_that_is_lost_does_not_shorten_the_doubt)
{
    sqlock *m, *other = open_manager(w, NULL);
    int64_t sent = now_us();
    sqlock_lock *lock = still_on_its_way(w, &m), *theirs = take(other, "nightly");
    int32_t ms = 25;
    int rc;

    spy_hold_back_acquires();
    do /* a busy machine may not even send it in so short a time */
        says(SQLOCK_EUNSURE, sqlock_settle(lock, ms *= 2, &said));
    while (spy_held_back() == 0 && ms < ON_THE_WAY_MS / 4);
    assert_between(1, spy_held_back(), INT32_MAX);
    spy_arrive(0);
    sleep_ms(ms);
    rc = sqlock_settle(lock, 50, &said);
    if (now_us() - sent < ON_THE_WAY_MS * INT64_C(1000))
        says(SQLOCK_EUNSURE, rc);
    says(SQLOCK_EBUSY, sqlock_settle(lock, 4 * ON_THE_WAY_MS, &said));
    give(theirs);
}

CORE_TEST(test_settle_of_an_acquire_that_arrived_says_held)
{
    sqlock *m, *other = open_manager(w, NULL);
    sqlock_lock *lock = still_on_its_way(w, &m);

    spy_arrive(1);
    row_is_held(other);
    assert_int_equal(row_is_held(other), 1);
    ok(sqlock_settle(lock, 0, &said));
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* P5: asked again it says the same, and a second handle of the owner is never granted anything. */
TEST(test_release_of_an_unsure_acquire_sent_again_says_released)
{
    sqlock *m, *other = open_manager(w, NULL);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = still_on_its_way(w, &m), *again = NULL;
    unsigned char owner[SQLOCK_OWNER_SIZE];

    memcpy(owner, sqlock_lock_owner(lock), sizeof owner);
    spy_arrive(1);
    row_is_held(other);
    assert_int_equal(row_is_held(other), 1);
    spy_lose_reply(SQLOCK_STMT_WITHDRAW);
    ok(sqlock_release(lock, &said)); /* asked twice */
    assert_int_equal(spy_runs(SQLOCK_STMT_WITHDRAW), 2);
    ok(sqlock_release(lock, &said));
    assert_int_equal(row_is_held(other), 0);
    o.owner = owner;
    says(SQLOCK_ELOST, sqlock_acquire(other, "nightly", &o, &again, &said));
}
