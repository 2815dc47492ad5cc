/* The lease on its holder's side: the table of moves, time, and what no order of events may do. */
#include <string.h>

#include "core/model/lease.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

#define TTL    INT64_C(30000000)
#define EVERY  (TTL / 3)
#define START  INT64_C(1000000000)
#define MARGIN INT64_C(2000000)
#define END    (START + TTL - MARGIN) /* of a lease that was asked for at START */
#define RISK   (START + TTL / 3 * 2)

static const sqlock_state states[] = {SQLOCK_UNSURE, SQLOCK_HELD, SQLOCK_AT_RISK, SQLOCK_LOST,
                                      SQLOCK_RELEASED};
#define N_STATES (sizeof states / sizeof *states)

static int is_believed(const struct lease *l)
{
    return l->state == SQLOCK_HELD || l->state == SQLOCK_AT_RISK;
}

static int is_final(sqlock_state state)
{
    return state == SQLOCK_LOST || state == SQLOCK_RELEASED;
}

static struct lease held_lease(void)
{
    struct lease l;

    lease_init(&l, TTL, EVERY, 0);
    assert_int_equal(lease_apply(&l, LEASE_GRANTED, START + 1000, START), LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_HELD);
    return l;
}

static struct lease lease_in(sqlock_state state)
{
    struct lease l = held_lease();

    if (state == SQLOCK_UNSURE)
        lease_init(&l, TTL, EVERY, 0);
    else if (state == SQLOCK_AT_RISK)
        lease_apply(&l, LEASE_TICK, RISK, 0);
    else if (state == SQLOCK_LOST)
        lease_apply(&l, LEASE_DENIED, START + 1000, SQLOCK_WHY_TAKEN);
    else if (state == SQLOCK_RELEASED) {
        lease_apply(&l, LEASE_RELEASING, START + 1000, 0);
        lease_apply(&l, LEASE_RELEASED, START + 2000, 0);
    }
    assert_int_equal(l.state, state);
    return l;
}

/* Held, at risk, and past the deadline of a lease that a transaction guards. */
static struct lease guarded_lease(sqlock_state state)
{
    struct lease l = lease_in(state == SQLOCK_AT_RISK ? state : SQLOCK_HELD);

    lease_guard(&l, START + 5000);
    if (state == SQLOCK_UNSURE)
        assert_int_equal(lease_apply(&l, LEASE_TICK, END, 0), LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, state);
    return l;
}

static int has_edge(sqlock_state from, enum lease_event event, sqlock_state to)
{
    for (size_t i = 0; i < lease_n_edges; i++)
        if (lease_edges[i].from == from && lease_edges[i].event == event && lease_edges[i].to == to)
            return 1;
    return 0;
}

static int has_any_edge(sqlock_state from, enum lease_event event)
{
    for (size_t i = 0; i < N_STATES; i++)
        if (has_edge(from, event, states[i]))
            return 1;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------------
 */

/* What an event may carry, and when it may come: all that the code looks at. */
static const int64_t moments[] = {START + 2000, RISK - 1, RISK, END - 1, END, END + 500, END + TTL};
#define N_MOMENTS (sizeof moments / sizeof *moments)

static int64_t arg_of(enum lease_event event, size_t i)
{
    static const int64_t jumps[] = {1, TTL / 2, 2 * TTL};

    switch (event) {
    case LEASE_GRANTED:
    case LEASE_RENEWED:
        return START + 1000;
    case LEASE_JUMPED:
        return jumps[i];
    case LEASE_DENIED:
        return SQLOCK_WHY_TAKEN;
    default:
        return 0;
    }
}

/* A late confirmation counts as the time that passed, and as nothing else. */
static enum lease_event event_in_table(const struct lease *l, enum lease_event event, int64_t now)
{
    int late = now >= (l->guarded != 0 ? lease_deadline(l, START + 1000) : l->deadline);

    return event == LEASE_RENEWED && is_believed(l) && late ? LEASE_TICK : event;
}

typedef void look_fn(const struct lease *before, enum lease_event event, int64_t now,
                     const struct lease *after, unsigned todo);

static void try_on(struct lease before, look_fn *look)
{
    for (int e = 0; e < LEASE_EVENTS; e++)
        for (size_t t = 0; t < N_MOMENTS; t++)
            for (size_t i = 0; i < 3; i++) {
                struct lease l = before;
                enum lease_event event = (enum lease_event)e;
                unsigned todo = lease_apply(&l, event, moments[t], arg_of(event, i));

                look(&before, event, moments[t], &l, todo);
            }
}

static void try_all(look_fn *look)
{
    struct lease short_hold = guarded_lease(SQLOCK_UNSURE);

    for (size_t s = 0; s < N_STATES; s++)
        try_on(lease_in(states[s]), look);
    try_on(guarded_lease(SQLOCK_HELD), look);
    try_on(guarded_lease(SQLOCK_AT_RISK), look);
    try_on(guarded_lease(SQLOCK_UNSURE), look);
    short_hold.hold_until = END + 1;
    try_on(short_hold, look);
}

static unsigned reached[64];

static void note_edge(const struct lease *before, enum lease_event event, int64_t now,
                      const struct lease *after, unsigned todo)
{
    event = event_in_table(before, event, now);
    for (size_t i = 0; todo != 0 && i < lease_n_edges; i++)
        if (lease_edges[i].from == before->state && lease_edges[i].event == event &&
            lease_edges[i].to == after->state)
            reached[i]++;
}

static void test_every_edge_of_the_table_is_reached(void **state)
{
    (void)state;
    assert_true(lease_n_edges <= sizeof reached / sizeof *reached);
    memset(reached, 0, sizeof reached);
    try_all(note_edge);
    for (size_t i = 0; i < lease_n_edges; i++)
        if (reached[i] == 0)
            fail_msg("never reached: %s + %s -> %s", sqlock_state_name(lease_edges[i].from),
                     lease_event_name(lease_edges[i].event), sqlock_state_name(lease_edges[i].to));
}

static void check_stays(const struct lease *before, enum lease_event event, int64_t now,
                        const struct lease *after, unsigned todo)
{
    event = event_in_table(before, event, now);
    if (has_any_edge(before->state, event)) {
        if (after->state != before->state && !has_edge(before->state, event, after->state))
            fail_msg("%s + %s -> %s is not in the table", sqlock_state_name(before->state),
                     lease_event_name(event), sqlock_state_name(after->state));
        return;
    }
    assert_int_equal(todo, 0);
    assert_memory_equal(before, after, sizeof *before);
}

static void test_events_that_are_not_in_the_table_change_nothing(void **state)
{
    (void)state;
    try_all(check_stays);
}

static void test_no_edge_stands_twice_and_none_leaves_a_final_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < lease_n_edges; i++) {
        const struct lease_edge *a = &lease_edges[i];

        assert_false(is_final(a->from));
        assert_true(a->why != NULL && a->why[0] != '\0');
        for (size_t k = 0; k < i; k++)
            assert_false(a->from == lease_edges[k].from && a->event == lease_edges[k].event &&
                         a->to == lease_edges[k].to);
    }
}

static void test_every_event_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int e = 0; e < LEASE_EVENTS; e++) {
        assert_true(lease_event_name((enum lease_event)e)[0] != '\0');
        for (int k = 0; k < e; k++)
            assert_string_not_equal(lease_event_name((enum lease_event)e),
                                    lease_event_name((enum lease_event)k));
    }
}

static void test_unknown_event_changes_nothing(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_STATES; s++) {
        struct lease l = lease_in(states[s]), before = l;

        assert_int_equal(lease_apply(&l, LEASE_EVENTS, END + 1, 1), 0);
        assert_memory_equal(&l, &before, sizeof l);
    }
}

/* ---- guarded ----------------------------------------------------------------------------------
 */

static void test_guarded_lease_is_unsure_and_not_lost_at_its_deadline(void **state)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    (void)state;
    assert_false(lease_is_held(&l, END));
    assert_true(lease_is_pinned(&l));
    assert_int_equal(l.why, SQLOCK_WHY_NONE);
    assert_int_equal(lease_next_tick(&l), INT64_MAX);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END + 100 * TTL, 0), 0);
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, END + TTL, END + TTL - 1000),
                     LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(l.deadline, END + TTL - 1000 + TTL - MARGIN);
    /* the guard is over: the next deadline is one like any other */
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.state, SQLOCK_LOST);
}

static void test_guarded_lease_that_others_have_is_lost(void **state)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    (void)state;
    assert_int_equal(lease_apply(&l, LEASE_DENIED, END + TTL, SQLOCK_WHY_TAKEN),
                     LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
}

static void test_renewal_from_before_the_guard_does_not_end_it(void **state)
{
    struct lease l = guarded_lease(SQLOCK_HELD);

    (void)state;
    lease_apply(&l, LEASE_RENEWED, START + 9000, START + 4000);
    assert_int_equal(l.state, SQLOCK_HELD);
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.state, SQLOCK_UNSURE);
}

static void test_late_proof_does_not_revive_a_guarded_lease(void **state)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    (void)state;
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, END + TTL, START + 6000), 0);
    assert_int_equal(l.state, SQLOCK_UNSURE);
}

static void test_jump_of_the_clock_ends_a_guarded_lease(void **state)
{
    struct lease l = guarded_lease(SQLOCK_HELD);

    (void)state;
    lease_apply(&l, LEASE_JUMPED, START + 6000, TTL);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_CLOCK);
}

/* From then on the release's answer alone tells, whatever guarded it before. */
static void test_release_of_a_guarded_lease_is_ended_by_its_answer_alone(void **state)
{
    static const sqlock_state from[] = {SQLOCK_HELD, SQLOCK_AT_RISK, SQLOCK_UNSURE};

    (void)state;
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
static void test_guarded_lease_that_nobody_renews_is_lost_with_its_last_extension(void **state)
{
    struct lease l = guarded_lease(SQLOCK_UNSURE);

    (void)state;
    l.manual = 1;
    assert_int_equal(lease_next_tick(&l), START + 5000 + TTL);
    assert_int_equal(lease_apply(&l, LEASE_TICK, START + 5000 + TTL - 1, 0), 0);
    assert_int_equal(lease_apply(&l, LEASE_TICK, START + 5000 + TTL, 0), LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
}

static void test_unsure_lease_without_a_guard_is_moved_by_no_renewal(void **state)
{
    struct lease l = lease_in(SQLOCK_UNSURE), before;

    (void)state;
    lease_guard(&l, START + 1000); /* nobody guards what is not held */
    before = l;
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, START + 2000, START + 1500), 0);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END + TTL, 0), 0);
    assert_memory_equal(&l, &before, sizeof l);
    assert_int_equal(l.guarded, 0);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void test_margin_covers_a_small_step_and_the_drift_of_two_clocks(void **state)
{
    (void)state;
    assert_int_equal(lease_margin(SQLOCK_LEASE_MIN_MS * INT64_C(1000)), 10000);
    assert_int_equal(lease_margin(INT64_C(10000000)), 1000000);
    assert_int_equal(lease_margin(INT64_C(20000000)), MARGIN);
    assert_int_equal(lease_margin(INT64_C(20000010)), MARGIN);
    assert_int_equal(lease_margin(INT64_C(2000000000)), MARGIN);
    assert_int_equal(lease_margin(SQLOCK_LEASE_MAX_MS * INT64_C(1000)), SQLOCK_LEASE_MAX_MS);
}

static void test_deadline_counts_from_before_the_request(void **state)
{
    struct lease l;

    (void)state;
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

static void test_lock_is_held_until_the_deadline_and_not_at_it(void **state)
{
    struct lease l = held_lease();

    (void)state;
    assert_true(lease_is_held(&l, END - 1));
    assert_false(lease_is_held(&l, END)); /* although no tick has told it */
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END - 1, 0), LEASE_TELL);
    assert_int_equal(l.state, SQLOCK_AT_RISK);
    assert_true(lease_is_held(&l, END - 1));
    assert_int_equal(lease_apply(&l, LEASE_TICK, END, 0), LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
    assert_false(lease_is_held(&l, END - 1));
}

static void test_grant_that_comes_after_its_deadline_is_never_held(void **state)
{
    struct lease l;

    (void)state;
    lease_init(&l, TTL, EVERY, 0);
    lease_apply(&l, LEASE_GRANTED, END, START);
    assert_false(lease_is_held(&l, END));
    lease_apply(&l, LEASE_TICK, END, 0);
    assert_int_equal(l.state, SQLOCK_LOST);
}

static void test_late_renewal_does_not_revive_a_lock_whose_loss_nobody_has_told(void **state)
{
    struct lease l = held_lease();

    (void)state;
    /* sent in time, answered at the deadline: the new deadline would lie ahead */
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, END, END - 1000), LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
    assert_false(lease_is_held(&l, END));
}

static void test_late_renewal_does_not_revive_a_lost_lock(void **state)
{
    struct lease l = lease_in(SQLOCK_LOST);

    (void)state;
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, START + 3000, START + 2000), 0);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_TAKEN);
}

static void test_renewal_that_crosses_a_release_does_not_revive(void **state)
{
    struct lease l = held_lease();

    (void)state;
    lease_apply(&l, LEASE_RELEASING, START + 5000, 0);
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, START + 6000, START + 4000), 0);
    assert_int_equal(l.state, SQLOCK_UNSURE);
    assert_int_equal(lease_next_tick(&l), INT64_MAX);
}

static void test_renewal_ends_the_risk(void **state)
{
    struct lease l = lease_in(SQLOCK_AT_RISK);

    (void)state;
    lease_apply(&l, LEASE_RENEWED, RISK + 2000, RISK + 1000);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(l.deadline, RISK + 1000 + TTL - MARGIN);
}

/* A renewal of the talker's is slow; sqlock_renew() is sent after it, answered before it, and has
 * told its caller a deadline. Then the slow answer comes: it proves less, and must take nothing. */
static void test_answers_in_the_wrong_order_do_not_move_the_deadline_back(void **state)
{
    struct lease l = held_lease();
    int64_t told;

    (void)state;
    lease_apply(&l, LEASE_RENEWED, START + 9000000, START + 8000000);
    told = l.deadline;
    assert_int_equal(told, START + 8000000 + TTL - MARGIN);
    lease_apply(&l, LEASE_RENEWED, START + 9500000, START + 1000000);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_between(told, l.deadline, told);
}

/* Nor has it anything to tell: the newest proof is still two thirds of the lease old. */
static void test_older_answer_does_not_end_the_risk(void **state)
{
    struct lease l = lease_in(SQLOCK_AT_RISK), before = l;

    (void)state;
    assert_int_equal(lease_apply(&l, LEASE_RENEWED, RISK + 1000, START - 1000), 0);
    assert_int_equal(l.state, SQLOCK_AT_RISK);
    assert_memory_equal(&l, &before, sizeof l);
}

static void test_jump_shortens_the_lease_and_asks_for_a_renewal(void **state)
{
    struct lease l = held_lease();

    (void)state;
    assert_int_equal(lease_apply(&l, LEASE_JUMPED, START + 5000, 7000000), LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_HELD);
    assert_int_equal(l.deadline, END - 7000000);
    assert_int_equal(l.renew_at, START + 5000);
    assert_int_equal(lease_next_tick(&l), RISK - 7000000);
    lease_apply(&l, LEASE_JUMPED, START + 6000, 1000000);
    assert_int_equal(l.deadline, END - 8000000);
    assert_int_equal(lease_apply(&l, LEASE_TICK, END - 8000000, 0), LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.why, SQLOCK_WHY_CLOCK);
}

static void test_jump_past_the_end_loses_the_lock_at_once(void **state)
{
    struct lease l = held_lease();

    (void)state;
    assert_int_equal(lease_apply(&l, LEASE_JUMPED, START + 5000, TTL), LEASE_TELL | LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_int_equal(l.why, SQLOCK_WHY_CLOCK);
}

static void test_widest_jump_does_not_overflow(void **state)
{
    struct lease l = held_lease();

    (void)state;
    lease_apply(&l, LEASE_JUMPED, START + 5000, INT64_MAX);
    assert_int_equal(l.state, SQLOCK_LOST);
    assert_false(lease_is_held(&l, START + 5000));
}

static void test_reason_after_a_renewal_forgets_the_jump(void **state)
{
    struct lease l = held_lease();

    (void)state;
    lease_apply(&l, LEASE_JUMPED, START + 5000, 1000000);
    lease_apply(&l, LEASE_RENEWED, START + 7000, START + 6000);
    assert_int_equal(l.deadline, START + 6000 + TTL - MARGIN);
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
}

static void test_max_hold_counts_from_the_grant_and_names_the_reason(void **state)
{
    struct lease l;

    (void)state;
    lease_init(&l, TTL, EVERY, 15000000);
    lease_apply(&l, LEASE_GRANTED, START + 1000, START);
    assert_int_equal(l.hold_until, START + 1000 + 15000000);
    lease_apply(&l, LEASE_RENEWED, START + EVERY + 10, START + EVERY);
    assert_int_equal(l.hold_until, START + 1000 + 15000000);
    lease_apply(&l, LEASE_TICK, l.deadline, 0);
    assert_int_equal(l.why, SQLOCK_WHY_MAX_HOLD);
}

static void test_loss_before_max_hold_has_its_own_reason(void **state)
{
    struct lease l;

    (void)state;
    lease_init(&l, TTL, EVERY, INT32_MAX * INT64_C(1000));
    lease_apply(&l, LEASE_GRANTED, START + 1000, START);
    lease_apply(&l, LEASE_TICK, END, 0);
    assert_int_equal(l.why, SQLOCK_WHY_EXPIRED);
    lease_init(&l, TTL, EVERY, 0);
    lease_apply(&l, LEASE_GRANTED, START + 1000, START);
    assert_int_equal(l.hold_until, INT64_MAX);
}

static void test_closing_loses_without_a_call_back(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_STATES; s++) {
        struct lease l = lease_in(states[s]);

        assert_int_equal(lease_apply(&l, LEASE_CLOSED, START + 3000, 0) & LEASE_TELL, 0);
        assert_int_equal(l.state, is_final(states[s]) ? states[s] : SQLOCK_LOST);
        if (!is_final(states[s]))
            assert_int_equal(l.why, SQLOCK_WHY_CLOSED);
    }
}

/* ---- any order of events ----------------------------------------------------------------------
 */

struct story {
    struct lease l;
    int64_t now, proved; /* the deadline by the confirmed request that was sent last */
    int64_t hold;        /* as it was asked for; 0: for ever */
    int64_t hold_until;  /* counted from the first grant, whatever came after it */
};

static void begin_story(struct story *s, struct dice *d)
{
    int64_t ttl = dice_between(d, SQLOCK_LEASE_MIN_MS, 60000) * 1000;

    if (dice_below(d, 20) == 0)
        ttl = SQLOCK_LEASE_MAX_MS * INT64_C(1000);
    memset(s, 0, sizeof *s);
    s->now = dice_between(d, 1, 2) * SQLOCK_LEASE_MAX_MS * INT64_C(2000);
    s->hold = dice_below(d, 2) ? 0 : dice_between(d, 1000, 10 * ttl);
    s->hold_until = INT64_MAX;
    lease_init(&s->l, ttl, ttl / dice_between(d, 2, 10), s->hold);
}

/* Mostly small steps, so that a lease lives through some of them; now and then to an edge. */
static int64_t step_of(const struct story *s, struct dice *d)
{
    int64_t next = lease_next_tick(&s->l);

    if (next != INT64_MAX && next > s->now && dice_below(d, 6) == 0)
        return next - s->now - (int64_t)dice_below(d, 2);
    return dice_between(d, 0, s->l.ttl / (dice_below(d, 8) == 0 ? 1 : 20));
}

static int64_t random_arg(const struct story *s, struct dice *d, enum lease_event event)
{
    switch (event) {
    case LEASE_GRANTED:
    case LEASE_RENEWED:
        return s->now - dice_between(d, 0, dice_below(d, 8) == 0 ? 2 * s->l.ttl : s->l.ttl / 20);
    case LEASE_JUMPED:
        return dice_between(d, 1, dice_below(d, 8) == 0 ? 2 * s->l.ttl : s->l.ttl / 20);
    case LEASE_DENIED:
        return dice_between(d, SQLOCK_WHY_EXPIRED, SQLOCK_WHY_FORK);
    default:
        return 0;
    }
}

/* Endings are rare, or there would be no middle. */
static enum lease_event random_event(const struct story *s, struct dice *d)
{
    enum lease_event e = (enum lease_event)dice_below(d, LEASE_EVENTS);

    if (s->l.state == SQLOCK_UNSURE && dice_below(d, 2))
        return LEASE_GRANTED;
    if ((e == LEASE_DENIED || e == LEASE_RELEASING || e == LEASE_CLOSED) && dice_below(d, 10))
        return dice_below(d, 2) ? LEASE_RENEWED : LEASE_TICK;
    return e;
}

static void check_belief(const struct story *s)
{
    const struct lease *l = &s->l;
    const int64_t at[] = {s->now, l->deadline - 1, l->deadline, l->deadline + 1, INT64_MAX};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        assert_int_equal(lease_is_held(l, at[i]), is_believed(l) && at[i] < l->deadline);
    if (is_believed(l))
        assert_true(l->deadline <= s->proved);
    assert_int_equal(l->state == SQLOCK_LOST, l->why != SQLOCK_WHY_NONE);
}

/* The watcher sleeps until next_tick: before it, nothing is to do; then, something is. */
static void check_next_tick(const struct story *s)
{
    int64_t next = lease_next_tick(&s->l);
    struct lease l = s->l;

    if (next == INT64_MAX) {
        assert_false(is_believed(&l));
        return;
    }
    assert_true(next <= (lease_is_pinned(&l) ? l.hold_until : l.deadline));
    assert_int_equal(lease_apply(&l, LEASE_TICK, next - 1, 0), 0);
    assert_int_equal(l.state, s->l.state);
    assert_true(lease_apply(&l, LEASE_TICK, next, 0) & LEASE_TELL);
    assert_int_not_equal(l.state, s->l.state);
}

static void check_move(const struct lease *before, const struct story *s, enum lease_event event,
                       unsigned todo)
{
    const struct lease *l = &s->l;

    if (is_final(before->state))
        assert_memory_equal(before, l, sizeof *l);
    if (l->deadline != before->deadline || is_believed(l) != is_believed(before))
        assert_true(todo & LEASE_ARM);
    if (todo & LEASE_TELL)
        assert_int_not_equal(l->state, before->state);
    if (is_believed(before) && l->state != SQLOCK_RELEASED && !is_believed(l) &&
        event != LEASE_CLOSED && event != LEASE_RELEASING)
        assert_true(todo & LEASE_TELL);
    /* nothing but a first grant makes a lock held that was not, or the end of a guard */
    if (is_believed(l) && !lease_is_held(before, s->now) && event != LEASE_GRANTED &&
        !(event == LEASE_RENEWED && before->guarded != 0))
        assert_true(!lease_is_held(l, s->now));
    if (event == LEASE_JUMPED && is_believed(l))
        assert_true(l->deadline < before->deadline);
    if (event == LEASE_TICK)
        assert_int_equal(is_believed(l), lease_is_held(l, s->now));
}

/* The longest hold counts once, from the first grant, and is the reason of no earlier loss. */
static void check_hold(struct story *s, const struct lease *before, enum lease_event event)
{
    if (event == LEASE_GRANTED && before->state == SQLOCK_UNSURE && s->hold > 0 &&
        s->hold_until == INT64_MAX)
        s->hold_until = s->now + s->hold;
    assert_int_equal(s->l.hold_until, s->hold_until);
    if (event == LEASE_TICK && is_believed(before) && s->l.why == SQLOCK_WHY_MAX_HOLD)
        assert_true(s->now >= s->hold_until);
}

static void one_step(struct story *s, struct dice *d, long counts[LEASE_EVENTS])
{
    struct lease before;
    enum lease_event event;
    int64_t arg, proof;
    unsigned todo;

    s->now += step_of(s, d);
    if (dice_below(d, 20) == 0)
        lease_guard(&s->l, s->now);
    before = s->l;
    event = random_event(s, d);
    arg = random_arg(s, d, event);
    proof = arg + before.ttl - before.margin;
    if ((event == LEASE_GRANTED && before.state == SQLOCK_UNSURE) ||
        (event == LEASE_RENEWED && (lease_is_held(&before, s->now) || before.guarded != 0)))
        s->proved = proof > s->proved ? proof : s->proved;
    todo = lease_apply(&s->l, event, s->now, arg);
    check_hold(s, &before, event);
    check_move(&before, s, event, todo);
    check_belief(s);
    check_next_tick(s);
    if (s->l.state != before.state)
        counts[event]++;
}

static void test_no_order_of_events_believes_longer_than_was_proved(void **state)
{
    struct dice d = dice_new("lease");
    long counts[LEASE_EVENTS] = {0};
    struct story s;

    (void)state;
    begin_story(&s, &d);
    for (int i = 0; i < 400000; i++) {
        /* a final state is looked at for a while before the next story */
        if (is_final(s.l.state) && dice_below(&d, 8) == 0)
            begin_story(&s, &d);
        one_step(&s, &d, counts);
    }
    for (int e = 0; e < LEASE_EVENTS; e++)
        if (counts[e] < 100)
            fail_msg("%s moved a lease only %ld times: the dice prove nothing",
                     lease_event_name((enum lease_event)e), counts[e]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_edge_of_the_table_is_reached),
    cmocka_unit_test(test_events_that_are_not_in_the_table_change_nothing),
    cmocka_unit_test(test_no_edge_stands_twice_and_none_leaves_a_final_state),
    cmocka_unit_test(test_every_event_has_a_name_of_its_own),
    cmocka_unit_test(test_unknown_event_changes_nothing),
    cmocka_unit_test(test_guarded_lease_is_unsure_and_not_lost_at_its_deadline),
    cmocka_unit_test(test_guarded_lease_that_others_have_is_lost),
    cmocka_unit_test(test_renewal_from_before_the_guard_does_not_end_it),
    cmocka_unit_test(test_late_proof_does_not_revive_a_guarded_lease),
    cmocka_unit_test(test_jump_of_the_clock_ends_a_guarded_lease),
    cmocka_unit_test(test_release_of_a_guarded_lease_is_ended_by_its_answer_alone),
    cmocka_unit_test(test_guarded_lease_that_nobody_renews_is_lost_with_its_last_extension),
    cmocka_unit_test(test_unsure_lease_without_a_guard_is_moved_by_no_renewal),
    cmocka_unit_test(test_margin_covers_a_small_step_and_the_drift_of_two_clocks),
    cmocka_unit_test(test_deadline_counts_from_before_the_request),
    cmocka_unit_test(test_lock_is_held_until_the_deadline_and_not_at_it),
    cmocka_unit_test(test_grant_that_comes_after_its_deadline_is_never_held),
    cmocka_unit_test(test_late_renewal_does_not_revive_a_lock_whose_loss_nobody_has_told),
    cmocka_unit_test(test_late_renewal_does_not_revive_a_lost_lock),
    cmocka_unit_test(test_renewal_that_crosses_a_release_does_not_revive),
    cmocka_unit_test(test_renewal_ends_the_risk),
    cmocka_unit_test(test_answers_in_the_wrong_order_do_not_move_the_deadline_back),
    cmocka_unit_test(test_older_answer_does_not_end_the_risk),
    cmocka_unit_test(test_jump_shortens_the_lease_and_asks_for_a_renewal),
    cmocka_unit_test(test_jump_past_the_end_loses_the_lock_at_once),
    cmocka_unit_test(test_widest_jump_does_not_overflow),
    cmocka_unit_test(test_reason_after_a_renewal_forgets_the_jump),
    cmocka_unit_test(test_max_hold_counts_from_the_grant_and_names_the_reason),
    cmocka_unit_test(test_loss_before_max_hold_has_its_own_reason),
    cmocka_unit_test(test_closing_loses_without_a_call_back),
    cmocka_unit_test(test_no_order_of_events_believes_longer_than_was_proved),
};

TEST_MAIN(tests)
