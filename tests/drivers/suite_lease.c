/* P1, P2, P3, P10: who holds a lock, in which order, and that others' calls change nothing. */
#include "tests/drivers/suite.h"

/* P1 */
TEST(test_one_holder_at_a_time, a, b)
{
    sqlock_lock *lock = take(a, "nightly");

    assert_state(SQLOCK_HELD, lock);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NONE);
    assert_true(sqlock_is_held(lock));
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
    give(lock);
    assert_true(is_free(b, "nightly"));
}

/* P1: an owner is of an acquisition, not of a program or thread. */
CORE_TEST(test_second_acquire_by_the_same_program_is_busy, m)
{
    sqlock_lock *lock = take(m, "nightly");

    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* P2: each way in which a grant can end, and each way in which a client can come back. */
TEST(test_tokens_rise_whatever_ends_a_grant, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    int64_t last = sqlock_lock_token(lock);

    assert_between(1, last, SQLOCK_TOKEN_MAX);
    give(lock);

    lock = take(b, "nightly"); /* after a release */
    assert_between(last + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    last = sqlock_lock_token(lock);
    ok(sqlock_break(a, "nightly", last, &said));

    lock = take_for(a, "nightly", 200, SQLOCK_NO_RENEW); /* after a break */
    assert_between(last + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    last = sqlock_lock_token(lock);

    sqlock_lock *next = take(b, "nightly"); /* after the lease ran out */
    assert_between(last + 1, sqlock_lock_token(next), SQLOCK_TOKEN_MAX);
    last = sqlock_lock_token(next);
    give(next);
    close_manager(w, a);
    close_manager(w, b);

    a = open_manager(w, NULL); /* after everybody had gone */
    lock = take(a, "nightly");
    assert_between(last + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    give(lock);
}

/* P10: nobody sweeps here. P4: the next grant comes after the deadline of the one before. */
TEST(test_expired_lock_is_taken_over_without_a_reaper, a, b)
{
    sqlock_lock *old = take_for(a, "nightly", 300, SQLOCK_NO_RENEW);
    int64_t deadline = sqlock_lock_deadline_us(old);
    sqlock_lock *new = take(b, "nightly");

    assert_between(deadline, sqlock_now_us(), deadline + patience_ms(1500) * INT64_C(1000));
    assert_state(SQLOCK_LOST, old);
    assert_true(sqlock_is_held(new));
    give(new);
}

/* ---- turns ----------------------------------------------------------------------------------- */

enum { TURN_THREADS = 8, TURNS = 25 };

struct turns {
    sqlock *m;
    atomic_int *inside;
    _Atomic int64_t *counter; /* changed by a load and a store, so that only the lock protects it */
    _Atomic int64_t *last_token; /* of whoever was inside before */
    int code;
    const char *what;
    sqlock_error err;
};

static bool take_turn(struct turns *t)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *lock = NULL;
    int64_t seen;

    if ((t->code = sqlock_acquire(t->m, "turn", &o, &lock, &t->err)) != 0)
        return false;
    if (atomic_fetch_add(t->inside, 1) != 0)
        t->what = "two were inside";
    seen = atomic_load(t->counter);
    if (sqlock_lock_token(lock) <= atomic_load(t->last_token))
        t->what = "a token did not rise";
    atomic_store(t->last_token, sqlock_lock_token(lock));
    atomic_store(t->counter, seen + 1);
    atomic_fetch_sub(t->inside, 1);
    t->code = sqlock_release(lock, &t->err);
    drop(lock);
    return t->code == 0 && !t->what;
}

static void *take_turns(void *arg)
{
    int i = 0;

    while (i < TURNS && take_turn(arg))
        i++;
    return NULL;
}

/* P1, P2, P19: two managers, four threads on each; tokens rise in the order of real time. */
TEST(test_threads_take_turns_and_tokens_rise, a, b)
{
    atomic_int inside = 0;
    _Atomic int64_t counter = 0, last_token = 0;
    struct turns t[TURN_THREADS];

    for (int i = 0; i < TURN_THREADS; i++) {
        t[i] = (struct turns){
            .m = i % 2 ? a : b, .inside = &inside, .counter = &counter, .last_token = &last_token};
    }
    run_threads(TURN_THREADS, t, sizeof *t, take_turns);
    for (int i = 0; i < TURN_THREADS; i++) {
        assert_ok(t[i].code, &t[i].err);
        if (t[i].what)
            fail_msg("%s", t[i].what);
    }
    assert_int_equal(atomic_load(&counter), TURN_THREADS * TURNS);
}

/* P3: what a stranger's name, a stranger's token or a stranger's time does: nothing. */
TEST(test_late_release_does_not_free_successor, a, b)
{
    sqlock_lock *old = take_for(a, "nightly", 200, SQLOCK_NO_RENEW);
    sqlock_lock *new = take(b, "nightly");

    says(SQLOCK_ELOST, sqlock_release(old, &said));
    assert_state(SQLOCK_LOST, old);
    assert_int_equal(try_once(a, "nightly"), SQLOCK_EBUSY);
    ok(sqlock_renew(new, &said));
    assert_true(sqlock_is_held(new));
    drop(old); /* nor does that */
    assert_int_equal(try_once(a, "nightly"), SQLOCK_EBUSY);
    give(new);
}

/* P4, P7: a handle that is freed is not released; its lease runs out by itself. */
CORE_TEST(test_freed_handle_keeps_the_lock_for_its_lease, a, b)
{
    sqlock_lock *lock = take_for(a, "nightly", 700, 0);
    int64_t deadline = sqlock_lock_deadline_us(lock);

    drop(lock);
    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY);
    lock = take(b, "nightly");
    assert_between(deadline, sqlock_now_us(), deadline + patience_ms(2000) * INT64_C(1000));
    give(lock);
}
