/* The lease on its holder's side: the table of moves, and what no order of events may do. */
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"
#include "tests/unit/leases.h"

static int has_any_edge(sqlock_state from, enum lease_event event)
{
    for (size_t i = 0; i < N_STATES; i++)
        if (has_edge(from, event, states[i]))
            return 1;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What an event may carry, and when it may come: all that the code looks at. */
static const int64_t moments[] = {START + 2000, RISK - 1, RISK, END - 1, END, END + 500, END + TTL};
#define N_MOMENTS (sizeof moments / sizeof *moments)

static int64_t arg_of(enum lease_event event, size_t i)
{
    static const int64_t jumps[] = {1, TTL / 2, 2 * TTL}, ends[] = {START, END - 1, END + 1};

    switch (event) {
    case LEASE_GRANTED:
    case LEASE_RENEWED:
        return START + 1000;
    case LEASE_JUMPED:
        return jumps[i];
    case LEASE_CONFIRMED:
        return ends[i];
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

TEST(test_every_edge_of_the_table_is_reached)
{
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

TEST(test_events_that_are_not_in_the_table_change_nothing)
{
    try_all(check_stays);
}

TEST(test_no_edge_stands_twice_and_none_leaves_a_final_state)
{
    for (size_t i = 0; i < lease_n_edges; i++) {
        const struct lease_edge *a = &lease_edges[i];

        assert_false(is_final(a->from));
        assert_true(a->why != NULL && a->why[0] != '\0');
        for (size_t k = 0; k < i; k++)
            assert_false(a->from == lease_edges[k].from && a->event == lease_edges[k].event &&
                         a->to == lease_edges[k].to);
    }
}

/* ---- any order of events --------------------------------------------------------------------- */

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

/* The timer sleeps until next_tick: before it, nothing is to do; then, something is. */
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
    assert_true(lease_apply(&l, LEASE_TICK, next, 0) & LEASE_REPORT);
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
    if (todo & LEASE_REPORT)
        assert_int_not_equal(l->state, before->state);
    if (is_believed(before) && l->state != SQLOCK_RELEASED && !is_believed(l) &&
        event != LEASE_CLOSED && event != LEASE_RELEASING)
        assert_true(todo & LEASE_REPORT);
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
    proof = arg + before.ttl - lease_margin(before.ttl);
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

TEST(test_no_order_of_events_believes_longer_than_was_proved)
{
    struct dice d = dice_new("lease");
    long counts[LEASE_EVENTS] = {0};
    struct story s;

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

TEST_MAIN_EACH(NULL, NULL)
