/* The checker finds guards that nobody had, and holders whom nobody can have made. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- guarded ----------------------------------------------------------------------------------
 */

static struct event *told_guarded(uint32_t thread, int64_t from, int64_t to)
{
    return planted_ask(thread, from, to, V_ACQUIRE, SQLOCK_EGUARDED, 0);
}

static void test_guarded_without_a_guard_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    told_guarded(2, 40, 50);
    assert_breach(RULE_GUARDED);
}

static void test_guarded_while_a_guard_is_open_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 20, 60, 1, 1);
    planted_release(3, 25, 30, 1);
    told_guarded(2, 40, 50);
    assert_proved();
}

static void test_guarded_after_the_guards_end_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 11, 20, 1, 1);
    planted_release(1, 25, 30, 1);
    told_guarded(2, 40, 50);
    assert_breach(RULE_GUARDED);
}

static void test_guarded_by_a_transaction_of_another_name_is_found(void **state)
{
    (void)state;
    planted.name = 1;
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 20, 60, 1, 1);
    planted.name = 0;
    told_guarded(2, 40, 50);
    assert_breach(RULE_GUARDED);
}

/* It is busy then, whoever guards it besides. */
static void test_guarded_while_it_is_held_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 20, 60, 1, 1);
    told_guarded(2, 40, 50);
    assert_breach(RULE_GUARDED);
}

/* Its client was killed; the server has not noticed yet. */
static void test_guarded_by_a_transaction_that_was_not_answered_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(3, 25, 30, 1);
    planted_ask(1, 20, NO_ANSWER, V_GUARDED, 0, 1);
    told_guarded(2, 40, 50);
    assert_proved();
}

static void test_guarded_when_others_were_granted_it_since_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 20, NO_ANSWER, V_GUARDED, 0, 1);
    planted_release(3, 25, 30, 1);
    planted_grant(4, 35, 40, 2);
    planted_release(4, 41, 50, 2);
    told_guarded(2, 60, 70);
    assert_breach(RULE_GUARDED);
}

static void test_guarded_by_one_that_waited_in_a_fault_and_lost_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 11, 12, 1);
    planted_ask(1, 20, 60, V_GUARDED, SQLOCK_ELOST, 1);
    planted_fault(15, 30, 0);
    planted_grant(4, 31, 35, 2);
    planted_release(4, 36, 38, 2);
    told_guarded(2, 40, 50);
    assert_proved();
}

static void test_release_told_of_a_guard_of_another_grant_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_ask(1, 20, 60, V_RELEASE, SQLOCK_EGUARDED, 1);
    planted_grant(2, 25, 30, 2);
    planted_guarded(2, 35, 55, 2, 1);
    assert_breach(RULE_GUARDED);
}

/* It waited for the grant that came after its own, and has the row locked since. */
static void test_release_told_of_a_guard_that_lost_to_it_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 11, 12, 1);
    planted_grant(2, 25, 30, 2);
    planted_ask(1, 28, 55, V_GUARDED, SQLOCK_ELOST, 1);
    planted_ask(2, 35, 50, V_RELEASE, SQLOCK_EGUARDED, 2);
    assert_proved();
}

static void test_break_told_of_the_guard_of_its_grant_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 20, 60, 1, 1);
    planted_ask(2, 30, 40, V_BREAK, SQLOCK_EGUARDED, 1);
    assert_proved();
}

static void test_locks_in_a_fault_are_not_judged(void **state)
{
    (void)state;
    planted_fault(35, 45, 0);
    told_guarded(2, 40, 50);
    assert_proved();
}

static void test_sqlite_is_not_asked_for_guards(void **state)
{
    (void)state;
    planted.rules.engine = "sqlite-wal";
    told_guarded(2, 40, 50);
    assert_proved();
}

/* ---- never granted ----------------------------------------------------------------------------
 */

/* Thread 3 is told that token 1 has the lock. */
static void busy(int64_t from, int64_t to)
{
    planted_ask(3, from, to, V_ACQUIRE, SQLOCK_EBUSY, 1)->deadline_us = (to + 500) * 1000;
}

static void unsure(uint32_t thread, int64_t from, int64_t to)
{
    planted_ask(thread, from, to, V_ACQUIRE, SQLOCK_EUNSURE, 0);
}

static void test_grant_that_was_settled_as_never_granted_is_found(void **state)
{
    (void)state;
    unsure(1, 0, 10);
    planted_value(1, 20, 30, V_SETTLE, SQLOCK_ELOST, 0, SQLOCK_WHY_NOT_GRANTED);
    busy(40, 50);
    assert_breach(RULE_UNKNOWN);
}

static void test_grant_that_was_given_back_is_found(void **state)
{
    (void)state;
    unsure(1, 0, 10);
    planted_ask(1, 20, 30, V_RELEASE, 0, 0);
    busy(40, 50);
    assert_breach(RULE_UNKNOWN);
}

static void test_grant_that_is_being_settled_is_none(void **state)
{
    (void)state;
    unsure(1, 0, 10);
    busy(12, 18);
    planted_value(1, 20, 45, V_SETTLE, SQLOCK_ELOST, 0, SQLOCK_WHY_NOT_GRANTED);
    busy(40, 50);
    assert_proved();
}

static void test_grant_that_was_not_settled_is_none(void **state)
{
    (void)state;
    unsure(1, 0, 10);
    planted_ask(1, 20, 30, V_SETTLE, SQLOCK_EUNSURE, 0);
    busy(40, 50);
    assert_proved();
}

static void test_grant_of_a_client_that_was_killed_is_none(void **state)
{
    (void)state;
    planted_killed(0);
    busy(40, 50);
    assert_proved();
}

static void test_grant_of_the_command_that_has_not_told_of_it_is_none(void **state)
{
    (void)state;
    planted_ask(1, 0, 45, V_RUN, 0, 0);
    busy(40, 50);
    assert_proved();
}

static void test_grant_after_an_acquire_that_was_refused_is_found(void **state)
{
    (void)state;
    planted_ask(1, 0, 10, V_ACQUIRE, SQLOCK_ETIMEOUT, 0);
    busy(40, 50);
    assert_breach(RULE_UNKNOWN);
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_guarded_without_a_guard_is_found),
    T(test_guarded_while_a_guard_is_open_is_none),
    T(test_guarded_after_the_guards_end_is_found),
    T(test_guarded_by_a_transaction_of_another_name_is_found),
    T(test_guarded_while_it_is_held_is_found),
    T(test_guarded_by_a_transaction_that_was_not_answered_is_none),
    T(test_guarded_when_others_were_granted_it_since_is_found),
    T(test_guarded_by_one_that_waited_in_a_fault_and_lost_is_none),
    T(test_release_told_of_a_guard_of_another_grant_is_found),
    T(test_release_told_of_a_guard_that_lost_to_it_is_none),
    T(test_break_told_of_the_guard_of_its_grant_is_none),
    T(test_locks_in_a_fault_are_not_judged),
    T(test_sqlite_is_not_asked_for_guards),
    T(test_grant_that_was_settled_as_never_granted_is_found),
    T(test_grant_that_was_given_back_is_found),
    T(test_grant_that_is_being_settled_is_none),
    T(test_grant_that_was_not_settled_is_none),
    T(test_grant_of_a_client_that_was_killed_is_none),
    T(test_grant_of_the_command_that_has_not_told_of_it_is_none),
    T(test_grant_after_an_acquire_that_was_refused_is_found),
};

TEST_MAIN(tests)
