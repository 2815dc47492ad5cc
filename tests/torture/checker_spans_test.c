/* The checker finds two holders at a time, tokens that fall and deadlines that lie too far ahead;
 * and nothing in what only looks like it. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- one holder -------------------------------------------------------------------------------
 */

static void test_grant_within_the_span_of_another_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 850, 899, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_grant_at_the_deadline_of_another_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 850, 900, 2);
    assert_proved();
}

static void test_span_ends_when_its_release_is_asked_for(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 50, NO_ANSWER, 1);
    planted_grant(2, 40, 50, 2);
    assert_proved();
}

static void test_grant_before_a_release_was_asked_for_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 50, 60, 1);
    planted_grant(2, 20, 49, 2);
    assert_found(RULE_OVERLAP);
}

static void test_span_of_a_killed_client_lasts_to_its_deadline(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 20, NO_ANSWER, V_RENEW, 0, 1);
    planted_grant(2, 400, 500, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_renewal_moves_the_end_of_a_span(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 500, 510, V_RENEW, 1, 1400);
    planted_grant(2, 950, 960, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_look_at_the_deadline_moves_the_end_of_a_span(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 500, 501, V_HELD, 1, 1400);
    planted_grant(2, 950, 960, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_renewal_without_an_answer_moves_nothing(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 500, 700, V_RENEW, SQLOCK_EUNSURE, 1);
    planted_grant(2, 850, 905, 2);
    assert_proved();
}

static void test_break_ends_a_span_when_it_is_asked_for(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 100, 150, V_BREAK, 0, 1);
    planted_grant(2, 90, 100, 2);
    assert_proved();
}

static void test_break_whose_answer_was_lost_ends_a_span(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 100, NO_ANSWER, V_BREAK, 0, 1);
    planted_grant(2, 110, 120, 2);
    assert_proved();
}

static void test_break_that_found_nothing_ends_no_span(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 100, 150, V_BREAK, SQLOCK_ELOST, 1);
    planted_grant(2, 160, 170, 2);
    assert_found(RULE_OVERLAP);
}

static void test_break_of_another_token_ends_no_span(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 2);
    planted_ask(3, 100, 150, V_BREAK, 0, 1);
    planted_grant(2, 160, 170, 3);
    assert_breach(RULE_OVERLAP);
}

static void test_other_names_have_spans_of_their_own(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted.name = 1;
    planted_grant(2, 0, 10, 1);
    assert_proved();
}

/* The second grant was over before its holder was told: yet the database had let it in. */
static void test_grant_that_was_told_too_late_to_be_used_still_came_too_early(void **state)
{
    (void)state;
    planted_grant(1, 1000, 1010, 1);
    planted_until(1, 1500, 1510, V_RENEW, 1, 2400);
    planted_until(2, 1020, 2300, V_ACQUIRE, 2, 1920);
    assert_breach(RULE_OVERLAP);
}

/* It was granted before the other one, and its answer came when all was over. */
static void test_late_answer_of_an_earlier_grant_is_none(void **state)
{
    (void)state;
    planted_until(1, 0, 2500, V_ACQUIRE, 1, 900);
    planted_until(2, 2000, 2010, V_ACQUIRE, 2, 2900);
    assert_proved();
}

/* ... and claims the time of the other one. */
static void test_late_answer_that_claims_the_present_is_found(void **state)
{
    (void)state;
    planted_until(1, 0, 2500, V_ACQUIRE, 1, 3000);
    planted_until(2, 2000, 2010, V_ACQUIRE, 2, 2900);
    assert_breach(RULE_OVERLAP);
}

static void test_span_that_was_settled_begins_with_the_settling(void **state)
{
    (void)state;
    planted_ask(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    planted_until(1, 200, 210, V_SETTLE, 1, 900);
    planted_grant(2, 300, 310, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_unsure_acquire_holds_nothing(void **state)
{
    (void)state;
    planted_ask(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    planted_value(1, 200, 210, V_SETTLE, SQLOCK_ELOST, 0, SQLOCK_WHY_NOT_GRANTED);
    planted_grant(2, 90, 110, 2);
    assert_proved();
}

static void beats(uint32_t thread, int64_t from, int64_t to, int64_t every, int64_t token)
{
    for (int64_t t = from; t <= to; t += every)
        planted_ask(thread, t, t, V_BEAT, 0, token);
}

static void test_work_under_the_command_that_goes_on_beside_another_grant_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ACQUIRE, 0, 1, 3);
    beats(1, 10, 1210, 100, 1);
    planted_grant(2, 1100, 1200, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_last_beat_ends_the_span_of_a_command(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ACQUIRE, 0, 1, 3);
    beats(1, 10, 510, 100, 1);
    planted_grant(2, 500, 510, 2);
    assert_proved();
}

/* It was stopped, and so was what would have ended it in time. */
static void test_beat_after_a_long_silence_claims_nothing(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ACQUIRE, 0, 1, 3);
    beats(1, 10, 210, 100, 1);
    planted_grant(2, 2000, 2010, 2);
    beats(1, 2020, 2220, 100, 1);
    assert_proved();
}

static void test_overlap_across_a_clock_step_is_counted_apart(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(100, 200, 2);
    planted_grant(2, 300, 310, 2);
    assert_proved();
    assert_int_equal(planted.v.clock_overlaps, 1);
    assert_int_equal(planted.v.clock_steps, 1);
}

/* The one that ends last was there before; the other one was not. */
static void test_overlap_after_a_clock_step_is_found_beside_one_across_it(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(100, 200, 2);
    planted_until(1, 240, 250, V_RENEW, 1, 1140);
    planted_until(2, 250, 260, V_ACQUIRE, 2, 1100);
    planted_grant(3, 400, 410, 3);
    planted_check();
    assert_int_equal(planted.v.found[RULE_OVERLAP], 1);
}

static void test_overlap_before_a_clock_step_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 300, 310, 2);
    planted_fault(311, 400, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_other_faults_excuse_no_overlap(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(100, 200, 1);
    planted_grant(2, 300, 310, 2);
    assert_breach(RULE_OVERLAP);
}

/* ---- tokens -----------------------------------------------------------------------------------
 */

static void test_smaller_token_after_a_larger_one_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 5);
    planted_release(1, 20, 30, 5);
    planted_grant(2, 40, 50, 4);
    assert_breach(RULE_TOKEN);
}

static void test_tokens_of_grants_at_the_same_time_may_be_told_in_any_order(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 5);
    planted_release(1, 11, 12, 5);
    planted_grant(2, 10, 50, 4)->deadline_us = 10500; /* over when it was told */
    assert_proved();
}

static void test_token_that_was_granted_twice_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 5);
    planted_release(1, 20, 30, 5);
    planted_grant(2, 40, 50, 5);
    assert_breach(RULE_TOKEN);
}

static void test_token_that_is_none_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 0);
    assert_breach(RULE_TOKEN);
}

/* A clock step excuses spans, not tokens. */
static void test_tokens_rise_also_across_a_clock_step(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 5);
    planted_fault(11, 35, 2);
    planted_release(1, 20, 30, 5);
    planted_grant(2, 40, 50, 4);
    assert_breach(RULE_TOKEN);
}

/* The token may have been drawn by the request whose reply was lost. */
static void test_token_of_a_settled_grant_may_be_as_old_as_its_acquire(void **state)
{
    (void)state;
    planted_ask(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_grant(2, 30, 60, 2);
    planted_until(1, 50, 210, V_SETTLE, 1, 205);
    planted.events[planted.n - 1].invoke_us = 100 * 1000;
    planted_check();
    assert_int_equal(planted.v.found[RULE_TOKEN], 0);
}

static void test_settled_grant_with_a_token_older_than_its_acquire_is_found(void **state)
{
    (void)state;
    planted_grant(2, 0, 10, 2);
    planted_release(2, 20, 30, 2);
    planted_ask(1, 40, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    planted_until(1, 150, 160, V_SETTLE, 1, 900);
    assert_found(RULE_TOKEN);
}

/* ---- deadlines --------------------------------------------------------------------------------
 */

static void test_deadline_beyond_the_lease_is_found(void **state)
{
    (void)state;
    planted_until(1, 0, 10, V_ACQUIRE, 1, 911);
    assert_breach(RULE_DEADLINE);
}

/* Counted from the last moment at which it can have been asked for. */
static void test_deadline_at_the_end_of_the_lease_is_none(void **state)
{
    (void)state;
    planted_until(1, 0, 10, V_ACQUIRE, 1, 910);
    assert_proved();
}

/* The rules know the longest one of all. */
static void test_deadline_beyond_the_lease_of_its_process_is_found(void **state)
{
    (void)state;
    planted_value(7, 0, 0, V_LEASE, 0, 0, 400);
    planted_until(1, 0, 10, V_ACQUIRE, 1, 371);
    assert_breach(RULE_DEADLINE);
}

static void test_deadline_at_the_end_of_the_lease_of_its_process_is_none(void **state)
{
    (void)state;
    planted_value(7, 0, 0, V_LEASE, 0, 0, 400)->process = 2;
    planted_value(7, 0, 0, V_LEASE, 0, 0, 1000)->process = 1;
    planted_until(1, 0, 10, V_ACQUIRE, 1, 910);
    planted.name = 1;
    planted_until(2, 0, 10, V_ACQUIRE, 1, 370)->process = 2;
    assert_proved();
    assert_int_equal(planted.v.operations, 2);
}

static void test_grant_without_a_deadline_is_found(void **state)
{
    (void)state;
    planted_until(1, 0, 10, V_ACQUIRE, 1, 0);
    assert_breach(RULE_DEADLINE);
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_grant_within_the_span_of_another_is_found),
    T(test_grant_at_the_deadline_of_another_is_none),
    T(test_span_ends_when_its_release_is_asked_for),
    T(test_grant_before_a_release_was_asked_for_is_found),
    T(test_span_of_a_killed_client_lasts_to_its_deadline),
    T(test_renewal_moves_the_end_of_a_span),
    T(test_look_at_the_deadline_moves_the_end_of_a_span),
    T(test_renewal_without_an_answer_moves_nothing),
    T(test_break_ends_a_span_when_it_is_asked_for),
    T(test_break_whose_answer_was_lost_ends_a_span),
    T(test_break_that_found_nothing_ends_no_span),
    T(test_break_of_another_token_ends_no_span),
    T(test_other_names_have_spans_of_their_own),
    T(test_grant_that_was_told_too_late_to_be_used_still_came_too_early),
    T(test_late_answer_of_an_earlier_grant_is_none),
    T(test_late_answer_that_claims_the_present_is_found),
    T(test_span_that_was_settled_begins_with_the_settling),
    T(test_unsure_acquire_holds_nothing),
    T(test_work_under_the_command_that_goes_on_beside_another_grant_is_found),
    T(test_last_beat_ends_the_span_of_a_command),
    T(test_beat_after_a_long_silence_claims_nothing),
    T(test_overlap_across_a_clock_step_is_counted_apart),
    T(test_overlap_after_a_clock_step_is_found_beside_one_across_it),
    T(test_overlap_before_a_clock_step_is_found),
    T(test_other_faults_excuse_no_overlap),
    T(test_smaller_token_after_a_larger_one_is_found),
    T(test_tokens_of_grants_at_the_same_time_may_be_told_in_any_order),
    T(test_token_that_was_granted_twice_is_found),
    T(test_token_that_is_none_is_found),
    T(test_tokens_rise_also_across_a_clock_step),
    T(test_token_of_a_settled_grant_may_be_as_old_as_its_acquire),
    T(test_settled_grant_with_a_token_older_than_its_acquire_is_found),
    T(test_deadline_beyond_the_lease_is_found),
    T(test_deadline_at_the_end_of_the_lease_is_none),
    T(test_deadline_beyond_the_lease_of_its_process_is_found),
    T(test_deadline_at_the_end_of_the_lease_of_its_process_is_none),
    T(test_grant_without_a_deadline_is_found),
};

TEST_MAIN(tests)
