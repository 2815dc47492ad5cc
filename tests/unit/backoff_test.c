/* Sleeping between tries: how long, and never past what makes the try worth it. */
#include "core/model/backoff.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

#define PAST_END 1000 /* after the holder's end, so that the try is not in vain */

TEST(test_span_doubles_from_the_first_to_the_last)
{
    int64_t expected = BACKOFF_FIRST_US;

    for (int n = 0; n < 5; n++, expected *= 2)
        assert_int_equal(backoff_span(n), expected);
    assert_int_equal(backoff_span(6), BACKOFF_LAST_US);
    assert_int_equal(backoff_span(1000000), BACKOFF_LAST_US);
    assert_int_equal(backoff_span(INT32_MAX), BACKOFF_LAST_US);
    assert_int_equal(backoff_span(-1), BACKOFF_FIRST_US);
}

TEST(test_doubling_ends_at_the_last_and_never_overflows)
{
    assert_int_equal(backoff_doubled(5, 500, 0), 5);
    assert_int_equal(backoff_doubled(5, 500, -3), 5);
    assert_int_equal(backoff_doubled(5, 500, 6), 320);
    assert_int_equal(backoff_doubled(5, 500, 7), 500);
    assert_int_equal(backoff_doubled(5, 500, INT32_MAX), 500);
    assert_int_equal(backoff_doubled(900, 500, 3), 500);
    assert_int_equal(backoff_doubled(0, 500, INT32_MAX), 0);
    assert_true(backoff_doubled(3, INT64_MAX, 100) == INT64_MAX);
}

TEST(test_try_is_never_before_now_nor_after_what_ends_it)
{
    struct dice d = dice_new("backoff");

    for (int i = 0; i < 100000; i++) {
        int64_t now = dice_between(&d, 0, INT64_C(1000000000000));
        int64_t sleep = dice_between(&d, BACKOFF_FIRST_US / 2, BACKOFF_LAST_US);
        int64_t left = dice_below(&d, 4) == 0 ? -1 : dice_between(&d, 0, 2 * BACKOFF_LAST_US);
        int64_t last =
            dice_below(&d, 4) == 0 ? INT64_MAX : now + dice_between(&d, 1, 2 * BACKOFF_LAST_US);
        int64_t at = backoff_next(now, sleep, left, last);

        assert_between(now + 1, at, now + sleep);
        assert_true(at <= last);
        if (left >= 0)
            assert_true(at <= now + left + PAST_END);
        /* as late as all three allow */
        assert_true(at == now + sleep || at == last || at == now + left + PAST_END);
    }
}

TEST_MAIN_EACH(NULL, NULL)
