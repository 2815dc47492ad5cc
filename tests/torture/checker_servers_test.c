/* The checker knows what each succession of servers may promise: tokens rise over all of them; one
 * holder, unless commits were lost and nobody asked for a grace; and of two that live at a time the
 * new one's tokens are above the old one's. */
#include "tests/lib/check.h"
#include "tests/torture/planted.h"

enum { KILLED = 1, LOST = 3, LOST_WITH_GRACE = 4 }; /* values of V_FAULT */

/* A process, which is its thread's number here, on this server. */
static void on_side(uint32_t process, int64_t side)
{
    planted_value(90, 0, 0, V_SIDE, 0, 0, side)->process = process;
}

static struct event *grant_by(uint32_t process, int64_t from, int64_t to, int64_t token)
{
    struct event *e = planted_grant(process, from, to, token);

    e->process = process;
    return e;
}

static struct event *release_by(uint32_t process, int64_t from, int64_t to, int64_t token)
{
    struct event *e = planted_release(process, from, to, token);

    e->process = process;
    return e;
}

/* ---- tokens over a succession of servers ------------------------------------------------------
 */

/* A dies, B is promoted and grants; B dies, and C follows, which never followed B. */
static void grant_on_three(int64_t on_a, int64_t on_b, int64_t on_c)
{
    planted_grant(1, 0, 10, on_a);
    planted_release(1, 20, 30, on_a);
    planted_fault(40, 60, LOST);
    planted_grant(2, 100, 110, on_b);
    planted_release(2, 120, 130, on_b);
    planted_fault(140, 160, LOST);
    planted_grant(3, 200, 210, on_c);
}

static void test_tokens_that_rise_over_three_servers_are_proved(void **state)
{
    (void)state;
    grant_on_three(7, 100, 101);
    assert_proved();
}

static void test_token_that_comes_again_on_the_third_server_is_found(void **state)
{
    (void)state;
    grant_on_three(7, 4294967299, 4294967299);
    assert_breach(RULE_TOKEN);
}

static void test_token_that_falls_on_the_third_server_is_found(void **state)
{
    (void)state;
    grant_on_three(7, 4294967301, 4294967300);
    assert_breach(RULE_TOKEN);
}

static void test_token_that_falls_on_failback_is_found(void **state)
{
    (void)state;
    grant_on_three(3, 4294967301, 4);
    assert_breach(RULE_TOKEN);
}

static void test_token_that_falls_after_a_synchronous_failover_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 8);
    planted_release(1, 20, 30, 8);
    planted_fault(40, 60, KILLED);
    planted_grant(2, 100, 110, 7);
    assert_breach(RULE_TOKEN);
}

/* A grace is about holders: tokens rise with it as without. */
static void test_token_that_comes_again_with_grace_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 8);
    planted_fault(40, 60, LOST_WITH_GRACE);
    planted_grant(2, 2000, 2010, 8);
    assert_breach(RULE_TOKEN);
}

/* Who is refused by the new server is told of a token that the old one had granted long ago. */
static void test_refusal_by_a_token_below_those_that_were_lost_is_none(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    planted_grant(2, 40, 50, 2);
    planted_fault(35, 100, LOST);
    planted_ask(3, 120, 130, V_ACQUIRE, SQLOCK_EBUSY, 1);
    assert_proved();
}

static void test_refusal_by_a_grant_that_was_over_before_the_loss_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 20, 30, 1);
    planted_grant(2, 32, 34, 2);
    planted_ask(3, 40, 50, V_ACQUIRE, SQLOCK_EBUSY, 1);
    planted_fault(60, 100, LOST);
    assert_found(RULE_BUSY);
}

static void test_refusal_by_a_released_grant_after_a_synchronous_failover_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_release(1, 50, 55, 1);
    planted_fault(40, 60, KILLED);
    planted_ask(3, 120, 130, V_ACQUIRE, SQLOCK_EBUSY, 1);
    assert_found(RULE_BUSY);
}

/* ---- one holder -------------------------------------------------------------------------------
 */

/* Granted by one server, and within the lease by the next. */
static void grant_over(int64_t fault)
{
    planted_grant(1, 50, 60, 1);
    planted_fault(40, 200, fault);
    planted_grant(2, 300, 310, 100);
}

static void test_overlap_over_a_synchronous_failover_is_found(void **state)
{
    (void)state;
    grant_over(KILLED);
    assert_breach(RULE_OVERLAP);
}

static void test_overlap_with_grace_is_found(void **state)
{
    (void)state;
    grant_over(LOST_WITH_GRACE);
    assert_breach(RULE_OVERLAP);
}

static void test_grant_when_the_grace_is_over_is_proved(void **state)
{
    (void)state;
    planted_grant(1, 50, 60, 1);
    planted_fault(40, 200, LOST_WITH_GRACE);
    planted_grant(2, 300, 950, 100);
    assert_proved();
}

static void test_overlap_over_lost_commits_is_counted_and_no_breach(void **state)
{
    (void)state;
    grant_over(LOST);
    assert_proved();
    assert_int_equal(planted.v.lost_overlaps, 1);
    assert_int_equal(planted.v.clock_overlaps, 0);
}

/* The grant survived, its renewal did not. */
static void test_overlap_with_a_renewal_that_was_lost_is_counted_and_no_breach(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_until(1, 800, 810, V_RENEW, 1, 1700);
    planted_fault(790, 900, LOST);
    planted_grant(2, 950, 960, 100);
    assert_proved();
    assert_int_equal(planted.v.lost_overlaps, 1);
}

static void test_overlap_before_commits_were_lost_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_grant(2, 100, 110, 2);
    planted_fault(2000, 2100, LOST);
    assert_breach(RULE_OVERLAP);
}

static void test_overlap_after_the_promotion_is_found(void **state)
{
    (void)state;
    planted_grant(1, 0, 10, 1);
    planted_fault(40, 200, LOST);
    planted_grant(2, 210, 220, 100);
    planted_grant(3, 300, 310, 101);
    assert_breach(RULE_OVERLAP);
    assert_int_equal(planted.v.lost_overlaps, 1);
}

/* ---- what was forgotten -----------------------------------------------------------------------
 */

static void renew_what_was_broken(int64_t fault)
{
    planted_grant(1, 0, 10, 1);
    planted_ask(3, 50, 60, V_BREAK, 0, 1);
    planted_fault(40, 100, fault);
    planted_until(1, 150, 160, V_RENEW, 1, 1050);
}

static void test_renewal_of_a_grant_whose_break_was_lost_is_none(void **state)
{
    (void)state;
    renew_what_was_broken(LOST);
    assert_proved();
}

static void test_renewal_of_a_broken_grant_after_a_synchronous_failover_is_found(void **state)
{
    (void)state;
    renew_what_was_broken(KILLED);
    assert_breach(RULE_STALE);
}

static void write_twice(int64_t fault)
{
    planted_grant(1, 0, 10, 1);
    planted_guarded(1, 20, 30, 1, 1);
    planted_release(1, 31, 32, 1);
    planted_fault(15, 100, fault);
    planted_grant(2, 950, 960, 100);
    planted_guarded(2, 970, 980, 100, 1);
    planted_rows(1, 100, 0, 0);
}

static void test_write_that_was_lost_with_its_grant_is_none(void **state)
{
    (void)state;
    write_twice(LOST);
    assert_proved();
}

static void test_write_that_a_synchronous_failover_lost_is_found(void **state)
{
    (void)state;
    write_twice(KILLED);
    assert_breach(RULE_UPDATE);
}

/* ---- two servers that live at a time ----------------------------------------------------------
 */

static void part_at(int64_t from, int64_t to)
{
    on_side(1, 1);
    on_side(2, 1);
    on_side(3, 2);
    on_side(4, 2);
    planted_fault(from, to, LOST);
}

static void test_grants_of_the_old_server_beside_those_of_the_new_one_are_none(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(1, 0, 10, 1);
    grant_by(3, 100, 110, 1000);
    release_by(1, 120, 130, 1);
    grant_by(2, 140, 150, 2);
    release_by(3, 160, 170, 1000);
    grant_by(4, 180, 190, 1001);
    assert_proved();
}

static void test_token_of_the_new_server_below_one_of_the_old_is_found(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(1, 0, 10, 5);
    release_by(1, 20, 30, 5);
    grant_by(3, 2000, 2010, 4);
    assert_found(RULE_SIDE);
}

/* Also where it was granted before that: the old one must not catch up with the new one. */
static void test_old_server_that_overtakes_the_tokens_of_the_new_one_is_found(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(3, 100, 110, 1000);
    release_by(3, 120, 130, 1000);
    grant_by(1, 2000, 2010, 1001);
    assert_breach(RULE_SIDE);
}

static void test_token_that_both_servers_grant_is_found(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(1, 100, 110, 7);
    grant_by(3, 2000, 2010, 7);
    assert_found(RULE_SIDE);
    assert_found(RULE_TOKEN);
}

static void test_overlap_on_the_old_server_is_found(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(1, 100, 110, 1);
    grant_by(2, 200, 210, 2);
    grant_by(3, 100, 110, 1000);
    assert_breach(RULE_OVERLAP);
}

static void test_overlap_on_the_new_server_is_found(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(1, 100, 110, 1);
    grant_by(3, 200, 210, 1000);
    grant_by(4, 300, 310, 1001);
    assert_breach(RULE_OVERLAP);
}

static void test_token_that_falls_on_the_old_server_is_found(void **state)
{
    (void)state;
    part_at(50, 60);
    grant_by(3, 70, 80, 1000);
    grant_by(1, 100, 110, 2);
    release_by(1, 120, 130, 2);
    grant_by(2, 140, 150, 1);
    assert_breach(RULE_TOKEN);
}

#define T(test) cmocka_unit_test_setup_teardown(test, planted_begin, planted_end)
static const struct CMUnitTest tests[] = {
    T(test_tokens_that_rise_over_three_servers_are_proved),
    T(test_token_that_comes_again_on_the_third_server_is_found),
    T(test_token_that_falls_on_the_third_server_is_found),
    T(test_token_that_falls_on_failback_is_found),
    T(test_token_that_falls_after_a_synchronous_failover_is_found),
    T(test_token_that_comes_again_with_grace_is_found),
    T(test_refusal_by_a_token_below_those_that_were_lost_is_none),
    T(test_refusal_by_a_grant_that_was_over_before_the_loss_is_found),
    T(test_refusal_by_a_released_grant_after_a_synchronous_failover_is_found),
    T(test_overlap_over_a_synchronous_failover_is_found),
    T(test_overlap_with_grace_is_found),
    T(test_grant_when_the_grace_is_over_is_proved),
    T(test_overlap_over_lost_commits_is_counted_and_no_breach),
    T(test_overlap_with_a_renewal_that_was_lost_is_counted_and_no_breach),
    T(test_overlap_before_commits_were_lost_is_found),
    T(test_overlap_after_the_promotion_is_found),
    T(test_renewal_of_a_grant_whose_break_was_lost_is_none),
    T(test_renewal_of_a_broken_grant_after_a_synchronous_failover_is_found),
    T(test_write_that_was_lost_with_its_grant_is_none),
    T(test_write_that_a_synchronous_failover_lost_is_found),
    T(test_grants_of_the_old_server_beside_those_of_the_new_one_are_none),
    T(test_token_of_the_new_server_below_one_of_the_old_is_found),
    T(test_old_server_that_overtakes_the_tokens_of_the_new_one_is_found),
    T(test_token_that_both_servers_grant_is_found),
    T(test_overlap_on_the_old_server_is_found),
    T(test_overlap_on_the_new_server_is_found),
    T(test_token_that_falls_on_the_old_server_is_found),
};

TEST_MAIN(tests)
