/* Many callers' requests in one, on the fake driver: each gets its own answer, and one that fails
 * takes no other along. */
#define SUITE_NEEDS BATCHES
#include "tests/drivers/fake_batch.h"

/* ---- each its own answer --------------------------------------------------------------------- */

TEST_AFTER(begin_crowd, test_requests_that_wait_for_a_connection_go_together)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    gather();
    let_through();
    check_others_granted(-1);
    for (int i = 0; i < MEMBERS; i++)
        assert_token_is_the_rows(&crowd.callers[i]);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
    runs = spy_runs(SQLOCK_STMT_RELEASE);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++)
        assert_code(SQLOCK_OK, crowd.callers[i].code, &crowd.callers[i].err);
    assert_int_equal(spy_runs(SQLOCK_STMT_RELEASE) - runs, 2);
}

TEST_AFTER(begin_crowd, test_P1_each_member_of_a_batch_has_its_own_outcome, other)
{
    sqlock_lock *held[MEMBERS] = {NULL};

    for (int i = 0; i < MEMBERS; i += 3)
        held[i] = take(other, crowd.callers[i].name);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++) {
        struct caller *c = &crowd.callers[i];

        if (held[i] == NULL) {
            assert_granted(c);
            assert_token_is_the_rows(c);
            continue;
        }
        assert_code(SQLOCK_EBUSY, c->code, &c->err);
        assert_int_equal(c->holder.token, sqlock_lock_token(held[i]));
    }
}

TEST_AFTER(begin_crowd, test_P1_one_name_twice_in_front_of_a_connection_is_granted_once)
{
    struct caller *a = &crowd.callers[2], *b = &crowd.callers[5];
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    memcpy(b->name, a->name, sizeof b->name);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++)
        if (i != 2 && i != 5)
            assert_granted(&crowd.callers[i]);
    assert_granted(a); /* it came first */
    assert_code(SQLOCK_EBUSY, b->code, &b->err);
    assert_int_equal(b->holder.token, sqlock_lock_token(a->lock));
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3); /* the second went behind */
}

/* Two batches lock their rows in the same order. */
TEST_AFTER(begin_crowd, test_requests_of_a_batch_are_sorted_by_name)
{
    gather();
    let_through();
    check_others_granted(-1);
    gather(); /* releases */
    let_through();
    assert_int_equal(atomic_load(&gate.unsorted), 0);
}

TEST_AFTER(begin_crowd, test_member_without_an_answer_goes_alone)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    atomic_store(&gate.drop_rows, 1);
    gather();
    let_through();
    check_others_granted(-1);
    /* those of the batch that were answered, and each other alone */
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 1 + MEMBERS / 2 + MEMBERS - 1);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST_AFTER(begin_crowd, test_poisoned_member_fails_alone)
{
    memcpy(gate.poison, crowd.callers[3].name, sizeof gate.poison);
    gather();
    let_through();
    check_others_granted(3);
    assert_code(SQLOCK_EDB, crowd.callers[3].code, &crowd.callers[3].err);
}

/* P5: each settles for itself, with its own owner. */
TEST_AFTER(begin_crowd, test_lost_reply_of_a_batch_is_settled_by_each_member)
{
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_NONE, 1, 0); /* of the first */
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    gather();
    let_through();
    check_others_granted(-1);
    for (int i = 0; i < MEMBERS; i++)
        assert_token_is_the_rows(&crowd.callers[i]);
}

TEST_AFTER(begin_crowd, test_lost_batch_of_releases_is_settled_by_each_member)
{
    gather();
    let_through();
    check_others_granted(-1);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_NONE, 1, 0);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++) {
        assert_code(SQLOCK_OK, crowd.callers[i].code, &crowd.callers[i].err);
        assert_true(is_free(crowd.m, crowd.callers[i].name));
    }
}

TEST_AFTER(begin_crowd, test_failure_that_may_pass_is_tried_again_by_each_member)
{
    atomic_store(&gate.fail_flags, SQLOCK_RETRY);
    atomic_store(&gate.fail_batches, SQLOCK_EDB);
    gather();
    let_through();
    check_others_granted(-1);
}

/* ---- no batch -------------------------------------------------------------------------------- */

TEST_AFTER(begin_crowd, test_callers_who_have_a_connection_each_send_alone)
{
    for (int i = 0; i < 20; i++)
        give(take(crowd.m, "nightly"));
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE), spy_runs(SQLOCK_STMT_ACQUIRE));
    assert_int_equal(spy_requests(SQLOCK_STMT_RELEASE), spy_runs(SQLOCK_STMT_RELEASE));
}

TEST_MAIN_ON(fake)
