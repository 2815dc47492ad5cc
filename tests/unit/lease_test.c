/* The lease on its holder's side: time, and leases that a transaction guards. */
#include <string.h>

#include "tests/lib/check.h"
#include "tests/unit/leases.h"

/* ---- time ------------------------------------------------------------------------------------ */

/* Real time, in which the holder's clock is slow and the server's fast, by so many ppm: for how
 * long the next holder comes before the first has stopped. */
static int64_t early_us(int64_t ttl, int64_t slow, int64_t fast)
{
    int64_t believed = (ttl - lease_margin(ttl)) * 1000000 / (1000000 - slow);

    return believed - ttl * 1000000 / (1000000 + fast);
}

/* chrony slews by up to 8.33 %, adjtimex(2) by 10 %, the others by 500 ppm. The README says what is
 * left where both machines' clocks are slewed at once, and apart. */
TEST(test_margin_covers_a_clock_that_is_slewed)
{
    const int64_t leases[] = {SQLOCK_LEASE_MIN_MS, 3000, 20000, 30000, 60000, 600000,
                              SQLOCK_LEASE_MAX_MS};

    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        int64_t ttl = leases[i] * 1000;

        assert_int_equal(lease_margin(ttl), ttl / 10);
        assert_true(early_us(ttl, 100000, 0) <= 0);
        assert_true(early_us(ttl, 0, 110000) <= 0);
        assert_true(early_us(ttl, 83333, 500) <= 0);
        assert_true(early_us(ttl, 500, 83333) <= 0);
        assert_true(early_us(ttl, 50000, 50000) <= 0);
        assert_between(ttl * 58 / 1000, early_us(ttl, 83333, 83333), ttl * 59 / 1000);
    }
}

TEST(test_deadline_counts_from_before_the_request)
{
    struct lease l;

    lease_init(&l, TTL, EVERY, 0);
    assert_int_equal(l.state, SQLOCK_UNSURE);
    assert_int_equal(l.deadline, 0);
    assert_int_equal(lease_next_tick(&l), INT64_MAX);
    lease_apply(&l, LEASE_GRANTED, START + 5000000, START);
    assert_int_equal(l.deadline, END);
    assert_int_equal(l.renew_at, START + EVERY);
    assert_int_equal(l.risk_at, RISK);
    assert_int_equal(lease_next_tick(&l), RISK);
    assert_int_equal(lease_deadline(&l, START), END);
}

TEST(test_lock_is_held_until_the_deadline_and_not_at_it)
{
    struct lease l = held_lease();

    assert_true(lease_is_held(&l, END - 1));
    assert_false(lease_is_held(&l, END)); /* although no tick has told it */
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END - 1, 0), LEASE_REPORT);
    assert_int_equal(l.state, SQLOCK_AT_RISK);
    assert_true(lease_is_held(&l, END - 1));
    assert_int_equal(lease_apply(&l, LEASE_TICK, END, 0), LEASE_REPORT | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
    assert_false(lease_is_held(&l, END - 1));
}

/* A renewal of the worker's is slow; sqlock_renew() is sent after it, answered before it, and has
 * told its caller a deadline. Then the slow answer comes: it proves less, and must take nothing. */
TEST(test_answers_in_the_wrong_order_do_not_move_the_deadline_back)
{
    struct lease l = held_lease();
    int64_t told;

    lease_apply(&l, LEASE_RENEWED, START + 9000000, START + 8000000);
    told = l.deadline;
    assert_int_equal(told, START + 8000000 + TTL - MARGIN);
    lease_apply(&l, LEASE_RENEWED, START + 9500000, START + 1000000);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_between(told, l.deadline, told);
}

/* Nor has it anything to tell: the newest proof is still two thirds of the lease old. */
TEST(test_older_answer_does_not_end_the_risk)
{
    struct lease l = lease_in(SQLOCK_AT_RISK), before = l;

    assert_int_equal(lease_apply(&l, LEASE_RENEWED, RISK + 1000, START - 1000), 0);
    assert_int_equal(l.state, SQLOCK_AT_RISK);
    assert_memory_equal(&l, &before, sizeof l);
}

TEST(test_jump_shortens_the_lease_and_requires_a_renewal)
{
    struct lease l = held_lease();

    assert_int_equal(lease_apply(&l, LEASE_JUMPED, START + 5000, 7000000), LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(l.deadline, END - 7000000);
    assert_int_equal(l.renew_at, START + 5000);
    assert_int_equal(lease_next_tick(&l), RISK - 7000000);
    lease_apply(&l, LEASE_JUMPED, START + 6000, 1000000);
    assert_int_equal(l.deadline, END - 8000000);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END - 8000000, 0), LEASE_REPORT | LEASE_ARM);
    assert_int_equal(l.why, SQLOCK_WHY_CLOCK);
}

TEST(test_widest_jump_does_not_overflow)
{
    struct lease l = held_lease();

    lease_apply(&l, LEASE_JUMPED, START + 5000, INT64_MAX);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_false(lease_is_held(&l, START + 5000));
}

TEST(test_reason_after_a_renewal_forgets_the_jump)
{
    struct lease l = held_lease();

    lease_apply(&l, LEASE_JUMPED, START + 5000, 1000000);
    lease_apply(&l, LEASE_RENEWED, START + 7000, START + 6000);
    assert_int_equal(l.deadline, START + 6000 + TTL - MARGIN);
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
}

TEST(test_max_hold_counts_from_the_grant_and_names_the_reason)
{
    struct lease l;

    lease_init(&l, TTL, EVERY, 15000000);
    lease_apply(&l, LEASE_GRANTED, START + 1000, START);
    assert_int_equal(l.hold_until, START + 1000 + 15000000);
    lease_apply(&l, LEASE_RENEWED, START + EVERY + 10, START + EVERY);
    assert_int_equal(l.hold_until, START + 1000 + 15000000);
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.why, SQLOCK_WHY_MAX_HOLD);
}

TEST(test_closing_loses_without_a_call_back)
{
    for (size_t s = 0; s < N_STATES; s++) {
        struct lease l = lease_in(states[s]);

        assert_int_equal(lease_apply(&l, LEASE_CLOSED, START + 3000, 0) & LEASE_REPORT, 0);
        assert_int_equal(l.state, is_final(states[s]) ? states[s] : SQLOCK_LOST);
        if (!is_final(states[s]))
            assert_int_equal(l.why, SQLOCK_WHY_CLOSED);
    }
}

/* ---- guarded --------------------------------------------------------------------------------- */

TEST(test_guarded_lease_is_unsure_and_not_lost_at_its_deadline)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    assert_false(lease_is_held(&l, END));
    assert_true(lease_is_pinned(&l));
    assert_int_equal(l.why, SQLOCK_WHY_NONE);
    assert_int_equal(lease_next_tick(&l), INT64_MAX);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END + 100 * TTL, 0), 0);
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, END + TTL, END + TTL - 1000),
                     LEASE_REPORT | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(l.deadline, END + TTL - 1000 + TTL - MARGIN);
    /* the guard is over: the next deadline is one like any other */
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.state, SQLOCK_LOST);
}

TEST(test_guarded_lease_that_others_have_is_lost)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    assert_int_equal(lease_apply(&l, LEASE_DENIED, END + TTL, SQLOCK_WHY_TAKEN),
                     LEASE_REPORT | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
}

TEST(test_renewal_from_before_the_guard_does_not_end_it)
{
    struct lease l = guarded_lease(SQLOCK_HELD);

    lease_apply(&l, LEASE_RENEWED, START + 9000, START + 4000);
    assert_int_equal(l.state, SQLOCK_HELD);
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.state, SQLOCK_UNSURE);
}

TEST(test_late_proof_does_not_revive_a_guarded_lease)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    assert_int_equal(lease_apply(&l, LEASE_RENEWED, END + TTL, START + 6000), 0);
    assert_int_equal(l.state, SQLOCK_UNSURE);
}

TEST(test_jump_of_the_clock_ends_a_guarded_lease)
{
    struct lease l = guarded_lease(SQLOCK_HELD);

    lease_apply(&l, LEASE_JUMPED, START + 6000, TTL);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_CLOCK);
}

/* From then on the release's answer alone tells, whatever guarded it before. */
TEST(test_release_of_a_guarded_lease_is_ended_by_its_answer_alone)
{
    static const sqlock_state from[] = {SQLOCK_HELD, SQLOCK_AT_RISK, SQLOCK_UNSURE};

    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        struct lease l = guarded_lease(from[i]);

        l.hold_until = END + 1;
        assert_int_equal(lease_apply(&l, LEASE_RELEASING, END, 0), LEASE_ARM);
        assert_false(lease_is_pinned(&l));
        assert_int_equal(lease_next_tick(&l), INT64_MAX);
        assert_int_equal(lease_apply(&l, LEASE_RENEWED, END + 10, END), 0);
        assert_int_equal(lease_apply(&l, LEASE_TICK, END + TTL, 0), 0);
        assert_int_equal(l.state, SQLOCK_UNSURE);
        assert_int_equal(lease_apply(&l, LEASE_RELEASED, END + TTL, 0), LEASE_ARM);
        assert_int_equal(l.state, SQLOCK_RELEASED);
    }
}

/* What the guard made of it is the last that the row can say (P6). */
TEST(test_guarded_lease_that_no_one_renews_is_lost_with_its_last_extension)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    l.manual = 1;
    assert_int_equal(lease_next_tick(&l), START + 5000 + TTL);
    assert_int_equal(lease_apply(&l, LEASE_TICK, START + 5000 + TTL - 1, 0), 0);
    assert_int_equal(lease_apply(&l, LEASE_TICK, START + 5000 + TTL, 0), LEASE_REPORT | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
}

TEST(test_unsure_lease_without_a_guard_is_moved_by_no_renewal)
{
    struct lease l = lease_in(SQLOCK_UNSURE), before;

    lease_guard(&l, START + 1000); /* nobody guards what is not held */
    before = l;
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, START + 2000, START + 1500), 0);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END + TTL, 0), 0);
    assert_memory_equal(&l, &before, sizeof l);
    assert_int_equal(l.guarded, 0);
}

TEST_MAIN_EACH(NULL, NULL)
