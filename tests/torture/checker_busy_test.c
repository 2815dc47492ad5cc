/* The checker finds refusals that cannot be true, and what they betray of others. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- busy -------------------------------------------------------------------------------------
 */

/* Refused, and told of who has it, at most until then. */
static struct event *busy(uint32_t thread, int64_t from, int64_t to, int64_t token, int64_t until)
{
    struct event *e = planted_ask(thread, from, to, V_ACQUIRE, SQLOCK_EBUSY, token);

    e->deadline_us = until * 1000;
    return e;
}

static void test_busy_with_a_grant_that_was_released_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    busy(2, 40, 50, 1, 1050);
    assert_breach(RULE_BUSY);
}

static void test_busy_with_a_grant_during_its_release_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 40, 1);
    busy(2, 40, 50, 1, 1050);
    assert_proved();
}

static void test_busy_with_a_grant_before_a_later_one_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 1000, 1010, 3);
    busy(3, 1020, 1030, 1, 1500);
    assert_breach(RULE_BUSY);
}

/* Nobody says that it was told of token 2; that is no matter here. */
static void test_busy_with_an_unknown_grant_before_a_later_one_is_found(void **state)
{
    (void)state;
    planted_killed(0);
    planted_grant(2, 1000, 1010, 3);
    busy(3, 1020, 1030, 2, 1500);
    assert_breach(RULE_BUSY);
}

static void test_busy_with_an_unknown_grant_is_none(void **state)
{
    (void)state;
    planted_killed(0);
    planted_grant(2, 1000, 1010, 3);
    busy(3, 2020, 2030, 4, 2500);
    busy(3, 2040, 2050, 4, 2500);
    assert_proved();
}

static void test_busy_with_a_grant_that_nobody_had_asked_for_is_found(void **state)
{
    (void)state;
    busy(3, 10, 20, 1, 1500);
    planted_grant(1, 21, 30, 1);
    assert_breach(RULE_BUSY);
}

static void test_busy_with_a_grant_that_a_killed_server_forgot_is_none(void **state)
{
    (void)state;
    busy(3, 10, 20, 1, 1500);
    planted_fault(20, 400, 1);
    planted_grant(1, 410, 420, 1);
    assert_proved();
}

static void test_busy_with_a_grant_that_nobody_had_asked_for_after_the_kill_is_found(void **state)
{
    (void)state;
    planted_fault(1, 5, 1);
    busy(3, 10, 20, 1, 1500);
    planted_grant(1, 21, 30, 1);
    assert_breach(RULE_BUSY);
}

/* Its holder was killed before it knew. */
static void test_grant_that_only_a_refusal_tells_of_may_be_the_second_holder(void **state)
{
    (void)state;
    planted_killed(0);
    planted_grant(1, 0, 10, 1);
    busy(2, 850, 899, 2, 1800);
    assert_breach(RULE_OVERLAP);
}

static void test_grant_that_only_a_refusal_tells_of_may_be_the_next_holder(void **state)
{
    (void)state;
    planted_killed(0);
    planted_grant(1, 0, 10, 1);
    busy(2, 850, 900, 2, 1800);
    assert_proved();
}

static void test_renewal_after_a_refusal_told_of_a_later_grant_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, NO_ANSWER, V_BREAK, 0, 1);
    busy(2, 30, 40, 2, 1100);
    planted_until(1, 41, 50, V_RENEW, 1, 900);
    assert_found(RULE_STALE);
}

static void test_smaller_token_than_a_refusal_told_of_is_found(void **state)
{
    (void)state;
    planted_killed(0);
    busy(2, 850, 900, 2, 1800);
    planted_grant(1, 2000, 2010, 1);
    assert_breach(RULE_TOKEN);
}

static void test_break_that_does_not_find_what_is_held_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 899, V_BREAK, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_break_that_does_not_find_what_ran_out_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 900, V_BREAK, SQLOCK_ELOST, 1);
    assert_proved();
}

static void test_busy_without_a_word_about_the_holder_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    busy(2, 40, 50, 0, 0);
    assert_proved();
}

static void test_row_that_ends_before_the_deadline_of_its_holder_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    busy(2, 40, 50, 1, 899);
    assert_breach(RULE_ROW);
}

static void test_row_that_ends_at_the_deadline_of_its_holder_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    busy(2, 40, 50, 1, 900);
    assert_proved();
}

/* The renewal may have come after the refusal. */
static void test_row_that_ends_before_a_deadline_that_was_not_told_yet_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 400, 500, V_RENEW, 1, 1300);
    busy(2, 499, 510, 1, 1000);
    assert_proved();
}

static void test_row_that_was_not_renewed_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 400, 500, V_RENEW, 1, 1300);
    busy(2, 501, 510, 1, 1000);
    assert_breach(RULE_ROW);
}

static void test_row_that_ends_early_across_a_clock_step_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(20, 30, 2);
    busy(2, 40, 50, 1, 60);
    planted_grant(3, 4000, 4010, 2);
    assert_proved();
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_busy_with_a_grant_that_was_released_is_found),
    T(test_busy_with_a_grant_during_its_release_is_none),
    T(test_busy_with_a_grant_before_a_later_one_is_found),
    T(test_busy_with_an_unknown_grant_before_a_later_one_is_found),
    T(test_busy_with_an_unknown_grant_is_none),
    T(test_busy_with_a_grant_that_nobody_had_asked_for_is_found),
    T(test_busy_with_a_grant_that_a_killed_server_forgot_is_none),
    T(test_busy_with_a_grant_that_nobody_had_asked_for_after_the_kill_is_found),
    T(test_grant_that_only_a_refusal_tells_of_may_be_the_second_holder),
    T(test_grant_that_only_a_refusal_tells_of_may_be_the_next_holder),
    T(test_renewal_after_a_refusal_told_of_a_later_grant_is_found),
    T(test_smaller_token_than_a_refusal_told_of_is_found),
    T(test_break_that_does_not_find_what_is_held_is_found),
    T(test_break_that_does_not_find_what_ran_out_is_none),
    T(test_busy_without_a_word_about_the_holder_is_none),
    T(test_row_that_ends_before_the_deadline_of_its_holder_is_found),
    T(test_row_that_ends_at_the_deadline_of_its_holder_is_none),
    T(test_row_that_ends_before_a_deadline_that_was_not_told_yet_is_none),
    T(test_row_that_was_not_renewed_is_found),
    T(test_row_that_ends_early_across_a_clock_step_is_none),
};

TEST_MAIN(tests)
