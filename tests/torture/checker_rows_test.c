/* The checker finds rows that were not written as they should be. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- rows -------------------------------------------------------------------------------------
 */

static void test_two_writes_of_one_value_are_a_lost_update(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    planted_value(2, 0, 10, V_ROW_LOCK, 0, 0, 1);
    assert_breach(RULE_UPDATE);
}

static void test_two_changes_to_one_version_are_a_lost_update(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_value(2, 20, 30, V_CAS, 0, 0, 1);
    assert_found(RULE_UPDATE);
}

static void test_write_and_an_unsure_one_of_the_same_value_are_none(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    planted_value(2, 0, 10, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);
    assert_proved();
}

static void test_smaller_value_after_a_larger_one_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 2);
    planted_value(2, 20, 30, V_ROW_LOCK, 0, 0, 1);
    assert_breach(RULE_UPDATE);
}

static void test_values_of_writes_at_the_same_time_may_be_told_in_any_order(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 2);
    planted_value(2, 10, 30, V_ROW_LOCK, 0, 0, 1);
    assert_proved();
}

static void test_committed_write_of_nothing_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 0);
    assert_found(RULE_UPDATE);
}

static void test_change_of_another_version_than_expected_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_value(2, 0, 10, V_CAS, 0, 0, 2);
    assert_breach(RULE_UPDATE);
}

static void test_conflict_with_nobody_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_ask(2, 20, 30, V_CAS, SQLOCK_CONFLICT, 1);
    planted_value(1, 31, 40, V_CAS, 0, 1, 2);
    assert_breach(RULE_CONFLICT);
}

static void test_conflict_with_who_asked_meanwhile_is_none(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_ask(2, 20, 30, V_CAS, SQLOCK_CONFLICT, 1);
    planted_value(1, 30, 40, V_CAS, 0, 1, 2);
    assert_proved();
}

static void test_conflict_with_who_was_killed_is_none(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_ask(2, 20, 30, V_CAS, SQLOCK_CONFLICT, 1);
    planted_ask(1, 15, NO_ANSWER, V_CAS, 0, 1);
    assert_proved();
}

static void test_write_under_an_older_token_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(2, 1050, 1070, 2, 1);
    planted_guarded(1, 500, 1100, 1, 2);
    planted_grant(2, 1000, 1010, 2);
    assert_breach(RULE_FENCE);
}

static void test_write_under_an_older_token_that_came_first_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(2, 1050, 1070, 2, 2);
    planted_guarded(1, 500, 1100, 1, 1);
    planted_grant(2, 1000, 1010, 2);
    assert_proved();
    assert_int_equal(planted.v.guarded, 2);
}

/* Nobody else can have written the 2 that the row went through. */
static void test_unsure_write_that_is_in_the_row_counts(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 1000, 1010, 2);
    planted_guarded(2, 1050, 1070, 2, 1);
    planted_value(1, 500, 1100, V_GUARDED, SQLOCK_EUNSURE, 1, 2);
    planted_guarded(2, 1150, 1170, 2, 3);
    assert_breach(RULE_FENCE);
}

static void test_unsure_write_that_may_not_be_in_the_row_counts_not(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 1000, 1010, 2);
    planted_guarded(2, 1050, 1070, 2, 1);
    planted_value(1, 500, 1100, V_GUARDED, SQLOCK_EUNSURE, 1, 2);
    planted_guarded(2, 1150, 1170, 2, 2);
    assert_proved();
}

static void test_committed_write_that_is_not_in_the_row_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    planted_value(1, 20, 30, V_ROW_LOCK, 0, 0, 2);
    planted_rows(0, 0, 1, 0);
    assert_breach(RULE_SUM);
}

static void test_write_that_nobody_made_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_value(1, 20, 30, V_CAS, SQLOCK_CONFLICT, 0, 0);
    planted_rows(0, 0, 0, 2);
    assert_breach(RULE_SUM);
}

static void test_refused_write_that_is_in_the_row_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_value(1, 1000, 1010, V_GUARDED, SQLOCK_ELOST, 1, 1);
    planted_rows(1, 1, 0, 0);
    assert_breach(RULE_SUM);
}

static void test_row_that_nobody_wrote_and_is_not_empty_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_rows(0, 0, 3, 0);
    assert_breach(RULE_SUM);
}

static void test_unsure_write_may_be_in_the_row_or_not(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    planted_value(1, 20, 30, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 2);
    planted_rows(0, 0, 1, 0);
    assert_proved();
    planted_rows(0, 0, 2, 0);
    assert_proved();
    planted_rows(0, 0, 3, 0);
    assert_breach(RULE_SUM);
}

static void test_write_of_a_killed_client_may_be_in_the_row_or_not(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    planted_value(2, 20, NO_ANSWER, V_ROW_LOCK, 0, 0, 0);
    planted_value(1, 30, 40, V_ROW_LOCK, 0, 0, 3);
    planted_rows(0, 0, 3, 0);
    assert_proved();
    planted_rows(0, 0, 4, 0);
    assert_breach(RULE_SUM);
}

static void test_version_that_does_not_count_the_changes_is_found(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_CAS, 0, 0, 1);
    planted_rows(0, 0, 0, 1);
    planted.rows[0].changes = 2;
    assert_breach(RULE_SUM);
}

static void test_token_in_the_row_is_that_of_the_last_write(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 1000, 1010, 2);
    planted_guarded(2, 1050, 1070, 2, 1);
    planted_rows(1, 2, 0, 0);
    assert_proved();
    planted_rows(1, 1, 0, 0);
    assert_breach(RULE_FENCE);
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_two_writes_of_one_value_are_a_lost_update),
    T(test_two_changes_to_one_version_are_a_lost_update),
    T(test_write_and_an_unsure_one_of_the_same_value_are_none),
    T(test_smaller_value_after_a_larger_one_is_found),
    T(test_values_of_writes_at_the_same_time_may_be_told_in_any_order),
    T(test_committed_write_of_nothing_is_found),
    T(test_change_of_another_version_than_expected_is_found),
    T(test_conflict_with_nobody_is_found),
    T(test_conflict_with_who_asked_meanwhile_is_none),
    T(test_conflict_with_who_was_killed_is_none),
    T(test_write_under_an_older_token_is_found),
    T(test_write_under_an_older_token_that_came_first_is_none),
    T(test_unsure_write_that_is_in_the_row_counts),
    T(test_unsure_write_that_may_not_be_in_the_row_counts_not),
    T(test_committed_write_that_is_not_in_the_row_is_found),
    T(test_write_that_nobody_made_is_found),
    T(test_refused_write_that_is_in_the_row_is_found),
    T(test_row_that_nobody_wrote_and_is_not_empty_is_found),
    T(test_unsure_write_may_be_in_the_row_or_not),
    T(test_write_of_a_killed_client_may_be_in_the_row_or_not),
    T(test_version_that_does_not_count_the_changes_is_found),
    T(test_token_in_the_row_is_that_of_the_last_write),
};

TEST_MAIN(tests)
