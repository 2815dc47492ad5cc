/* The checker finds names that nobody is granted any more, and cells that prove nothing; and what
 * it says of a violation is enough to look for the cause. */
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- after the last fault ---------------------------------------------------------------------
 */

static void test_name_that_is_refused_for_ever_after_the_last_fault_is_found(void **state)
{
    (void)state;
    planted_fault(0, 100, 0);
    for (int64_t t = 200; t < 5000; t += 100)
        planted_ask(1, t, t + 10, V_ACQUIRE, SQLOCK_EBUSY, 0);
    assert_breach(RULE_LIVENESS);
}

static void test_name_that_is_granted_late_after_the_last_fault_is_found(void **state)
{
    (void)state;
    planted_fault(0, 100, 0);
    planted_ask(1, 200, 210, V_ACQUIRE, SQLOCK_EBUSY, 0);
    planted_grant(1, 300, 3300, 1)->deadline_us = 4000 * 1000;
    assert_breach(RULE_LIVENESS);
}

static void test_name_that_is_granted_in_time_after_the_last_fault_is_none(void **state)
{
    (void)state;
    planted_fault(0, 100, 0);
    planted_ask(1, 200, 210, V_ACQUIRE, SQLOCK_EBUSY, 0);
    planted_grant(1, 300, 3200, 1)->deadline_us = 4000 * 1000;
    planted_ask(1, 6000, 6001, V_ACQUIRE, SQLOCK_EBUSY, 0);
    assert_proved();
    assert_int_equal(planted.v.judged, 1);
}

static void test_name_for_which_nobody_asked_when_it_was_due_is_none(void **state)
{
    (void)state;
    planted_fault(0, 100, 0);
    planted_ask(1, 200, 210, V_ACQUIRE, SQLOCK_EBUSY, 0);
    planted_ask(2, 5990, 6010, V_ACQUIRE, SQLOCK_EBUSY, 0);
    planted_grant(1, 6000, 6020, 1);
    assert_proved();
}

static void test_history_that_ends_before_a_grant_was_due_is_none(void **state)
{
    (void)state;
    planted_fault(0, 100, 0);
    planted_ask(1, 200, 3199, V_ACQUIRE, SQLOCK_EBUSY, 0);
    assert_proved();
}

static void test_ask_that_is_never_answered_after_the_last_fault_is_found(void **state)
{
    (void)state;
    planted_fault(0, 100, 0);
    planted_ask(1, 200, NO_ANSWER, V_ACQUIRE, 0, 0);
    planted_ask(2, 4000, 4010, V_REAP, 0, 0);
    assert_breach(RULE_LIVENESS);
}

static void test_name_that_is_held_all_the_time_after_the_last_fault_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(20, 100, 0);
    for (int64_t t = 500; t <= 5000; t += 500) {
        planted_until(1, t, t + 1, V_RENEW, 1, t + 900);
        planted_ask(2, t, t + 1, V_ACQUIRE, SQLOCK_EBUSY, 0);
    }
    assert_proved();
}

/* ---- load -------------------------------------------------------------------------------------
 */

static void test_too_few_grants_are_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted.rules.min_grants = 2;
    assert_breach(RULE_LOAD);
    planted_grant(2, 1000, 1010, 2);
    assert_proved();
}

static void test_too_few_faults_are_found(void **state)
{
    (void)state;
    planted_fault(0, 10, 0);
    planted_grant(1, 20, 30, 1);
    planted.rules.min_faults = 2;
    assert_breach(RULE_LOAD);
    planted_fault(5, 7, 0);
    assert_proved();
}

static void test_too_low_a_rate_before_the_first_fault_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 950, 960, 2);
    planted_fault(1000, 1010, 0);
    for (int64_t i = 0; i < 20; i++) {
        planted_grant(2, 2000 + 20 * i, 2005 + 20 * i, 3 + i);
        planted_release(2, 2006 + 20 * i, 2010 + 20 * i, 3 + i);
    }
    planted.rules.min_rate = 2;
    assert_proved();
    assert_int_equal(planted.v.rate, 2);
    planted.rules.min_rate = 3;
    assert_breach(RULE_LOAD);
}

static void test_fault_that_is_never_healed_is_found(void **state)
{
    (void)state;
    planted_fault(0, NO_ANSWER, 0);
    assert_breach(RULE_LOAD);
}

static void test_history_that_ends_with_its_last_fault_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(20, 30, 0);
    planted.rules.min_grants = 1;
    assert_breach(RULE_LOAD);
}

static void test_verdict_counts_what_was_asked(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 20, 21, V_HELD, 1, 900);
    planted_release(1, 30, 40, 1);
    planted_ask(1, 50, 60, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    planted_until(1, 70, 80, V_SETTLE, 2, 900);
    planted_ask(2, 90, 95, V_REAP, 0, 0);
    planted_grant(2, 1000, 1010, 3);
    planted_ask(1, 1020, 1030, V_GUARDED, SQLOCK_ELOST, 2);
    assert_proved();
    assert_int_equal(planted.v.operations, 7);
    assert_int_equal(planted.v.grants, 3);
    assert_int_equal(planted.v.unsure, 1);
    assert_int_equal(planted.v.settled, 1);
    assert_int_equal(planted.v.late_refused, 1);
}

static void test_release_that_is_unsure_twice_is_one_question(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 20, 30, V_RELEASE, SQLOCK_EUNSURE, 1);
    planted_ask(1, 40, 50, V_RELEASE, SQLOCK_EUNSURE, 1);
    planted_ask(1, 60, 70, V_SETTLE, SQLOCK_EUNREACH, 1);
    assert_proved();
    assert_int_equal(planted.v.unsure, 1);
    assert_int_equal(planted.v.settled, 0);
    planted_value(1, 80, 90, V_SETTLE, 0, 1, SQLOCK_WHY_RELEASED);
    assert_proved();
    assert_int_equal(planted.v.unsure, 1);
    assert_int_equal(planted.v.settled, 1);
}

static void test_commits_of_which_nobody_knew_are_settled_by_the_row(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);  /* it is there */
    planted_value(1, 20, 30, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 2); /* it is not */
    planted_value(1, 40, 50, V_ROW_LOCK, 0, 0, 2);
    planted_value(1, 60, 70, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 3); /* nor is this */
    planted_rows(0, 0, 2, 0);
    assert_proved();
    assert_int_equal(planted.v.unsure, 3);
    assert_int_equal(planted.v.settled, 3);
}

static void test_commits_that_may_both_be_it_are_not_settled(void **state)
{
    (void)state;
    planted_value(1, 0, 10, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);
    planted_value(2, 5, 15, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);
    planted_rows(0, 0, 1, 0);
    assert_proved();
    assert_int_equal(planted.v.unsure, 2);
    assert_int_equal(planted.v.settled, 0);
}

/* ---- what is said -----------------------------------------------------------------------------
 */

static void test_thread_that_asks_two_things_at_a_time_is_found(void **state)
{
    (void)state;
    planted_ask(1, 0, 100, V_REAP, 0, 0);
    planted_ask(1, 50, 60, V_REAP, 0, 0);
    assert_breach(RULE_HISTORY);
}

static void test_violation_shows_the_window_and_no_more(void **state)
{
    int lines = 0;

    (void)state;
    planted_grant(1, 0, 10, 1);
    for (int i = 0; i < 50; i++)
        planted_ask(3, 100 + 2 * i, 101 + 2 * i, V_ACQUIRE, SQLOCK_EBUSY, 0);
    planted_grant(2, 300, 310, 2);
    planted.name = 1;
    planted_grant(4, 50, 60, 1234);
    assert_breach(RULE_OVERLAP);
    for (const char *at = planted.said; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_between(20, lines, 40);
    assert_non_null(strstr(planted.said, "... 28 more ..."));
    assert_non_null(strstr(planted.said, "acquire ok, token 1, deadline 900000"));
    assert_non_null(strstr(planted.said, "acquire ok, token 2, deadline 1200000"));
    assert_null(strstr(planted.said, "1234"));
}

static void test_many_violations_are_counted_and_few_are_told(void **state)
{
    int told = 0;

    (void)state;
    for (int i = 0; i < 20; i++)
        planted_grant(1, 20 * i, 20 * i + 10, 1 + i);
    assert_breach(RULE_OVERLAP);
    assert_int_equal(planted.v.violations, 19);
    for (const char *at = planted.said; (at = strstr(at, "VIOLATION")) != NULL; at++)
        told++;
    assert_int_equal(told, 3);
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_name_that_is_refused_for_ever_after_the_last_fault_is_found),
    T(test_name_that_is_granted_late_after_the_last_fault_is_found),
    T(test_name_that_is_granted_in_time_after_the_last_fault_is_none),
    T(test_name_for_which_nobody_asked_when_it_was_due_is_none),
    T(test_history_that_ends_before_a_grant_was_due_is_none),
    T(test_ask_that_is_never_answered_after_the_last_fault_is_found),
    T(test_name_that_is_held_all_the_time_after_the_last_fault_is_none),
    T(test_too_few_grants_are_found),
    T(test_too_few_faults_are_found),
    T(test_too_low_a_rate_before_the_first_fault_is_found),
    T(test_fault_that_is_never_healed_is_found),
    T(test_history_that_ends_with_its_last_fault_is_found),
    T(test_verdict_counts_what_was_asked),
    T(test_release_that_is_unsure_twice_is_one_question),
    T(test_commits_of_which_nobody_knew_are_settled_by_the_row),
    T(test_commits_that_may_both_be_it_are_not_settled),
    T(test_thread_that_asks_two_things_at_a_time_is_found),
    T(test_violation_shows_the_window_and_no_more),
    T(test_many_violations_are_counted_and_few_are_told),
};

TEST_MAIN(tests)
