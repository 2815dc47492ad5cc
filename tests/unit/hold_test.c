/* When a batch is held back, for how many, and for how long. */
#include "core/engine/hold.h"
#include "core/engine/op.h"
#include "tests/lib/check.h"

static size_t missing(size_t answered, size_t waiting, size_t ready)
{
    struct hold h = {0};

    hold_expect(&h, answered, waiting, 2000);
    return hold_missing(&h, ready);
}

TEST(test_batch_waits_for_those_who_were_just_answered)
{
    assert_int_equal(missing(4, 4, 4), 4); /* half of them wait while the others are answered */
    assert_int_equal(missing(8, 0, 1), 7); /* the first of all comes back */
    assert_int_equal(missing(5, 3, 3), 5);
}

TEST(test_few_wait_for_no_one)
{
    assert_int_equal(missing(1, 0, 1), 0);
    assert_int_equal(missing(1, 1, 1), 0);
    assert_int_equal(missing(2, 1, 1), 0);
}

/* Each batch has a name once. So most callers of one hot name wait, whoever comes back. */
TEST(test_batch_does_not_wait_if_most_are_there)
{
    assert_int_equal(missing(1, 63, 63), 0);
    assert_int_equal(missing(4, 4, 5), 0);
    assert_int_equal(missing(4, 4, 9), 0);
}

TEST(test_wait_is_a_part_of_what_it_may_save)
{
    struct hold h = {0};

    hold_expect(&h, 4, 4, 400);
    assert_int_equal(hold_limit(&h), 200);
    hold_expect(&h, 4, 4, 1000000);
    assert_int_equal(hold_limit(&h), 2000);
}

TEST(test_wait_in_vain_is_not_tried_again_for_a_while)
{
    struct hold h = {0};
    int without = 0;

    hold_expect(&h, 4, 4, 400);
    h.missing = 3; /* of four */
    hold_judge(&h, 4);
    while (hold_missing(&h, 4) == 0)
        without++;
    assert_int_equal(without, 32);
    h.missing = 2;
    hold_judge(&h, 4);
    assert_int_equal(hold_missing(&h, 4), 4);
}

TEST(test_request_is_left_behind_once_by_batches_of_another_kind)
{
    struct attempt acquire = {.request.stmt = SQLOCK_STMT_ACQUIRE}, acquires = acquire;
    struct attempt release = {.request.stmt = SQLOCK_STMT_RELEASE};
    sqlock_op leader = {.attempt = &acquire}, same = {.attempt = &acquires};
    sqlock_op other = {.attempt = &release};
    struct link company;

    assert_true(hold_allows_like(&other, &leader));
    release.passed = acquires.passed = 1;
    assert_false(hold_allows_like(&other, &leader));
    assert_true(hold_allows_like(&same, &leader));
    same.company = &company;
    assert_false(hold_allows_like(&same, &leader));
}

TEST_MAIN_EACH(NULL, NULL)
