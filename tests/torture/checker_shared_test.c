/* The checker finds who shares a lock with its only holder, and one holder more than there are
 * slots; and nothing in what only looks like it. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- shared -----------------------------------------------------------------------------------
 */

static void test_those_who_share_may_hold_it_at_the_same_time(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_share(2, 20, 30, 2);
    planted_until(1, 40, 50, V_RENEW, 1, 940);
    planted_share(3, 60, 70, 3);
    planted_release(1, 80, 90, 1);
    planted_until(2, 100, 110, V_HELD, 2, 920);
    assert_proved();
}

static void test_exclusive_grant_beside_one_who_shares_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_share(2, 20, 30, 2);
    planted_release(2, 40, 50, 2);
    planted_grant(3, 60, 70, 3);
    assert_breach(RULE_OVERLAP);
}

static void test_shared_grant_beside_an_exclusive_one_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_share(2, 20, 30, 2);
    assert_breach(RULE_OVERLAP);
}

/* The one that ends last counts, not the latest. */
static void test_exclusive_grant_beside_an_older_one_who_shares_is_found(void **state)
{
    (void)state;
    planted_until(1, 0, 10, V_SHARE, 1, 900);
    planted_until(2, 20, 30, V_SHARE, 2, 100);
    planted_grant(3, 500, 510, 3);
    assert_breach(RULE_OVERLAP);
}

static void test_exclusive_grant_after_all_who_shared_have_released_is_none(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_share(2, 20, 30, 2);
    planted_release(1, 40, 50, 1);
    planted_release(2, 60, NO_ANSWER, 2);
    planted_grant(3, 55, 70, 3);
    assert_proved();
}

static void test_shared_span_of_a_killed_client_lasts_to_its_deadline(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_ask(1, 20, NO_ANSWER, V_RENEW, 0, 1);
    planted_share(2, 100, 110, 2);
    planted_release(2, 120, 130, 2);
    planted_grant(3, 880, 890, 3);
    assert_breach(RULE_OVERLAP);
}

static void test_one_who_shares_was_not_lost_by_who_shares_after_it(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_share(2, 20, 30, 2);
    planted_ask(1, 40, 50, V_RENEW, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_renewal_of_one_who_shared_after_an_exclusive_grant_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_grant(2, 901, 910, 2);
    planted_release(2, 920, 930, 2);
    planted_until(1, 940, 950, V_RENEW, 1, 1840);
    assert_found(RULE_STALE);
}

/* Whoever wants it alone may keep out those who would share, while it waits. */
static void test_refusal_by_nobody_who_is_known_tells_of_no_mode(void **state)
{
    (void)state;
    planted_killed(0);
    planted_share(1, 0, 10, 1);
    planted_ask(2, 20, 30, V_SHARE, SQLOCK_EBUSY, 2);
    planted_until(1, 40, 50, V_RENEW, 1, 940);
    assert_proved();
}

static void test_refusal_of_who_wants_it_alone_tells_of_any_grant(void **state)
{
    (void)state;
    planted_killed(0);
    planted_share(1, 0, 10, 1);
    planted_ask(2, 20, 30, V_ACQUIRE, SQLOCK_EBUSY, 2);
    planted_until(1, 40, 50, V_RENEW, 1, 940);
    assert_proved();
}

static void test_refusal_by_one_who_shared_and_released_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    planted_ask(2, 40, 50, V_ACQUIRE, SQLOCK_EBUSY, 1);
    assert_breach(RULE_BUSY);
}

static void test_tokens_rise_among_those_who_share(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 2);
    planted_share(2, 20, 30, 1);
    assert_breach(RULE_TOKEN);
}

static void test_shared_grant_that_was_settled_is_shared(void **state)
{
    (void)state;
    planted_ask(1, 0, 100, V_SHARE, SQLOCK_EUNSURE, 0);
    planted_until(1, 200, 210, V_SETTLE, 1, 900);
    planted_share(2, 300, 310, 2);
    assert_proved();
}

static void test_guarded_write_beside_a_later_shared_grant_is_none(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_guarded(1, 20, 60, 1, 1)->deadline_us = 50000;
    planted_share(2, 30, 40, 2);
    planted_rows(1, 1, 0, 0);
    assert_proved();
}

static void test_guarded_write_beside_a_later_exclusive_grant_is_found(void **state)
{
    (void)state;
    planted_until(1, 0, 10, V_SHARE, 1, 15);
    planted_guarded(1, 20, 60, 1, 1)->deadline_us = 50000;
    planted_grant(2, 30, 40, 2);
    planted_rows(1, 1, 0, 0);
    assert_breach(RULE_GUARD);
}

/* Its own answer came late; who came after it was told before that. */
static void test_exclusive_grant_that_only_a_later_token_tells_of_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_until(2, 15, 2000, V_ACQUIRE, 2, 915);
    planted_share(3, 30, 40, 3);
    assert_breach(RULE_OVERLAP);
}

static void test_exclusive_grant_that_only_a_refusal_tells_of_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_until(2, 15, 2000, V_ACQUIRE, 2, 915);
    planted_ask(3, 20, 30, V_SHARE, SQLOCK_EBUSY, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_clock_step_excuses_only_who_was_there_before(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_fault(100, 200, 2);
    planted_until(1, 240, 250, V_RENEW, 1, 1140);
    planted_until(2, 250, 260, V_SHARE, 2, 1100);
    planted_grant(3, 400, 410, 3);
    assert_breach(RULE_OVERLAP);
    assert_int_equal(planted.v.clock_overlaps, 1);
}

static void test_shared_write_under_an_older_token_than_an_exclusive_one_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_value(1, 20, 30, V_GUARDED, SQLOCK_EUNSURE, 1, 3);
    planted_release(1, 35, 40, 1);
    planted_grant(2, 50, 60, 2);
    planted_guarded(2, 70, 80, 2, 1);
    planted_release(2, 90, 100, 2);
    planted_share(3, 110, 120, 3);
    planted_guarded(3, 130, 140, 3, 2);
    planted_rows(3, 1, 0, 0);
    assert_breach(RULE_FENCE);
}

static void test_token_of_nobody_in_a_shared_row_is_found(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_guarded(1, 20, 30, 1, 1);
    planted_rows(1, 99, 0, 0);
    assert_breach(RULE_FENCE);
}

static void test_writes_of_those_who_share_come_in_any_order_of_their_tokens(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_share(2, 20, 30, 2);
    planted_guarded(2, 40, 50, 2, 1);
    planted_guarded(1, 60, 70, 1, 2);
    planted_rows(2, 1, 0, 0);
    assert_proved();
}

static void test_refusal_by_one_before_an_exclusive_grant_is_found(void **state)
{
    (void)state;
    planted_killed(0);
    planted_grant(1, 0, 10, 3);
    planted_ask(2, 20, 30, V_SHARE, SQLOCK_EBUSY, 2);
    assert_breach(RULE_BUSY);
}

static void test_release_in_a_fault_is_not_lost_when_others_share_it_since(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_fault(15, 60, 0);
    planted_ask(1, 20, 70, V_RELEASE, SQLOCK_ELOST, 1);
    planted_share(3, 25, 35, 2);
    assert_breach(RULE_LOST);
}

static void test_overlap_of_modes_across_a_clock_step_is_counted_apart(void **state)
{
    (void)state;
    planted_share(1, 0, 10, 1);
    planted_fault(100, 200, 2);
    planted_grant(2, 300, 310, 2);
    assert_proved();
    assert_int_equal(planted.v.clock_overlaps, 1);
}

static void test_name_that_only_who_shares_asks_for_must_be_granted_after_faults(void **state)
{
    (void)state;
    planted_fault(0, 10, 1);
    planted_ask(1, 20, 30, V_SHARE, SQLOCK_EDB, 0);
    planted_ask(1, 5000, 5010, V_SHARE, SQLOCK_EDB, 0);
    assert_breach(RULE_LIVENESS);
}

/* ---- slots ------------------------------------------------------------------------------------
 */

static void test_as_many_as_there_are_slots_may_hold_it(void **state)
{
    (void)state;
    planted_slots(3);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_grant(3, 40, 50, 3);
    planted_until(1, 60, 70, V_RENEW, 1, 960);
    assert_proved();
    assert_int_equal(planted.v.operations, 4);
}

static void test_one_more_than_there_are_slots_is_found(void **state)
{
    (void)state;
    planted_slots(3);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_grant(3, 40, 50, 3);
    planted_grant(4, 60, 70, 4);
    assert_breach(RULE_SLOTS);
}

static void test_one_slot_has_one_holder(void **state)
{
    (void)state;
    planted_slots(1);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_slot_is_free_when_its_release_is_asked_for(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_release(1, 40, NO_ANSWER, 1);
    planted_grant(3, 35, 40, 3);
    assert_proved();
}

static void test_slot_that_was_given_away_before_its_release_is_found(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_release(1, 41, 50, 1);
    planted_grant(3, 35, 40, 3);
    assert_breach(RULE_SLOTS);
}

static void test_slot_of_a_killed_client_is_free_at_its_deadline(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 15, NO_ANSWER, V_RENEW, 0, 1);
    planted_until(2, 20, 30, V_ACQUIRE, 2, 920);
    planted_grant(3, 890, 900, 3);
    assert_proved();
}

static void test_slot_of_a_killed_client_before_its_deadline_is_found(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 15, NO_ANSWER, V_RENEW, 0, 1);
    planted_until(2, 20, 30, V_ACQUIRE, 2, 920);
    planted_grant(3, 889, 899, 3);
    assert_breach(RULE_SLOTS);
}

static void test_slot_that_was_broken_is_free(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_ask(4, 40, 50, V_BREAK, 0, 1);
    planted_grant(3, 60, 70, 3);
    assert_proved();
}

static void test_slots_of_other_names_are_others(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted.name = 1;
    planted_slots(2);
    planted_grant(3, 40, 50, 1);
    planted_grant(4, 60, 70, 2);
    assert_proved();
}

static void test_full_slots_across_a_clock_step_are_counted_apart(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_fault(100, 200, 2);
    planted_grant(3, 300, 310, 3);
    assert_proved();
    assert_int_equal(planted.v.clock_overlaps, 1);
}

static void test_slot_was_not_lost_by_the_next_one(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_ask(1, 40, 50, V_RENEW, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_slot_of_a_token_twice_is_found(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 1);
    assert_breach(RULE_TOKEN);
}

static void test_guarded_writes_of_slots_come_in_any_order_of_their_tokens(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 20, 30, 2);
    planted_guarded(2, 40, 50, 2, 1);
    planted_guarded(1, 60, 70, 1, 2);
    planted_rows(2, 1, 0, 0);
    assert_proved();
}

static void use_of_what_all_others_have(void)
{
    planted_slots(2);
    planted_until(1, 0, 10, V_ACQUIRE, 1, 20);
    planted_grant(2, 30, 40, 2);
    planted_grant(3, 50, 60, 3);
}

static void test_guarded_write_when_all_slots_went_to_others_is_found(void **state)
{
    (void)state;
    use_of_what_all_others_have();
    planted_guarded(1, 100, 120, 1, 1)->deadline_us = 110000;
    planted_rows(1, 1, 0, 0);
    assert_found(RULE_STALE);
}

static void test_release_when_all_slots_went_to_others_is_found(void **state)
{
    (void)state;
    use_of_what_all_others_have();
    planted_release(1, 100, 120, 1);
    assert_breach(RULE_STALE);
}

static void test_refusal_by_one_whose_slot_went_to_others_is_found(void **state)
{
    (void)state;
    use_of_what_all_others_have();
    planted_ask(4, 100, 120, V_ACQUIRE, SQLOCK_EBUSY, 1);
    assert_breach(RULE_BUSY);
}

static void test_slot_may_be_used_past_its_lease_while_nobody_needs_it(void **state)
{
    (void)state;
    planted_slots(2);
    planted_until(1, 0, 10, V_ACQUIRE, 1, 20);
    planted_grant(2, 30, 40, 2);
    planted_guarded(1, 100, 120, 1, 1)->deadline_us = 110000;
    planted_release(1, 130, 140, 1);
    planted_grant(3, 135, 150, 3);
    planted_rows(1, 1, 0, 0);
    assert_proved();
}

static void test_too_many_beside_a_guarded_write_are_found(void **state)
{
    (void)state;
    planted_slots(2);
    planted_until(1, 0, 10, V_ACQUIRE, 1, 25);
    planted_guarded(1, 20, 120, 1, 1)->deadline_us = 110000;
    planted_grant(2, 30, 40, 2);
    planted_grant(3, 50, 60, 3);
    planted_rows(1, 1, 0, 0);
    assert_breach(RULE_SLOTS);
}

/* It was kept by its guard, so it was there when the slots seemed to be full. */
static void test_release_after_a_guard_past_the_lease_is_none(void **state)
{
    (void)state;
    planted_slots(2);
    planted_until(1, 0, 10, V_ACQUIRE, 1, 25);
    planted_guarded(1, 20, 120, 1, 1)->deadline_us = 110000;
    planted_grant(2, 30, 40, 2);
    planted_release(1, 130, 140, 1);
    planted_rows(1, 1, 0, 0);
    assert_proved();
}

/* Token 2 was granted before token 3. */
static void test_slot_that_a_larger_token_tells_of_is_counted(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_until(2, 15, 800, V_ACQUIRE, 2, 915);
    planted_grant(3, 20, 30, 3);
    planted_release(3, 700, 710, 3);
    assert_breach(RULE_SLOTS);
}

static void test_too_many_after_a_clock_step_are_found(void **state)
{
    (void)state;
    planted_slots(2);
    planted_grant(1, 0, 10, 1);
    planted_fault(100, 200, 2);
    planted_grant(2, 300, 310, 2);
    planted_grant(3, 320, 330, 3);
    planted_grant(4, 340, 350, 4);
    assert_breach(RULE_SLOTS);
    assert_int_equal(planted.v.clock_overlaps, 1);
}

static void test_two_numbers_of_slots_are_found(void **state)
{
    (void)state;
    planted_slots(2);
    planted_slots(3);
    assert_breach(RULE_HISTORY);
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_those_who_share_may_hold_it_at_the_same_time),
    T(test_exclusive_grant_beside_one_who_shares_is_found),
    T(test_shared_grant_beside_an_exclusive_one_is_found),
    T(test_exclusive_grant_beside_an_older_one_who_shares_is_found),
    T(test_exclusive_grant_after_all_who_shared_have_released_is_none),
    T(test_shared_span_of_a_killed_client_lasts_to_its_deadline),
    T(test_one_who_shares_was_not_lost_by_who_shares_after_it),
    T(test_renewal_of_one_who_shared_after_an_exclusive_grant_is_found),
    T(test_refusal_by_nobody_who_is_known_tells_of_no_mode),
    T(test_refusal_of_who_wants_it_alone_tells_of_any_grant),
    T(test_refusal_by_one_who_shared_and_released_is_found),
    T(test_tokens_rise_among_those_who_share),
    T(test_shared_grant_that_was_settled_is_shared),
    T(test_guarded_write_beside_a_later_shared_grant_is_none),
    T(test_guarded_write_beside_a_later_exclusive_grant_is_found),
    T(test_exclusive_grant_that_only_a_later_token_tells_of_is_found),
    T(test_exclusive_grant_that_only_a_refusal_tells_of_is_found),
    T(test_clock_step_excuses_only_who_was_there_before),
    T(test_shared_write_under_an_older_token_than_an_exclusive_one_is_found),
    T(test_token_of_nobody_in_a_shared_row_is_found),
    T(test_writes_of_those_who_share_come_in_any_order_of_their_tokens),
    T(test_refusal_by_one_before_an_exclusive_grant_is_found),
    T(test_release_in_a_fault_is_not_lost_when_others_share_it_since),
    T(test_overlap_of_modes_across_a_clock_step_is_counted_apart),
    T(test_name_that_only_who_shares_asks_for_must_be_granted_after_faults),
    T(test_as_many_as_there_are_slots_may_hold_it),
    T(test_one_more_than_there_are_slots_is_found),
    T(test_one_slot_has_one_holder),
    T(test_slot_is_free_when_its_release_is_asked_for),
    T(test_slot_that_was_given_away_before_its_release_is_found),
    T(test_slot_of_a_killed_client_is_free_at_its_deadline),
    T(test_slot_of_a_killed_client_before_its_deadline_is_found),
    T(test_slot_that_was_broken_is_free),
    T(test_slots_of_other_names_are_others),
    T(test_full_slots_across_a_clock_step_are_counted_apart),
    T(test_slot_was_not_lost_by_the_next_one),
    T(test_slot_of_a_token_twice_is_found),
    T(test_guarded_writes_of_slots_come_in_any_order_of_their_tokens),
    T(test_guarded_write_when_all_slots_went_to_others_is_found),
    T(test_release_when_all_slots_went_to_others_is_found),
    T(test_refusal_by_one_whose_slot_went_to_others_is_found),
    T(test_slot_may_be_used_past_its_lease_while_nobody_needs_it),
    T(test_too_many_beside_a_guarded_write_are_found),
    T(test_release_after_a_guard_past_the_lease_is_none),
    T(test_slot_that_a_larger_token_tells_of_is_counted),
    T(test_too_many_after_a_clock_step_are_found),
    T(test_two_numbers_of_slots_are_found),
};

TEST_MAIN(tests)
