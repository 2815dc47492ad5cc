/* The checker finds what is planted, names the right rule, and finds nothing in what only looks
 * like it. Times are in milliseconds here; a lease is a second, of which 900 are usable. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/check.h"

#define NO_ANSWER (-1) /* a time */

/* ---- a history by hand ------------------------------------------------------------------------
 */

static struct {
    struct event events[64];
    int n;
    uint32_t name;
    struct check_row rows[4];
    struct check_rules rules;
    struct check_verdict v;
    char *said;
    size_t said_len;
} made;

static int begin(void **state)
{
    (void)state;
    free(made.said);
    memset(&made, 0, sizeof made);
    made.rules = (struct check_rules){.folder = "/folder",
                                      .engine = "engine",
                                      .fault = "none",
                                      .seed = 77,
                                      .lease_ms = 1000,
                                      .slack_ms = 2000};
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(made.said);
    made.said = NULL;
    return 0;
}

/* What a thread asked from..to, about the name. */
static struct event *put(uint32_t thread, int64_t from, int64_t to, int verb, int outcome,
                         int64_t token)
{
    struct event *e = &made.events[made.n++];

    *e = (struct event){.invoke_us = from * 1000,
                        .return_us = to == NO_ANSWER ? HISTORY_NOT_RETURNED : to * 1000,
                        .process = 1,
                        .thread = thread,
                        .op = (uint32_t)made.n,
                        .name = made.name,
                        .verb = verb,
                        .outcome = outcome,
                        .token = token};
    return e;
}

static struct event *put_until(uint32_t thread, int64_t from, int64_t to, int verb, int64_t token,
                               int64_t deadline)
{
    struct event *e = put(thread, from, to, verb, 0, token);

    e->deadline_us = deadline * 1000;
    return e;
}

static struct event *put_value(uint32_t thread, int64_t from, int64_t to, int verb, int outcome,
                               int64_t token, int64_t value)
{
    struct event *e = put(thread, from, to, verb, outcome, token);

    e->value = value;
    return e;
}

static struct event *grant(uint32_t thread, int64_t from, int64_t to, int64_t token)
{
    return put_until(thread, from, to, V_ACQUIRE, token, from + 900);
}

static struct event *release(uint32_t thread, int64_t from, int64_t to, int64_t token)
{
    return put(thread, from, to, V_RELEASE, 0, token);
}

static struct event *guarded(uint32_t thread, int64_t from, int64_t to, int64_t token,
                             int64_t value)
{
    return put_value(thread, from, to, V_GUARDED, 0, token, value);
}

static struct event *fault(int64_t from, int64_t to, int64_t value)
{
    struct event *e = put_value(99, from, to, V_FAULT, 0, 0, value);

    e->process = 99;
    e->name = 7;
    return e;
}

static int by_invocation(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    return (x->invoke_us > y->invoke_us) - (x->invoke_us < y->invoke_us);
}

static void check_made(void)
{
    FILE *say;
    int rc;

    free(made.said);
    made.said = NULL;
    say = open_memstream(&made.said, &made.said_len);
    assert_non_null(say);
    qsort(made.events, (size_t)made.n, sizeof made.events[0], by_invocation);
    rc = check_history(&made.rules, made.events, made.n, &made.v, say);
    fclose(say);
    assert_int_equal(rc, made.v.violations > 0);
}

static void assert_proved(void)
{
    check_made();
    if (made.v.violations)
        print_error("%s", made.said);
    assert_int_equal(made.v.violations, 0);
    assert_string_equal(made.said, "");
}

/* Found by this rule, and by no other. */
static void assert_breach(int rule)
{
    check_made();
    if (made.v.found[rule] == 0 || made.v.found[rule] != made.v.violations)
        print_error("expected: %s; found %" PRId64 ":\n%s", check_rule_text(rule),
                    made.v.violations, made.said);
    assert_int_not_equal(made.v.found[rule], 0);
    assert_int_equal(made.v.found[rule], made.v.violations);
    assert_non_null(strstr(made.said, check_rule_text(rule)));
    assert_non_null(strstr(made.said, "seed 77"));
    assert_non_null(strstr(made.said, "/folder"));
}

/* Found by this rule, and by others that it breaks too. */
static void assert_found(int rule)
{
    check_made();
    assert_int_not_equal(made.v.found[rule], 0);
    assert_non_null(strstr(made.said, check_rule_text(rule)));
}

/* ---- one holder -------------------------------------------------------------------------------
 */

static void test_grant_within_the_span_of_another_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 850, 899, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_grant_at_the_deadline_of_another_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 850, 900, 2);
    assert_proved();
}

static void test_span_ends_when_its_release_is_asked_for(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    release(1, 50, NO_ANSWER, 1);
    grant(2, 40, 50, 2);
    assert_proved();
}

static void test_grant_before_a_release_was_asked_for_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    release(1, 50, 60, 1);
    grant(2, 20, 49, 2);
    assert_found(RULE_OVERLAP);
}

static void test_span_of_a_killed_client_lasts_to_its_deadline(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 20, NO_ANSWER, V_RENEW, 0, 1);
    grant(2, 400, 500, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_renewal_moves_the_end_of_a_span(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 500, 510, V_RENEW, 1, 1400);
    grant(2, 950, 960, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_look_at_the_deadline_moves_the_end_of_a_span(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 500, 501, V_HELD, 1, 1400);
    grant(2, 950, 960, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_renewal_without_an_answer_moves_nothing(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 500, 700, V_RENEW, SQLOCK_EUNSURE, 1);
    grant(2, 850, 905, 2);
    assert_proved();
}

static void test_break_ends_a_span_when_it_is_asked_for(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 100, 150, V_BREAK, 0, 1);
    grant(2, 90, 100, 2);
    assert_proved();
}

static void test_break_whose_answer_was_lost_ends_a_span(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 100, NO_ANSWER, V_BREAK, 0, 1);
    grant(2, 110, 120, 2);
    assert_proved();
}

static void test_break_that_found_nothing_ends_no_span(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 100, 150, V_BREAK, SQLOCK_ELOST, 1);
    grant(2, 160, 170, 2);
    assert_found(RULE_OVERLAP);
}

static void test_break_of_another_token_ends_no_span(void **state)
{
    (void)state;
    grant(1, 0, 10, 2);
    put(3, 100, 150, V_BREAK, 0, 1);
    grant(2, 160, 170, 3);
    assert_breach(RULE_OVERLAP);
}

static void test_other_names_have_spans_of_their_own(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    made.name = 1;
    grant(2, 0, 10, 1);
    assert_proved();
}

/* The second grant was over before its holder was told: yet the database had let it in. */
static void test_grant_that_was_told_too_late_to_be_used_still_came_too_early(void **state)
{
    (void)state;
    grant(1, 1000, 1010, 1);
    put_until(1, 1500, 1510, V_RENEW, 1, 2400);
    put_until(2, 1020, 2300, V_ACQUIRE, 2, 1920);
    assert_breach(RULE_OVERLAP);
}

/* It was granted before the other one, and its answer came when all was over. */
static void test_late_answer_of_an_earlier_grant_is_none(void **state)
{
    (void)state;
    put_until(1, 0, 2500, V_ACQUIRE, 1, 900);
    put_until(2, 2000, 2010, V_ACQUIRE, 2, 2900);
    assert_proved();
}

/* ... and claims the time of the other one. */
static void test_late_answer_that_claims_the_present_is_found(void **state)
{
    (void)state;
    put_until(1, 0, 2500, V_ACQUIRE, 1, 3000);
    put_until(2, 2000, 2010, V_ACQUIRE, 2, 2900);
    assert_breach(RULE_OVERLAP);
}

static void test_span_that_was_settled_begins_with_the_settling(void **state)
{
    (void)state;
    put(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    put_until(1, 200, 210, V_SETTLE, 1, 900);
    grant(2, 300, 310, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_unsure_acquire_holds_nothing(void **state)
{
    (void)state;
    put(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    put_value(1, 200, 210, V_SETTLE, SQLOCK_ELOST, 0, SQLOCK_WHY_NOT_GRANTED);
    grant(2, 90, 110, 2);
    assert_proved();
}

static void beats(uint32_t thread, int64_t from, int64_t to, int64_t every, int64_t token)
{
    for (int64_t t = from; t <= to; t += every)
        put(thread, t, t, V_BEAT, 0, token);
}

static void test_work_under_the_command_that_goes_on_beside_another_grant_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ACQUIRE, 0, 1, 3);
    beats(1, 10, 1210, 100, 1);
    grant(2, 1100, 1200, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_last_beat_ends_the_span_of_a_command(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ACQUIRE, 0, 1, 3);
    beats(1, 10, 510, 100, 1);
    grant(2, 500, 510, 2);
    assert_proved();
}

/* It was stopped, and so was what would have ended it in time. */
static void test_beat_after_a_long_silence_claims_nothing(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ACQUIRE, 0, 1, 3);
    beats(1, 10, 210, 100, 1);
    grant(2, 2000, 2010, 2);
    beats(1, 2020, 2220, 100, 1);
    assert_proved();
}

static void test_overlap_across_a_clock_step_is_counted_apart(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(100, 200, 2);
    grant(2, 300, 310, 2);
    assert_proved();
    assert_int_equal(made.v.clock_overlaps, 1);
    assert_int_equal(made.v.clock_steps, 1);
}

static void test_overlap_before_a_clock_step_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 300, 310, 2);
    fault(311, 400, 2);
    assert_breach(RULE_OVERLAP);
}

static void test_other_faults_excuse_no_overlap(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(100, 200, 1);
    grant(2, 300, 310, 2);
    assert_breach(RULE_OVERLAP);
}

/* ---- tokens -----------------------------------------------------------------------------------
 */

static void test_smaller_token_after_a_larger_one_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 5);
    release(1, 20, 30, 5);
    grant(2, 40, 50, 4);
    assert_breach(RULE_TOKEN);
}

static void test_tokens_of_grants_at_the_same_time_may_be_told_in_any_order(void **state)
{
    (void)state;
    grant(1, 0, 10, 5);
    release(1, 11, 12, 5);
    grant(2, 10, 50, 4)->deadline_us = 10500; /* over when it was told */
    assert_proved();
}

static void test_token_that_was_granted_twice_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 5);
    release(1, 20, 30, 5);
    grant(2, 40, 50, 5);
    assert_breach(RULE_TOKEN);
}

static void test_token_that_is_none_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 0);
    assert_breach(RULE_TOKEN);
}

/* A clock step excuses spans, not tokens. */
static void test_tokens_rise_also_across_a_clock_step(void **state)
{
    (void)state;
    grant(1, 0, 10, 5);
    fault(11, 35, 2);
    release(1, 20, 30, 5);
    grant(2, 40, 50, 4);
    assert_breach(RULE_TOKEN);
}

/* The token may have been drawn by the request whose reply was lost. */
static void test_token_of_a_settled_grant_may_be_as_old_as_its_acquire(void **state)
{
    (void)state;
    put(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    put(3, 20, 30, V_BREAK, 0, 1);
    grant(2, 30, 60, 2);
    put_until(1, 50, 210, V_SETTLE, 1, 205);
    made.events[made.n - 1].invoke_us = 100 * 1000;
    check_made();
    assert_int_equal(made.v.found[RULE_TOKEN], 0);
}

static void test_settled_grant_with_a_token_older_than_its_acquire_is_found(void **state)
{
    (void)state;
    grant(2, 0, 10, 2);
    release(2, 20, 30, 2);
    put(1, 40, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    put_until(1, 150, 160, V_SETTLE, 1, 900);
    assert_found(RULE_TOKEN);
}

/* ---- yes --------------------------------------------------------------------------------------
 */

static void test_renewal_after_a_later_grant_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    grant(2, 40, 50, 2);
    put_until(1, 60, 70, V_RENEW, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_renewal_that_was_asked_for_before_a_later_grant_was_told_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    put_until(1, 49, 70, V_RENEW, 1, 900);
    grant(2, 45, 50, 2);
    check_made();
    assert_int_equal(made.v.found[RULE_OVERLAP], 0);
}

static void test_renewal_after_a_break_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    put_until(1, 60, 70, V_RENEW, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_renewal_during_a_break_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 60, V_BREAK, 0, 1);
    put_until(1, 60, 70, V_RENEW, 1, 900);
    assert_proved();
}

static void test_guarded_write_after_a_later_grant_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 1000, 1010, 2);
    guarded(1, 1020, 1030, 1, 1);
    assert_breach(RULE_STALE);
}

/* Guarded before the other one came, and answered after that. */
static void test_guarded_write_that_began_before_a_later_grant_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded(1, 800, 1030, 1, 1);
    grant(2, 1000, 1010, 2);
    assert_proved();
}

static struct event *guarded_until(uint32_t thread, int64_t from, int64_t commit, int64_t to,
                                   int64_t token, int64_t value)
{
    struct event *e = guarded(thread, from, to, token, value);

    e->deadline_us = commit * 1000;
    return e;
}

static void test_grant_while_a_transaction_guards_the_lock_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded_until(1, 800, 1500, 1510, 1, 1);
    grant(2, 1000, 1010, 2);
    assert_breach(RULE_GUARD);
}

static void test_grant_when_the_commit_was_asked_for_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded_until(1, 800, 1010, 1510, 1, 1);
    grant(2, 1000, 1010, 2);
    assert_proved();
}

/* On MySQL, where nobody has been granted the name since. */
static void test_guarded_write_after_a_break_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    guarded_until(1, 60, 65, 70, 1, 1);
    assert_proved();
}

static void test_guarded_write_after_a_break_and_a_later_grant_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    grant(2, 40, 50, 2);
    guarded_until(1, 60, 65, 70, 1, 1);
    assert_found(RULE_STALE);
}

static void test_grant_while_a_transaction_guards_a_broken_lock_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    grant(2, 65, 70, 2);
    guarded_until(1, 60, 80, 90, 1, 1);
    assert_found(RULE_GUARD);
}

static void test_grant_while_a_refused_transaction_was_open_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded_until(1, 800, 1500, 1510, 1, 0)->outcome = SQLOCK_ETXGONE;
    grant(2, 1000, 1010, 2);
    assert_proved();
}

static void test_release_within_the_guarded_transaction_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded_until(1, 100, 200, 210, 1, 1);
    release(2, 120, 130, 1);
    grant(3, 205, 220, 2);
    assert_proved();
}

static void test_release_after_a_later_grant_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 1000, 1010, 2);
    release(1, 1020, 1030, 1);
    assert_breach(RULE_STALE);
}

static void test_release_that_is_asked_again_says_yes_whoever_came(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 20, 30, V_RELEASE, SQLOCK_EUNSURE, 1);
    grant(2, 40, 50, 2);
    release(1, 60, 70, 1);
    assert_proved();
    assert_int_equal(made.v.unsure, 1);
    assert_int_equal(made.v.settled, 1);
}

static void test_release_of_a_broken_grant_that_says_yes_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    release(1, 40, 50, 1);
    assert_breach(RULE_STALE);
}

/* It asked again by itself, and the row tells of others. */
static void test_release_of_a_broken_grant_that_others_followed_may_say_yes(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    grant(2, 35, 39, 2);
    release(1, 40, 500, 1);
    assert_proved();
}

static void test_held_after_its_own_release_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    release(1, 20, 30, 1);
    put_until(1, 40, 41, V_HELD, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_held_after_a_break_that_was_not_told_yet_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    put_until(1, 400, 401, V_HELD, 1, 900);
    assert_proved();
}

static void test_held_long_after_a_break_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    put_until(1, 400, 401, V_HELD, 1, 931);
    assert_breach(RULE_STALE);
}

static void test_held_at_its_deadline_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 900, 901, V_HELD, 1, 900);
    assert_breach(RULE_STALE);
}

/* Stopped between the look and the note. */
static void test_held_that_was_noted_after_its_deadline_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 899, 2000, V_HELD, 1, 900);
    assert_proved();
}

static void test_use_of_what_nobody_was_granted_is_found(void **state)
{
    (void)state;
    put_until(1, 40, 41, V_RENEW, 1, 900);
    assert_breach(RULE_STALE);
}

static void test_settled_after_a_later_grant_is_found(void **state)
{
    (void)state;
    put(1, 0, 100, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    grant(2, 1100, 1110, 2);
    put_until(1, 1120, 1130, V_SETTLE, 1, 1125);
    assert_breach(RULE_STALE);
}

/* ---- deadlines --------------------------------------------------------------------------------
 */

static void test_deadline_beyond_the_lease_is_found(void **state)
{
    (void)state;
    put_until(1, 0, 10, V_ACQUIRE, 1, 911);
    assert_breach(RULE_DEADLINE);
}

/* Counted from the last moment at which it can have been asked for. */
static void test_deadline_at_the_end_of_the_lease_is_none(void **state)
{
    (void)state;
    put_until(1, 0, 10, V_ACQUIRE, 1, 910);
    assert_proved();
}

/* The rules know the longest one of all. */
static void test_deadline_beyond_the_lease_of_its_process_is_found(void **state)
{
    (void)state;
    put_value(7, 0, 0, V_LEASE, 0, 0, 400);
    put_until(1, 0, 10, V_ACQUIRE, 1, 371);
    assert_breach(RULE_DEADLINE);
}

static void test_deadline_at_the_end_of_the_lease_of_its_process_is_none(void **state)
{
    (void)state;
    put_value(7, 0, 0, V_LEASE, 0, 0, 400)->process = 2;
    put_value(7, 0, 0, V_LEASE, 0, 0, 1000)->process = 1;
    put_until(1, 0, 10, V_ACQUIRE, 1, 910);
    made.name = 1;
    put_until(2, 0, 10, V_ACQUIRE, 1, 370)->process = 2;
    assert_proved();
    assert_int_equal(made.v.operations, 2);
}

static void test_grant_without_a_deadline_is_found(void **state)
{
    (void)state;
    put_until(1, 0, 10, V_ACQUIRE, 1, 0);
    assert_breach(RULE_DEADLINE);
}

/* ---- lost -------------------------------------------------------------------------------------
 */

static void test_lost_before_its_deadline_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 100, 899, V_RENEW, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_lost_at_its_deadline_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 100, 900, V_RENEW, SQLOCK_ELOST, 1);
    assert_proved();
}

static void test_refused_guard_within_the_span_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 100, 200, V_GUARDED, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_refused_guard_within_the_renewed_span_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 500, 510, V_RENEW, 1, 1400);
    put(1, 1000, 1100, V_GUARDED, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_lost_after_a_break_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 150, NO_ANSWER, V_BREAK, 0, 1);
    put(1, 100, 200, V_RENEW, SQLOCK_ELOST, 1);
    put_value(1, 300, 301, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_BROKEN);
    assert_proved();
}

static void test_lost_while_the_server_is_hurt_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(50, 150, 1);
    put(1, 100, 200, V_GUARDED, SQLOCK_ELOST, 1);
    grant(1, 5000, 5010, 2);
    assert_proved();
}

static void test_lost_soon_after_a_clock_step_is_none_and_later_is_found(void **state)
{
    (void)state;
    fault(0, 50, 2);
    grant(1, 100, 110, 1);
    put_value(1, 150, 160, V_RELEASE, SQLOCK_ELOST, 1, SQLOCK_WHY_CLOCK);
    grant(1, 9000, 9010, 2);
    put_value(1, 9050, 9060, V_RELEASE, SQLOCK_ELOST, 2, SQLOCK_WHY_CLOCK);
    assert_breach(RULE_LOST);
    assert_int_equal(made.v.violations, 1);
}

static void test_lost_while_only_a_client_is_hurt_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(50, 150, 0);
    put(1, 100, 200, V_GUARDED, SQLOCK_ELOST, 1);
    grant(1, 5000, 5010, 2);
    assert_breach(RULE_LOST);
}

static void test_broken_by_nobody_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_value(1, 950, 951, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_BROKEN);
    assert_breach(RULE_LOST);
}

static void test_run_out_before_the_deadline_though_broken_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 30, V_BREAK, 0, 1);
    put_value(1, 500, 501, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_EXPIRED);
    assert_breach(RULE_LOST);
}

static void test_run_out_at_the_deadline_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_value(1, 900, 901, V_HELD, SQLOCK_ELOST, 1, SQLOCK_WHY_EXPIRED);
    assert_proved();
}

/* ---- busy -------------------------------------------------------------------------------------
 */

/* Refused, and told of who has it, at most until then. */
static struct event *busy(uint32_t thread, int64_t from, int64_t to, int64_t token, int64_t until)
{
    struct event *e = put(thread, from, to, V_ACQUIRE, SQLOCK_EBUSY, token);

    e->deadline_us = until * 1000;
    return e;
}

static void test_busy_with_a_grant_that_was_released_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    release(1, 20, 30, 1);
    busy(2, 40, 50, 1, 1050);
    assert_breach(RULE_BUSY);
}

static void test_busy_with_a_grant_during_its_release_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    release(1, 20, 40, 1);
    busy(2, 40, 50, 1, 1050);
    assert_proved();
}

static void test_busy_with_a_grant_before_a_later_one_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 1000, 1010, 3);
    busy(3, 1020, 1030, 1, 1500);
    assert_breach(RULE_BUSY);
}

/* Nobody says that it was told of token 2; that is no matter here. */
static void test_busy_with_an_unknown_grant_before_a_later_one_is_found(void **state)
{
    (void)state;
    grant(2, 1000, 1010, 3);
    busy(3, 1020, 1030, 2, 1500);
    assert_breach(RULE_BUSY);
}

static void test_busy_with_an_unknown_grant_is_none(void **state)
{
    (void)state;
    grant(2, 1000, 1010, 3);
    busy(3, 2020, 2030, 4, 2500);
    busy(3, 2040, 2050, 4, 2500);
    assert_proved();
}

static void test_busy_with_a_grant_that_nobody_had_asked_for_is_found(void **state)
{
    (void)state;
    busy(3, 10, 20, 1, 1500);
    grant(1, 21, 30, 1);
    assert_breach(RULE_BUSY);
}

/* Its holder was killed before it knew. */
static void test_grant_that_only_a_refusal_tells_of_may_be_the_second_holder(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    busy(2, 850, 899, 2, 1800);
    assert_breach(RULE_OVERLAP);
}

static void test_grant_that_only_a_refusal_tells_of_may_be_the_next_holder(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    busy(2, 850, 900, 2, 1800);
    assert_proved();
}

static void test_renewal_after_a_refusal_told_of_a_later_grant_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, NO_ANSWER, V_BREAK, 0, 1);
    busy(2, 30, 40, 2, 1100);
    put_until(1, 41, 50, V_RENEW, 1, 900);
    assert_found(RULE_STALE);
}

static void test_smaller_token_than_a_refusal_told_of_is_found(void **state)
{
    (void)state;
    busy(2, 850, 900, 2, 1800);
    grant(1, 2000, 2010, 1);
    assert_breach(RULE_TOKEN);
}

static void test_break_that_does_not_find_what_is_held_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 899, V_BREAK, SQLOCK_ELOST, 1);
    assert_breach(RULE_LOST);
}

static void test_break_that_does_not_find_what_ran_out_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(3, 20, 900, V_BREAK, SQLOCK_ELOST, 1);
    assert_proved();
}

static void test_busy_without_a_word_about_the_holder_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    release(1, 20, 30, 1);
    busy(2, 40, 50, 0, 0);
    assert_proved();
}

static void test_row_that_ends_before_the_deadline_of_its_holder_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    busy(2, 40, 50, 1, 899);
    assert_breach(RULE_ROW);
}

static void test_row_that_ends_at_the_deadline_of_its_holder_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    busy(2, 40, 50, 1, 900);
    assert_proved();
}

/* The renewal may have come after the refusal. */
static void test_row_that_ends_before_a_deadline_that_was_not_told_yet_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 400, 500, V_RENEW, 1, 1300);
    busy(2, 499, 510, 1, 1000);
    assert_proved();
}

static void test_row_that_was_not_renewed_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 400, 500, V_RENEW, 1, 1300);
    busy(2, 501, 510, 1, 1000);
    assert_breach(RULE_ROW);
}

static void test_row_that_ends_early_across_a_clock_step_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(20, 30, 2);
    busy(2, 40, 50, 1, 60);
    grant(3, 4000, 4010, 2);
    assert_proved();
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static void test_two_writes_of_one_value_are_a_lost_update(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    put_value(2, 0, 10, V_ROW_LOCK, 0, 0, 1);
    assert_breach(RULE_UPDATE);
}

static void test_two_changes_to_one_version_are_a_lost_update(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    put_value(2, 20, 30, V_CAS, 0, 0, 1);
    assert_found(RULE_UPDATE);
}

static void test_write_and_an_unsure_one_of_the_same_value_are_none(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    put_value(2, 0, 10, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);
    assert_proved();
}

static void test_smaller_value_after_a_larger_one_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 2);
    put_value(2, 20, 30, V_ROW_LOCK, 0, 0, 1);
    assert_breach(RULE_UPDATE);
}

static void test_values_of_writes_at_the_same_time_may_be_told_in_any_order(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 2);
    put_value(2, 10, 30, V_ROW_LOCK, 0, 0, 1);
    assert_proved();
}

static void test_committed_write_of_nothing_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 0);
    assert_found(RULE_UPDATE);
}

static void test_change_of_another_version_than_expected_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    put_value(2, 0, 10, V_CAS, 0, 0, 2);
    assert_breach(RULE_UPDATE);
}

static void test_conflict_with_nobody_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    put(2, 20, 30, V_CAS, SQLOCK_CONFLICT, 1);
    put_value(1, 31, 40, V_CAS, 0, 1, 2);
    assert_breach(RULE_CONFLICT);
}

static void test_conflict_with_who_asked_meanwhile_is_none(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    put(2, 20, 30, V_CAS, SQLOCK_CONFLICT, 1);
    put_value(1, 30, 40, V_CAS, 0, 1, 2);
    assert_proved();
}

static void test_conflict_with_who_was_killed_is_none(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    put(2, 20, 30, V_CAS, SQLOCK_CONFLICT, 1);
    put(1, 15, NO_ANSWER, V_CAS, 0, 1);
    assert_proved();
}

static void test_write_under_an_older_token_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded(2, 1050, 1070, 2, 1);
    guarded(1, 500, 1100, 1, 2);
    grant(2, 1000, 1010, 2);
    assert_breach(RULE_FENCE);
}

static void test_write_under_an_older_token_that_came_first_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    guarded(2, 1050, 1070, 2, 2);
    guarded(1, 500, 1100, 1, 1);
    grant(2, 1000, 1010, 2);
    assert_proved();
    assert_int_equal(made.v.guarded, 2);
}

/* Nobody else can have written the 2 that the row went through. */
static void test_unsure_write_that_is_in_the_row_counts(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 1000, 1010, 2);
    guarded(2, 1050, 1070, 2, 1);
    put_value(1, 500, 1100, V_GUARDED, SQLOCK_EUNSURE, 1, 2);
    guarded(2, 1150, 1170, 2, 3);
    assert_breach(RULE_FENCE);
}

static void test_unsure_write_that_may_not_be_in_the_row_counts_not(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 1000, 1010, 2);
    guarded(2, 1050, 1070, 2, 1);
    put_value(1, 500, 1100, V_GUARDED, SQLOCK_EUNSURE, 1, 2);
    guarded(2, 1150, 1170, 2, 2);
    assert_proved();
}

static void hold_rows(int64_t guarded_n, int64_t token, int64_t row, int64_t version)
{
    made.rows[0] = (struct check_row){guarded_n, token, row, version, version};
    made.rules.rows = made.rows;
    made.rules.n_rows = 1;
}

static void test_committed_write_that_is_not_in_the_row_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    put_value(1, 20, 30, V_ROW_LOCK, 0, 0, 2);
    hold_rows(0, 0, 1, 0);
    assert_breach(RULE_SUM);
}

static void test_write_that_nobody_made_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    put_value(1, 20, 30, V_CAS, SQLOCK_CONFLICT, 0, 0);
    hold_rows(0, 0, 0, 2);
    assert_breach(RULE_SUM);
}

static void test_refused_write_that_is_in_the_row_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_value(1, 1000, 1010, V_GUARDED, SQLOCK_ELOST, 1, 1);
    hold_rows(1, 1, 0, 0);
    assert_breach(RULE_SUM);
}

static void test_row_that_nobody_wrote_and_is_not_empty_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    hold_rows(0, 0, 3, 0);
    assert_breach(RULE_SUM);
}

static void test_unsure_write_may_be_in_the_row_or_not(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    put_value(1, 20, 30, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 2);
    hold_rows(0, 0, 1, 0);
    assert_proved();
    hold_rows(0, 0, 2, 0);
    assert_proved();
    hold_rows(0, 0, 3, 0);
    assert_breach(RULE_SUM);
}

static void test_write_of_a_killed_client_may_be_in_the_row_or_not(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, 0, 0, 1);
    put_value(2, 20, NO_ANSWER, V_ROW_LOCK, 0, 0, 0);
    put_value(1, 30, 40, V_ROW_LOCK, 0, 0, 3);
    hold_rows(0, 0, 3, 0);
    assert_proved();
    hold_rows(0, 0, 4, 0);
    assert_breach(RULE_SUM);
}

static void test_version_that_does_not_count_the_changes_is_found(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_CAS, 0, 0, 1);
    hold_rows(0, 0, 0, 1);
    made.rows[0].changes = 2;
    assert_breach(RULE_SUM);
}

static void test_token_in_the_row_is_that_of_the_last_write(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 1000, 1010, 2);
    guarded(2, 1050, 1070, 2, 1);
    hold_rows(1, 2, 0, 0);
    assert_proved();
    hold_rows(1, 1, 0, 0);
    assert_breach(RULE_FENCE);
}

/* ---- after the last fault ---------------------------------------------------------------------
 */

static void test_name_that_is_refused_for_ever_after_the_last_fault_is_found(void **state)
{
    (void)state;
    fault(0, 100, 0);
    for (int64_t t = 200; t < 5000; t += 100)
        put(1, t, t + 10, V_ACQUIRE, SQLOCK_EBUSY, 0);
    assert_breach(RULE_LIVENESS);
}

static void test_name_that_is_granted_late_after_the_last_fault_is_found(void **state)
{
    (void)state;
    fault(0, 100, 0);
    put(1, 200, 210, V_ACQUIRE, SQLOCK_EBUSY, 0);
    grant(1, 300, 3300, 1)->deadline_us = 4000 * 1000;
    assert_breach(RULE_LIVENESS);
}

static void test_name_that_is_granted_in_time_after_the_last_fault_is_none(void **state)
{
    (void)state;
    fault(0, 100, 0);
    put(1, 200, 210, V_ACQUIRE, SQLOCK_EBUSY, 0);
    grant(1, 300, 3200, 1)->deadline_us = 4000 * 1000;
    put(1, 6000, 6001, V_ACQUIRE, SQLOCK_EBUSY, 0);
    assert_proved();
    assert_int_equal(made.v.judged, 1);
}

static void test_name_for_which_nobody_asked_when_it_was_due_is_none(void **state)
{
    (void)state;
    fault(0, 100, 0);
    put(1, 200, 210, V_ACQUIRE, SQLOCK_EBUSY, 0);
    put(2, 5990, 6010, V_ACQUIRE, SQLOCK_EBUSY, 0);
    grant(1, 6000, 6020, 1);
    assert_proved();
}

static void test_history_that_ends_before_a_grant_was_due_is_none(void **state)
{
    (void)state;
    fault(0, 100, 0);
    put(1, 200, 3199, V_ACQUIRE, SQLOCK_EBUSY, 0);
    assert_proved();
}

static void test_ask_that_is_never_answered_after_the_last_fault_is_found(void **state)
{
    (void)state;
    fault(0, 100, 0);
    put(1, 200, NO_ANSWER, V_ACQUIRE, 0, 0);
    put(2, 4000, 4010, V_REAP, 0, 0);
    assert_breach(RULE_LIVENESS);
}

static void test_name_that_is_held_all_the_time_after_the_last_fault_is_none(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(20, 100, 0);
    for (int64_t t = 500; t <= 5000; t += 500) {
        put_until(1, t, t + 1, V_RENEW, 1, t + 900);
        put(2, t, t + 1, V_ACQUIRE, SQLOCK_EBUSY, 0);
    }
    assert_proved();
}

/* ---- load -------------------------------------------------------------------------------------
 */

static void test_too_few_grants_are_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    made.rules.min_grants = 2;
    assert_breach(RULE_LOAD);
    grant(2, 1000, 1010, 2);
    assert_proved();
}

static void test_too_few_faults_are_found(void **state)
{
    (void)state;
    fault(0, 10, 0);
    grant(1, 20, 30, 1);
    made.rules.min_faults = 2;
    assert_breach(RULE_LOAD);
    fault(5, 7, 0);
    assert_proved();
}

static void test_too_low_a_rate_before_the_first_fault_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    grant(2, 950, 960, 2);
    fault(1000, 1010, 0);
    for (int64_t i = 0; i < 20; i++) {
        grant(2, 2000 + 20 * i, 2005 + 20 * i, 3 + i);
        release(2, 2006 + 20 * i, 2010 + 20 * i, 3 + i);
    }
    made.rules.min_rate = 2;
    assert_proved();
    assert_int_equal(made.v.rate, 2);
    made.rules.min_rate = 3;
    assert_breach(RULE_LOAD);
}

static void test_fault_that_is_never_healed_is_found(void **state)
{
    (void)state;
    fault(0, NO_ANSWER, 0);
    assert_breach(RULE_LOAD);
}

static void test_history_that_ends_with_its_last_fault_is_found(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    fault(20, 30, 0);
    made.rules.min_grants = 1;
    assert_breach(RULE_LOAD);
}

static void test_verdict_counts_what_was_asked(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put_until(1, 20, 21, V_HELD, 1, 900);
    release(1, 30, 40, 1);
    put(1, 50, 60, V_ACQUIRE, SQLOCK_EUNSURE, 0);
    put_until(1, 70, 80, V_SETTLE, 2, 900);
    put(2, 90, 95, V_REAP, 0, 0);
    grant(2, 1000, 1010, 3);
    put(1, 1020, 1030, V_GUARDED, SQLOCK_ELOST, 2);
    assert_proved();
    assert_int_equal(made.v.operations, 7);
    assert_int_equal(made.v.grants, 3);
    assert_int_equal(made.v.unsure, 1);
    assert_int_equal(made.v.settled, 1);
    assert_int_equal(made.v.late_refused, 1);
}

static void test_release_that_is_unsure_twice_is_one_question(void **state)
{
    (void)state;
    grant(1, 0, 10, 1);
    put(1, 20, 30, V_RELEASE, SQLOCK_EUNSURE, 1);
    put(1, 40, 50, V_RELEASE, SQLOCK_EUNSURE, 1);
    put(1, 60, 70, V_SETTLE, SQLOCK_EUNREACH, 1);
    assert_proved();
    assert_int_equal(made.v.unsure, 1);
    assert_int_equal(made.v.settled, 0);
    put_value(1, 80, 90, V_SETTLE, 0, 1, SQLOCK_WHY_RELEASED);
    assert_proved();
    assert_int_equal(made.v.unsure, 1);
    assert_int_equal(made.v.settled, 1);
}

static void test_commits_of_which_nobody_knew_are_settled_by_the_row(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);  /* it is there */
    put_value(1, 20, 30, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 2); /* it is not */
    put_value(1, 40, 50, V_ROW_LOCK, 0, 0, 2);
    put_value(1, 60, 70, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 3); /* nor is this */
    hold_rows(0, 0, 2, 0);
    assert_proved();
    assert_int_equal(made.v.unsure, 3);
    assert_int_equal(made.v.settled, 3);
}

static void test_commits_that_may_both_be_it_are_not_settled(void **state)
{
    (void)state;
    put_value(1, 0, 10, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);
    put_value(2, 5, 15, V_ROW_LOCK, SQLOCK_EUNSURE, 0, 1);
    hold_rows(0, 0, 1, 0);
    assert_proved();
    assert_int_equal(made.v.unsure, 2);
    assert_int_equal(made.v.settled, 0);
}

/* ---- what is said -----------------------------------------------------------------------------
 */

static void test_thread_that_asks_two_things_at_a_time_is_found(void **state)
{
    (void)state;
    put(1, 0, 100, V_REAP, 0, 0);
    put(1, 50, 60, V_REAP, 0, 0);
    assert_breach(RULE_HISTORY);
}

static void test_violation_shows_the_window_and_no_more(void **state)
{
    int lines = 0;

    (void)state;
    grant(1, 0, 10, 1);
    for (int i = 0; i < 50; i++)
        put(3, 100 + 2 * i, 101 + 2 * i, V_ACQUIRE, SQLOCK_EBUSY, 0);
    grant(2, 300, 310, 2);
    made.name = 1;
    grant(4, 50, 60, 1234);
    assert_breach(RULE_OVERLAP);
    for (const char *at = made.said; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_between(20, lines, 40);
    assert_non_null(strstr(made.said, "... 28 more ..."));
    assert_non_null(strstr(made.said, "acquire ok, token 1, deadline 900000"));
    assert_non_null(strstr(made.said, "acquire ok, token 2, deadline 1200000"));
    assert_null(strstr(made.said, "1234"));
}

static void test_many_violations_are_counted_and_few_are_told(void **state)
{
    int told = 0;

    (void)state;
    for (int i = 0; i < 20; i++)
        grant(1, 20 * i, 20 * i + 10, 1 + i);
    assert_breach(RULE_OVERLAP);
    assert_int_equal(made.v.violations, 19);
    for (const char *at = made.said; (at = strstr(at, "VIOLATION")) != NULL; at++)
        told++;
    assert_int_equal(told, 3);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
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
    T(test_overlap_before_a_clock_step_is_found),
    T(test_other_faults_excuse_no_overlap),
    T(test_smaller_token_after_a_larger_one_is_found),
    T(test_tokens_of_grants_at_the_same_time_may_be_told_in_any_order),
    T(test_token_that_was_granted_twice_is_found),
    T(test_token_that_is_none_is_found),
    T(test_tokens_rise_also_across_a_clock_step),
    T(test_token_of_a_settled_grant_may_be_as_old_as_its_acquire),
    T(test_settled_grant_with_a_token_older_than_its_acquire_is_found),
    T(test_renewal_after_a_later_grant_is_found),
    T(test_renewal_that_was_asked_for_before_a_later_grant_was_told_is_none),
    T(test_renewal_after_a_break_is_found),
    T(test_renewal_during_a_break_is_none),
    T(test_guarded_write_after_a_break_is_none),
    T(test_guarded_write_after_a_break_and_a_later_grant_is_found),
    T(test_grant_while_a_transaction_guards_a_broken_lock_is_found),
    T(test_guarded_write_after_a_later_grant_is_found),
    T(test_guarded_write_that_began_before_a_later_grant_is_none),
    T(test_grant_while_a_transaction_guards_the_lock_is_found),
    T(test_grant_when_the_commit_was_asked_for_is_none),
    T(test_grant_while_a_refused_transaction_was_open_is_none),
    T(test_release_within_the_guarded_transaction_is_none),
    T(test_release_after_a_later_grant_is_found),
    T(test_release_that_is_asked_again_says_yes_whoever_came),
    T(test_release_of_a_broken_grant_that_says_yes_is_found),
    T(test_release_of_a_broken_grant_that_others_followed_may_say_yes),
    T(test_held_after_its_own_release_is_found),
    T(test_held_after_a_break_that_was_not_told_yet_is_none),
    T(test_held_long_after_a_break_is_found),
    T(test_held_at_its_deadline_is_found),
    T(test_held_that_was_noted_after_its_deadline_is_none),
    T(test_use_of_what_nobody_was_granted_is_found),
    T(test_settled_after_a_later_grant_is_found),
    T(test_deadline_beyond_the_lease_is_found),
    T(test_deadline_at_the_end_of_the_lease_is_none),
    T(test_deadline_beyond_the_lease_of_its_process_is_found),
    T(test_deadline_at_the_end_of_the_lease_of_its_process_is_none),
    T(test_grant_without_a_deadline_is_found),
    T(test_lost_before_its_deadline_is_found),
    T(test_lost_at_its_deadline_is_none),
    T(test_refused_guard_within_the_span_is_found),
    T(test_refused_guard_within_the_renewed_span_is_found),
    T(test_lost_after_a_break_is_none),
    T(test_lost_while_the_server_is_hurt_is_none),
    T(test_lost_soon_after_a_clock_step_is_none_and_later_is_found),
    T(test_lost_while_only_a_client_is_hurt_is_found),
    T(test_broken_by_nobody_is_found),
    T(test_run_out_before_the_deadline_though_broken_is_found),
    T(test_run_out_at_the_deadline_is_none),
    T(test_busy_with_a_grant_that_was_released_is_found),
    T(test_busy_with_a_grant_during_its_release_is_none),
    T(test_busy_with_a_grant_before_a_later_one_is_found),
    T(test_busy_with_an_unknown_grant_before_a_later_one_is_found),
    T(test_busy_with_an_unknown_grant_is_none),
    T(test_busy_with_a_grant_that_nobody_had_asked_for_is_found),
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
