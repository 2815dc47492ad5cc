/* P3, P5: calls on a grant that has ended, and what the caller is told of how it ended. */
#include "tests/drivers/suite.h"

/* P3, P5 */
CORE_TEST(test_release_sent_again_says_released_and_frees_no_one, m)
{
    sqlock_lock *lock = take(m, "nightly"), *next;

    ok(sqlock_release(lock, &said));
    assert_state(SQLOCK_RELEASED, lock);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NONE);
    next = take(m, "nightly");
    ok(sqlock_release(lock, &said));
    says(SQLOCK_ESTATE, sqlock_renew(lock, &said));
    assert_state(SQLOCK_RELEASED, lock);
    assert_false(sqlock_is_held(lock));
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    give(next);
}

/* A call says that the lock is lost, and the handle why. */
#define loses(call, lock, reason)                                                                  \
    do {                                                                                           \
        says(SQLOCK_ELOST, call(lock, &said));                                                     \
        assert_state(SQLOCK_LOST, lock);                                                           \
        assert_int_equal(sqlock_lock_why(lock), reason);                                           \
    } while (0)

struct broken {
    sqlock *a, *b;
    sqlock_lock *lock;
};

/* A lock of a that has been broken; NO_RENEW, so that nobody has told its holder. */
static struct broken broken_lock(struct world *w)
{
    struct broken s = {.a = open_manager(w, NULL), .b = open_manager(w, NULL)};

    s.lock = take_for(s.a, "nightly", 20000, SQLOCK_NO_RENEW);
    ok(sqlock_break(s.b, "nightly", sqlock_lock_token(s.lock), &said));
    assert_true(sqlock_is_held(s.lock)); /* nothing but the database knows */
    return s;
}

/* Whoever holds the lock holds it still, after what somebody else was told of theirs. */
static void expect_holder(sqlock *other, sqlock_lock *holder)
{
    assert_int_equal(try_once(other, "nightly"), SQLOCK_EBUSY);
    ok(sqlock_renew(holder, &said));
    give(holder);
}

/* One comes and goes, and the next one stays: the last grant that ended is not ours any more. */
static sqlock_lock *others(sqlock *m)
{
    give(take(m, "nightly"));
    return take(m, "nightly");
}

/* P3, P6: the row remembers the last grant that ended. Once that is another one, all it can tell is
 * that somebody else has been granted the lock. */
TEST(test_calls_on_a_broken_grant_say_how_it_ended_and_free_no_one)
{
    int (*const calls[])(sqlock_lock *, sqlock_error *) = {sqlock_release, sqlock_renew};
    enum { NOBODY, NEXT, OTHERS, FOLLOWERS };

    for (int i = 0; i < 2 * FOLLOWERS; i++) {
        int followers = i / 2;
        sqlock_why why = followers == OTHERS ? SQLOCK_WHY_TAKEN : SQLOCK_WHY_BROKEN;
        struct broken s = broken_lock(w);
        sqlock_lock *next = followers == NOBODY ? NULL
                            : followers == NEXT ? take(s.b, "nightly")
                                                : others(s.b);

        loses(calls[i % 2], s.lock, why);
        loses(calls[i % 2], s.lock, why);
        says(SQLOCK_ELOST, sqlock_settle(s.lock, 0, &said));
        if (next)
            expect_holder(s.a, next);
        assert_true(is_free(s.a, "nightly"));
    }
    assert_int_equal(spy_runs(SQLOCK_STMT_WAS_BROKEN), 0); /* lost it is anyhow */
}

/* P5: asked again, it finds others there; but it is not its own doing that they are. */
TEST_IF(NOTES, test_release_whose_reply_was_lost_after_break_and_others_says_broken)
{
    struct broken s = broken_lock(w);
    sqlock_lock *next = others(s.b);

    spy_lose_reply(SQLOCK_STMT_RELEASE);
    loses(sqlock_release, s.lock, SQLOCK_WHY_BROKEN);
    assert_int_equal(spy_runs(SQLOCK_STMT_RELEASE), 3); /* with that of the other one */
    expect_holder(s.a, next);
}

/* P5: as long as it cannot be asked for, it is not told that it was released. */
TEST_IF(NOTES, test_release_whose_reply_was_lost_says_nothing_before_it_knows_of_a_break)
{
    struct broken s = broken_lock(w);
    sqlock_lock *next = others(s.b);

    spy_lose_reply(SQLOCK_STMT_RELEASE);
    spy_find_dead(SQLOCK_STMT_WAS_BROKEN, 0);
    loses(sqlock_release, s.lock, SQLOCK_WHY_BROKEN);
    assert_int_equal(spy_runs(SQLOCK_STMT_WAS_BROKEN), 2);
    expect_holder(s.a, next);
}

/* P5: nobody else can have let them in. The release that was applied comes from another handle of
 * the grant, to have others come before it is asked again. */
TEST(test_release_whose_reply_was_lost_says_released_after_others_without_a_break, a, b)
{
    sqlock_lock *old = take(b, "nightly"), *lock, *same, *next;
    sqlock_acquire_opts o = wait_opts(0, 20000, SQLOCK_NO_RENEW);

    ok(sqlock_break(a, "nightly", sqlock_lock_token(old), &said));
    lock = take_for(a, "nightly", 20000, SQLOCK_NO_RENEW);
    o.owner = sqlock_lock_owner(lock);
    same = take_with(b, "nightly", &o);
    assert_int_equal(sqlock_lock_token(same), sqlock_lock_token(lock));
    give(same);
    next = others(b);
    spy_lose_reply(SQLOCK_STMT_RELEASE);
    ok(sqlock_release(lock, &said));
    assert_state(SQLOCK_RELEASED, lock);
    expect_holder(a, next);
}

/* P4: after the deadline nobody need be asked. */
CORE_TEST(test_renew_after_the_deadline_says_expired_without_a_request)
{
    sqlock_lock *lock = take_for(open_manager(w, NULL), "nightly", 200, SQLOCK_NO_RENEW);

    await_loss(lock);
    loses(sqlock_renew, lock, SQLOCK_WHY_EXPIRED);
    assert_int_equal(spy_runs(SQLOCK_STMT_RENEW), 0);
}

/* It merely ran out: nobody renewed it, and nobody was kept from that. */
CORE_TEST(test_expiry_of_what_is_renewed_by_hand_is_not_called_too_long_a_hold)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), 300, SQLOCK_NO_RENEW);
    sqlock_lock *lock;

    o.max_hold_ms = 100;
    lock = take_with(open_manager(w, NULL), "nightly", &o);
    await_lost(lock, SQLOCK_WHY_EXPIRED);
}

/* P7 */
CORE_TEST(test_renew_by_hand_ends_with_the_longest_hold)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), patience_ms(600), SQLOCK_NO_RENEW);
    sqlock_lock *lock;

    o.max_hold_ms = patience_ms(200);
    lock = take_with(open_manager(w, NULL), "nightly", &o);
    ok(sqlock_renew(lock, &said));
    sleep_ms(o.max_hold_ms + 10);
    says(SQLOCK_ESTATE, sqlock_renew(lock, &said));
    assert_true(sqlock_is_held(lock));
    await_lost(lock, SQLOCK_WHY_MAX_HOLD);
}

/* P5: the owner's number lets another program settle what a dead one asked for. A request that was
 * stuck on its way, and comes after its owner's release, grants nothing. */
TEST(test_owner_is_granted_the_same_grant_and_none_after_its_release, a, b)
{
    sqlock_lock *lock = take_for(a, "nightly", 20000, SQLOCK_NO_RENEW), *again = NULL;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    sqlock_acquire_opts o = wait_opts(0, 20000, SQLOCK_NO_RENEW);

    memcpy(owner, sqlock_lock_owner(lock), sizeof owner);
    o.owner = owner;
    sqlock_lock *same = take_with(b, "nightly", &o);
    assert_int_equal(sqlock_lock_token(same), sqlock_lock_token(lock));
    assert_memory_equal(sqlock_lock_owner(same), owner, sizeof owner);
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
    give(same);
    o.wait_ms = patience_ms(3000);
    says(SQLOCK_ELOST, sqlock_acquire(b, "nightly", &o, &again, &said));
    assert_null(again);
    assert_true(is_free(b, "nightly"));
}

/* P5 */
CORE_TEST(test_settle_without_a_doubt_says_the_state, m)
{
    sqlock_lock *lock = take(m, "nightly");
    long before = spy_runs(-1);

    ok(sqlock_settle(lock, 0, &said));
    ok(sqlock_settle(lock, SQLOCK_WAIT_FOREVER, &said));
    assert_state(SQLOCK_HELD, lock);
    assert_int_equal(spy_runs(-1), before);
    ok(sqlock_release(lock, &said));
    ok(sqlock_settle(lock, 0, &said));
    assert_state(SQLOCK_RELEASED, lock);
}

/* Those who wait for a lock that was lost need not wait for the rest of its row's lease. */
TEST(test_release_of_an_expired_lock_gives_back_what_is_left, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 2000, SQLOCK_NO_RENEW);
    int64_t end_us = sqlock_lock_deadline_us(lock) + margin_us(2000);

    await_loss(lock);
    loses(sqlock_release, lock, SQLOCK_WHY_EXPIRED);
    assert_int_equal(try_once(m, "nightly"), SQLOCK_OK);
    assert_between(0, sqlock_now_us(), end_us + late_ms(0) * INT64_C(1000));
}
