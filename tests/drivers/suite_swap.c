/* One lock back and another one taken, in one call. */
#include <sqlock/admin.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/drivers/suite_many.h"

static int swap(sqlock *m, sqlock_lock **lock, const char *name, int *released)
{
    sqlock_acquire_opts o = quick_opts(0);

    return sqlock_swap(m, lock, name, &o, released, &said);
}

TEST_AFTER(begin_list, test_P2_swap_gives_one_back_and_takes_the_next, m, other)
{
    sqlock_lock **lock = &list.locks[0];
    int released = -1;

    ok(swap(m, lock, list.names[0], &released)); /* there is none to give back */
    for (size_t i = 1; i < NAMES; i++) {
        assert_int_equal(released, SQLOCK_OK);
        assert_string_equal(sqlock_lock_name(*lock), list.names[i - 1]);
        assert_int_equal(try_once(other, list.names[i - 1]), SQLOCK_EBUSY);
        released = -1;
        ok(swap(m, lock, list.names[i], &released));
        assert_true(is_free(other, list.names[i - 1]));
    }
    ok(end_all(1));
}

TEST_WITH(BATCHES, begin_list, test_swap_costs_one_request_where_kinds_go_together, m)
{
    long grouped = spied_driver()->caps & SQLOCK_CAP_GROUPS ? 1 : 2, before;

    make_rows(m, 2);
    ok(swap(m, &list.locks[0], list.names[0], NULL));
    before = spy_runs(-1);
    ok(swap(m, &list.locks[0], list.names[1], NULL));
    assert_int_equal(spy_runs(-1) - before, grouped);
    ok(end_all(1));
}

TEST_AFTER(begin_list, test_P9_swap_for_a_name_that_is_held_gives_back_and_is_refused, m, other)
{
    sqlock_lock *theirs = take(other, "theirs");
    int released = -1;

    list.locks[0] = forget(take(m, "ours"));
    says(SQLOCK_EBUSY, swap(m, &list.locks[0], "theirs", &released));
    assert_int_equal(released, SQLOCK_OK);
    assert_none(1);
    assert_true(is_free(other, "ours"));
    give(theirs);
}

TEST_AFTER(begin_list, test_P3_swap_of_a_lock_that_was_lost_says_so_and_takes_the_next, m, other)
{
    sqlock_lock *theirs;
    int released = -1;

    list.locks[0] = forget(take_for(m, "ours", 60000, SQLOCK_NO_RENEW));
    ok(sqlock_break(other, "ours", sqlock_lock_token(list.locks[0]), &said));
    theirs = take(other, "ours");
    ok(swap(m, &list.locks[0], "next", &released));
    assert_int_equal(released, SQLOCK_ELOST);
    assert_state(SQLOCK_HELD, list.locks[0]);
    ok(sqlock_renew(theirs, &said));
    give(theirs);
    ok(end_all(1));
}

TEST_AFTER(begin_list, test_P5_swap_whose_reply_is_lost_has_done_both, m, other)
{
    static const sqlock_stmt lost[] = {SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RELEASE};
    int released = -1;

    make_rows(m, 2);
    for (size_t i = 0; i < 2; i++) {
        ok(swap(m, &list.locks[0], list.names[0], NULL));
        spy_lose_reply(lost[i]);
        ok(swap(m, &list.locks[0], list.names[1], &released));
        assert_int_equal(released, SQLOCK_OK);
        assert_true(is_free(other, list.names[0]));
        assert_state(SQLOCK_HELD, list.locks[0]);
        assert_int_equal(try_once(other, list.names[1]), SQLOCK_EBUSY);
        ok(end_all(1));
    }
}

struct swapper {
    sqlock *m;
    sqlock_lock *lock;
    int rc, released;
};

static void *swap_for_next(void *arg)
{
    struct swapper *s = arg;
    sqlock_acquire_opts o = quick_opts(0);
    sqlock_error err;

    s->rc = sqlock_swap(s->m, &s->lock, "next", &o, &s->released, &err);
    return NULL;
}

/* The release waits for the row alone: what goes in one packet with it waits for nothing. */
TEST_WITH(MANY_WRITERS | ADOPTION | BATCHES, begin_app,
          test_P25_swap_out_of_a_locked_row_takes_the_next_at_once, m, other)
{
    struct swapper s = {.m = m, .released = -1};
    pthread_t thread;

    give(take(m, "next"));
    s.lock = forget(take_for(m, "ours", 60000, SQLOCK_NO_RENEW));
    app_exec(g.app, g.side->begins[0],
             "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'ours' FOR UPDATE");
    assert_int_equal(pthread_create(&thread, NULL, swap_for_next, &s), 0);
    assert_soon(token_in_the_row(other, "next") != 0, patience_ms(1500));
    app_exec(g.app, "COMMIT");
    pthread_join(thread, NULL);
    assert_int_equal(s.rc, SQLOCK_OK);
    assert_int_equal(s.released, SQLOCK_OK);
    assert_true(is_free(other, "ours"));
    give(s.lock);
}

CORE_TEST(test_swap_with_a_wrong_argument_keeps_the_lock, a, b)
{
    sqlock_lock *lock = take(a, "ours"), *same = lock, *others[2];
    long before = spy_runs(-1);

    says(SQLOCK_EINVAL, swap(a, &same, "ours", NULL));
    says(SQLOCK_EINVAL, swap(a, &same, "", NULL));
    says(SQLOCK_EINVAL, swap(a, &same, NULL, NULL));
    says(SQLOCK_EINVAL, swap(b, &same, "next", NULL));
    says(SQLOCK_EINVAL, swap(NULL, &same, "next", NULL));
    says(SQLOCK_EINVAL, swap(a, NULL, "next", NULL));
    assert_ptr_equal(same, lock);
    assert_state(SQLOCK_HELD, lock);
    others[0] = lock;
    assert_int_equal(spy_runs(-1), before);
    others[1] = take(b, "theirs");
    says(SQLOCK_EINVAL, sqlock_end_each(others, 2, NULL, &said));
    assert_state(SQLOCK_HELD, others[1]);
    give(others[1]);
    give(lock);
}
