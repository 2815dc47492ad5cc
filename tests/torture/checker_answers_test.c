/* The checker finds answers that cannot be true: held, lost. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- yes --------------------------------------------------------------------------------------
 */

static void test_renewal_after_a_later_grant_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_grant(2, 40, 50, 2);
    planted_until(1, 60, 70, V_RENEW, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_renewal_that_was_asked_for_before_a_later_grant_was_told_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_until(1, 49, 70, V_RENEW, 1, 900);
    planted_grant(2, 45, 50, 2);
    planted_check();
    assert_int_equal(planted.v.found[RULE_OVERLAP], 0);
}

static void test_renewal_after_a_break_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_until(1, 60, 70, V_RENEW, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_renewal_during_a_break_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 60, V_BREAK, 0, 1);
    planted_until(1, 60, 70, V_RENEW, 1, 900);
    assert_proved();
}

static void test_guarded_write_after_a_later_grant_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 1000, 1010, 2);
    planted_guarded(1, 1020, 1030, 1, 1);
    assert_breach(RULE_STALE);
}

/* Guarded before the other one came, and answered after that. */
static void test_guarded_write_that_began_before_a_later_grant_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 800, 1030, 1, 1);
    planted_grant(2, 1000, 1010, 2);
    assert_proved();
}

static struct event *guarded_until(uint32_t thread, int64_t from, int64_t commit, int64_t to,
                                   int64_t token, int64_t value)
{
    struct event *e = planted_guarded(thread, from, to, token, value);

    e->deadline_us = commit * 1000;
    return e;
}

static void test_grant_while_a_transaction_guards_the_lock_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    guarded_until(1, 800, 1500, 1510, 1, 1);
    planted_grant(2, 1000, 1010, 2);
    assert_breach(RULE_GUARD);
}

static void test_grant_when_the_commit_was_asked_for_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    guarded_until(1, 800, 1010, 1510, 1, 1);
    planted_grant(2, 1000, 1010, 2);
    assert_proved();
}

/* On MySQL, where nobody has been granted the name since. */
static void test_guarded_write_after_a_break_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    guarded_until(1, 60, 65, 70, 1, 1);
    assert_proved();
}

static void test_guarded_write_after_a_break_and_a_later_grant_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_grant(2, 40, 50, 2);
    guarded_until(1, 60, 65, 70, 1, 1);
    assert_found(RULE_STALE);
}

static void test_grant_while_a_transaction_guards_a_broken_lock_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_grant(2, 65, 70, 2);
    guarded_until(1, 60, 80, 90, 1, 1);
    assert_found(RULE_GUARD);
}

static void test_grant_while_a_refused_transaction_was_open_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    guarded_until(1, 800, 1500, 1510, 1, 0)->outcome = SQLOCK_ETXGONE;
    planted_grant(2, 1000, 1010, 2);
    assert_proved();
}

static void test_release_within_the_guarded_transaction_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    guarded_until(1, 100, 200, 210, 1, 1);
    planted_release(2, 120, 130, 1);
    planted_grant(3, 205, 220, 2);
    assert_proved();
}

static void test_release_after_a_later_grant_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 1000, 1010, 2);
    planted_release(1, 1020, 1030, 1);
    assert_breach(RULE_STALE);
}

static void test_release_that_is_asked_again_says_yes_whoever_came(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 20, 30, V_RELEASE, SQLOCK_EUNSURE, 1);
    planted_grant(2, 40, 50, 2);
    planted_release(1, 60, 70, 1);
    assert_proved();
    assert_int_equal(planted.v.unsure, 1);
    assert_int_equal(planted.v.settled, 1);
}

static void test_release_of_a_broken_grant_that_says_yes_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_release(1, 40, 50, 1);
    assert_breach(RULE_STALE);
}

/* Whether its reply was lost in a fault, and who came since, is no matter. */
static void test_release_of_a_broken_grant_that_says_yes_in_a_fault_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_grant(2, 35, 39, 2);
    planted_release(1, 40, 500, 1);
    planted_fault(450, 460, 0);
    assert_breach(RULE_STALE);
}

static void test_held_after_its_own_release_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    planted_until(1, 40, 41, V_HELD, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_held_after_a_break_that_was_not_told_yet_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_until(1, 400, 401, V_HELD, 1, 900);
    assert_proved();
}

static void test_held_long_after_a_break_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_until(1, 400, 401, V_HELD, 1, 931);
    assert_breach(RULE_STALE);
}

static void test_held_at_its_deadline_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 900, 901, V_HELD, 1, 900);
    assert_breach(RULE_STALE);
}

/* Stopped between the look and the note. */
static void test_held_that_was_noted_after_its_deadline_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 899, 2000, V_HELD, 1, 900);
    assert_proved();
}

static void test_use_of_what_nobody_was_granted_is_found(void **state)
{
    (void)state;
    planted_until(1, 40, 41, V_RENEW, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_settled_after_a_later_grant_is_found(void **state)
{
    (void)state;
    planted_ask(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    planted_grant(2, 1100, 1110, 2);
    planted_until(1, 1120, 1130, V_SETTLE, 1, 1125);
    assert_breach(RULE_STALE);
}

/* ---- lost -------------------------------------------------------------------------------------
 */

static void test_lost_before_its_deadline_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 100, 899, V_RENEW, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_lost_at_its_deadline_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 100, 900, V_RENEW, SQLOCK_ELOST, 1);
    assert_proved();
}

static void test_refused_guard_within_the_span_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 100, 200, V_GUARDED, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_refused_guard_within_the_renewed_span_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 500, 510, V_RENEW, 1, 1400);
    planted_ask(1, 1000, 1100, V_GUARDED, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_lost_after_a_break_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 150, NO_ANSWER, V_BREAK, 0, 1);
    planted_ask(1, 100, 200, V_RENEW, SQLOCK_ELOST, 1);
    planted_value(1, 300, 301, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_BROKEN);
    assert_proved();
}

static void test_lost_while_the_server_is_hurt_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(50, 150, 1);
    planted_ask(1, 100, 200, V_GUARDED, SQLOCK_ELOST, 1);
    planted_grant(1, 5000, 5010, 2);
    assert_proved();
}

static void test_lost_soon_after_a_clock_step_is_none_and_later_is_found(void **state)
{
    (void)state;
    planted_fault(0, 50, 2);
    planted_grant(1, 100, 110, 1);
    planted_value(1, 150, 160, V_RELEASE, SQLOCK_ELOST, 1, SQLOCK_WHY_CLOCK);
    planted_grant(1, 9000, 9010, 2);
    planted_value(1, 9050, 9060, V_RELEASE, SQLOCK_ELOST, 2, SQLOCK_WHY_CLOCK);
    assert_breach(RULE_LOST);
    assert_int_equal(planted.v.violations, 1);
}

static void lost_release_and_successor(void)
{
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 100, 400, V_RELEASE, SQLOCK_ELOST, 1);
    planted_grant(2, 200, 210, 2);
}

/* Asked again, it says released: also of a grant that was imported. */
static void test_release_that_others_followed_and_was_lost_in_a_fault_is_found(void **state)
{
    (void)state;
    lost_release_and_successor();
    planted_fault(150, 160, 0);
    assert_breach(RULE_LOST);
}

static void test_release_that_others_followed_and_was_lost_without_a_fault_is_found(void **state)
{
    (void)state;
    lost_release_and_successor();
    planted_fault(401, 410, 0);
    assert_breach(RULE_LOST);
}

static void test_lost_while_only_a_client_is_hurt_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(50, 150, 0);
    planted_ask(1, 100, 200, V_GUARDED, SQLOCK_ELOST, 1);
    planted_grant(1, 5000, 5010, 2);
    assert_breach(RULE_LOST);
}

static void test_broken_by_nobody_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_value(1, 950, 951, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_BROKEN);
    assert_breach(RULE_LOST);
}

static void test_run_out_before_the_deadline_though_broken_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 20, 30, V_BREAK, 0, 1);
    planted_value(1, 500, 501, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_EXPIRED);
    assert_breach(RULE_LOST);
}

static void test_run_out_at_the_deadline_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_value(1, 900, 901, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_EXPIRED);
    assert_proved();
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_renewal_after_a_later_grant_is_found),
    T(test_renewal_that_was_asked_for_before_a_later_grant_was_told_is_none),
    T(test_renewal_after_a_break_is_found),
    T(test_renewal_during_a_break_is_none),
    T(test_guarded_write_after_a_later_grant_is_found),
    T(test_guarded_write_that_began_before_a_later_grant_is_none),
    T(test_grant_while_a_transaction_guards_the_lock_is_found),
    T(test_grant_when_the_commit_was_asked_for_is_none),
    T(test_guarded_write_after_a_break_is_none),
    T(test_guarded_write_after_a_break_and_a_later_grant_is_found),
    T(test_grant_while_a_transaction_guards_a_broken_lock_is_found),
    T(test_grant_while_a_refused_transaction_was_open_is_none),
    T(test_release_within_the_guarded_transaction_is_none),
    T(test_release_after_a_later_grant_is_found),
    T(test_release_that_is_asked_again_says_yes_whoever_came),
    T(test_release_of_a_broken_grant_that_says_yes_is_found),
    T(test_release_of_a_broken_grant_that_says_yes_in_a_fault_is_found),
    T(test_held_after_its_own_release_is_found),
    T(test_held_after_a_break_that_was_not_told_yet_is_none),
    T(test_held_long_after_a_break_is_found),
    T(test_held_at_its_deadline_is_found),
    T(test_held_that_was_noted_after_its_deadline_is_none),
    T(test_use_of_what_nobody_was_granted_is_found),
    T(test_settled_after_a_later_grant_is_found),
    T(test_lost_before_its_deadline_is_found),
    T(test_lost_at_its_deadline_is_none),
    T(test_refused_guard_within_the_span_is_found),
    T(test_refused_guard_within_the_renewed_span_is_found),
    T(test_lost_after_a_break_is_none),
    T(test_lost_while_the_server_is_hurt_is_none),
    T(test_release_that_others_followed_and_was_lost_in_a_fault_is_found),
    T(test_release_that_others_followed_and_was_lost_without_a_fault_is_found),
    T(test_lost_soon_after_a_clock_step_is_none_and_later_is_found),
    T(test_lost_while_only_a_client_is_hurt_is_found),
    T(test_broken_by_nobody_is_found),
    T(test_run_out_before_the_deadline_though_broken_is_found),
    T(test_run_out_at_the_deadline_is_none),
};

TEST_MAIN(tests)
