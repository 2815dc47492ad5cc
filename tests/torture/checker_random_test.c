/* Long histories of a simulation: true ones are proved, and quickly; where one thing is made wrong
 * in them, that is found. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"
#include "tests/torture/sim.h"

/* ---- true -------------------------------------------------------------------------------------
 */

static int64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void assert_proved(struct sim *s, struct check_verdict *v)
{
    if (check_history(&s->rules, s->events, s->n, v, stderr) != 0)
        fail_msg("a history that is true was refuted: seed %" PRIu64, s->seed);
}

static void test_history_of_200000_operations_is_proved_in_two_seconds(void **state)
{
    struct sim s = {.seed = 1, .names = 8, .threads = 24, .events_wanted = 280000};
    struct check_verdict v;
    int64_t begun;

    (void)state;
    sim_run(&s);
    begun = cpu_ms();
    assert_proved(&s, &v);
    assert_between(0, cpu_ms() - begun, patience_ms(2000));
    assert_between(200000, v.operations, 280000);
    assert_between(20000, v.grants, 280000);
    assert_between(10, v.faults, 1000);
    assert_between(1000, v.unsure, 280000);
    assert_between(1000, v.settled, v.unsure);
    assert_between(1000, v.guarded, 280000);
    assert_between(10, v.late_refused, 280000);
    assert_int_equal(v.judged, s.names);
    free(s.events);
}

static void test_true_histories_are_proved(void **state)
{
    struct dice dice = dice_new("true histories");

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct sim s = {.seed = dice_below(&dice, UINT64_MAX),
                        .names = (uint32_t)dice_between(&dice, 1, 4),
                        .threads = (uint32_t)dice_between(&dice, 2, 12),
                        .events_wanted = dice_between(&dice, 10, 2000)};
        struct check_verdict v;

        sim_run(&s);
        assert_proved(&s, &v);
        free(s.events);
    }
}

/* ---- one thing wrong --------------------------------------------------------------------------
 */

struct wrong {
    struct sim sim;
    struct dice dice;
    int found_by[3]; /* rules, any of which may find it; the rest is 0 */
};

/* Some event for which this is so, or NULL. */
static struct event *pick(struct wrong *w, bool (*fits)(const struct wrong *, const struct event *))
{
    struct event *found = NULL;
    uint64_t seen = 0;

    for (int64_t i = 0; i < w->sim.n; i++)
        if (fits(w, &w->sim.events[i]) && dice_below(&w->dice, ++seen) == 0)
            found = &w->sim.events[i];
    return found;
}

static bool answered(const struct event *e, int verb, int outcome)
{
    return e->verb == verb && e->return_us != HISTORY_NOT_RETURNED && e->outcome == outcome;
}

static bool same_grant(const struct event *a, const struct event *b)
{
    return a->name == b->name && a->token == b->token;
}

/* Another event of the same name for which this is so, the first after e. */
static struct event *after(const struct wrong *w, const struct event *e, int verb, int outcome)
{
    for (int64_t i = 0; i < w->sim.n; i++) {
        struct event *x = &w->sim.events[i];

        if (answered(x, verb, outcome) && x->name == e->name && x->invoke_us > e->return_us)
            return x;
    }
    return NULL;
}

static void drop(struct wrong *w, struct event *e)
{
    memmove(e, e + 1, (size_t)(&w->sim.events[w->sim.n] - e - 1) * sizeof *e);
    w->sim.n--;
}

static bool is_followed_grant(const struct wrong *w, const struct event *e)
{
    return answered(e, V_ACQUIRE, 0) && after(w, e, V_ACQUIRE, 0);
}

static bool token_of_before(struct wrong *w)
{
    struct event *g = pick(w, is_followed_grant);

    w->found_by[0] = RULE_TOKEN;
    if (g)
        after(w, g, V_ACQUIRE, 0)->token = g->token;
    return g != NULL;
}

static bool smaller_token(struct wrong *w)
{
    struct event *g = pick(w, is_followed_grant);

    w->found_by[0] = RULE_TOKEN;
    if (g)
        after(w, g, V_ACQUIRE, 0)->token = g->token - 1;
    return g && g->token > 1;
}

static const struct event *release_of(const struct wrong *w, const struct event *g)
{
    const struct event *found = NULL;

    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *e = &w->sim.events[i];

        if (e->verb == V_BREAK && same_grant(e, g))
            return NULL;
        if (e->verb == V_RELEASE && same_grant(e, g) && !found)
            found = e;
    }
    return found;
}

/* It was released, and the next one was granted before its deadline. */
static bool is_passed_on(const struct wrong *w, const struct event *e)
{
    const struct event *next = answered(e, V_ACQUIRE, 0) ? after(w, e, V_ACQUIRE, 0) : NULL;
    const struct event *release = next ? release_of(w, e) : NULL;

    return release && answered(release, V_RELEASE, 0) && next->token == e->token + 1 &&
           next->return_us < e->deadline_us;
}

static bool passed_on_without_a_release(struct wrong *w)
{
    struct event *g = pick(w, is_passed_on);

    w->found_by[0] = RULE_OVERLAP;
    for (int64_t i = w->sim.n - 1; g && i >= 0; i--) {
        struct event *e = &w->sim.events[i];

        if ((e->verb == V_RELEASE || (e->verb == V_SETTLE && e->value == SQLOCK_WHY_RELEASED)) &&
            same_grant(e, g))
            drop(w, e);
    }
    return g != NULL;
}

static bool is_used_grant(const struct wrong *w, const struct event *e)
{
    if (!answered(e, V_ACQUIRE, 0))
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (same_grant(x, e) && (answered(x, V_RENEW, 0) || answered(x, V_GUARDED, 0)))
            return true;
    }
    return false;
}

static bool grant_that_never_was(struct wrong *w)
{
    struct event *g = pick(w, is_used_grant);

    w->found_by[0] = RULE_STALE;
    if (g)
        drop(w, g);
    return g != NULL;
}

static bool is_committed(const struct wrong *w, const struct event *e)
{
    (void)w;
    return answered(e, V_GUARDED, 0) || answered(e, V_ROW_LOCK, 0) || answered(e, V_CAS, 0);
}

static bool lost_update(struct wrong *w)
{
    struct event *e = pick(w, is_committed);
    struct event *next = e ? after(w, e, e->verb, 0) : NULL;

    w->found_by[0] = RULE_UPDATE;
    if (next)
        next->value = e->value;
    return next != NULL;
}

static bool updates_in_the_wrong_order(struct wrong *w)
{
    struct event *e = pick(w, is_committed);
    struct event *next = e ? after(w, e, e->verb, 0) : NULL;

    w->found_by[0] = RULE_UPDATE;
    if (next) {
        int64_t value = next->value;

        next->value = e->value;
        e->value = value;
    }
    return next != NULL;
}

/* Nobody knows what this one wrote, so it may be what is missing. */
static bool may_own_up_to(const struct event *x, const struct event *e)
{
    return x->verb == e->verb && x->name == e->name && x != e &&
           (x->outcome == SQLOCK_EUNSURE || x->return_us == HISTORY_NOT_RETURNED) &&
           (x->value == 0 || x->value == e->value);
}

static bool write_that_nobody_owns_up_to(struct wrong *w)
{
    struct event *e = pick(w, is_committed);

    w->found_by[0] = RULE_SUM;
    for (int64_t i = 0; e && i < w->sim.n; i++)
        if (may_own_up_to(&w->sim.events[i], e))
            return false;
    if (e)
        e->outcome = SQLOCK_EDB;
    return e != NULL;
}

static bool is_last_write(const struct wrong *w, const struct event *e)
{
    return answered(e, V_ROW_LOCK, 0) && e->value == w->sim.rows[e->name].row;
}

static bool write_that_is_not_in_the_row(struct wrong *w)
{
    struct event *e = pick(w, is_last_write);

    w->found_by[0] = RULE_SUM;
    if (e)
        w->sim.rows[e->name].row--;
    return e != NULL;
}

/* After another one wrote under its own, and under the token of the one before. */
static bool is_second_writer(const struct wrong *w, const struct event *e)
{
    const struct event *next = answered(e, V_GUARDED, 0) ? after(w, e, V_GUARDED, 0) : NULL;

    return next && next->token > e->token && next->value == e->value + 1 &&
           after(w, next, V_GUARDED, 0) && after(w, next, V_GUARDED, 0)->token == next->token;
}

static bool write_under_an_old_token(struct wrong *w)
{
    struct event *e = pick(w, is_second_writer);

    w->found_by[0] = RULE_FENCE;
    if (e) {
        struct event *next = after(w, e, V_GUARDED, 0);

        after(w, next, V_GUARDED, 0)->token = e->token;
    }
    return e != NULL;
}

static bool is_late_refused(const struct wrong *w, const struct event *e)
{
    if (!answered(e, V_GUARDED, SQLOCK_ELOST))
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (answered(x, V_ACQUIRE, 0) && x->name == e->name && x->token > e->token &&
            x->return_us < e->invoke_us)
            return true;
    }
    return false;
}

static bool late_write_that_is_accepted(struct wrong *w)
{
    struct event *e = pick(w, is_late_refused);

    w->found_by[0] = RULE_STALE;
    if (e) {
        e->outcome = 0;
        e->value = ++w->sim.rows[e->name].guarded;
    }
    return e != NULL;
}

/* The first grant with a larger token. */
static const struct event *after_token(const struct wrong *w, const struct event *e)
{
    const struct event *found = NULL;

    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (answered(x, V_ACQUIRE, 0) && x->name == e->name && x->token > e->token &&
            (!found || x->return_us < found->return_us))
            found = x;
    }
    return found;
}

static bool is_committed_beside_a_grant(const struct wrong *w, const struct event *e)
{
    return answered(e, V_GUARDED, 0) && after_token(w, e);
}

static bool is_changed(const struct wrong *w, const struct event *e)
{
    (void)w;
    return answered(e, V_CAS, 0);
}

static bool commit_after_a_later_grant(struct wrong *w)
{
    struct event *e = pick(w, is_committed_beside_a_grant);

    w->found_by[0] = RULE_GUARD;
    if (e)
        e->deadline_us = after_token(w, e)->return_us + 1;
    return e != NULL;
}

static bool is_conflict(const struct wrong *w, const struct event *e)
{
    (void)w;
    return answered(e, V_CAS, SQLOCK_CONFLICT);
}

static bool conflict_with_nobody(struct wrong *w)
{
    struct event *e = pick(w, is_conflict);

    w->found_by[0] = RULE_CONFLICT;
    if (e)
        e->token = w->sim.rows[e->name].version;
    for (int64_t i = 0; e && i < w->sim.n; i++)
        if (w->sim.events[i].verb == V_CAS && w->sim.events[i].name == e->name &&
            (w->sim.events[i].outcome == SQLOCK_EUNSURE ||
             w->sim.events[i].return_us == HISTORY_NOT_RETURNED))
            return false;
    return e != NULL;
}

static bool change_of_another_version(struct wrong *w)
{
    struct event *e = pick(w, is_changed);

    w->found_by[0] = RULE_UPDATE;
    if (e)
        e->token--;
    return e != NULL;
}

static bool is_young_use(const struct wrong *w, const struct event *e)
{
    const struct event *last = NULL;

    if (!answered(e, V_GUARDED, 0) && !answered(e, V_RENEW, 0))
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (same_grant(x, e) && x->verb == V_BREAK)
            return false;
        if (same_grant(x, e) && x->return_us <= e->invoke_us && answered(x, V_ACQUIRE, 0))
            last = x;
    }
    return last && e->return_us < last->deadline_us;
}

static bool loss_without_a_cause(struct wrong *w)
{
    struct event *e = pick(w, is_young_use);

    w->found_by[0] = RULE_LOST;
    if (e)
        e->outcome = SQLOCK_ELOST;
    return e != NULL;
}

/* Whose token a refusal tells, if that had been granted before. */
static const struct event *grant_before(const struct wrong *w, const struct event *e)
{
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (answered(x, V_ACQUIRE, 0) && same_grant(x, e) && x->return_us < e->invoke_us)
            return x;
    }
    return NULL;
}

static bool is_refused_late(const struct wrong *w, const struct event *e)
{
    return answered(e, V_ACQUIRE, SQLOCK_EBUSY) && e->token > 1 && grant_before(w, e);
}

static bool busy_with_the_one_before(struct wrong *w)
{
    struct event *e = pick(w, is_refused_late);

    w->found_by[0] = RULE_BUSY;
    if (e)
        e->token--;
    return e != NULL;
}

static bool row_that_ends_too_early(struct wrong *w)
{
    struct event *e = pick(w, is_refused_late);

    w->found_by[0] = RULE_ROW;
    if (e)
        e->deadline_us = grant_before(w, e)->deadline_us - 1;
    return e != NULL;
}

static bool is_promise(const struct wrong *w, const struct event *e)
{
    (void)w;
    return e->outcome == 0 && e->deadline_us > 0 && e->verb != V_GUARDED &&
           e->return_us != HISTORY_NOT_RETURNED;
}

static bool deadline_that_is_too_late(struct wrong *w)
{
    struct event *e = pick(w, is_promise);

    w->found_by[0] = RULE_DEADLINE;
    if (e)
        e->deadline_us = e->return_us + SIM_LEASE_MS * INT64_C(1000);
    return e != NULL;
}

static bool is_renewed(const struct wrong *w, const struct event *e)
{
    (void)w;
    return answered(e, V_RENEW, 0) || answered(e, V_HELD, 0);
}

static bool use_after_the_end(struct wrong *w)
{
    struct event *e = pick(w, is_renewed);
    struct event *next = e ? after(w, e, V_ACQUIRE, 0) : NULL;

    w->found_by[0] = RULE_STALE;
    w->found_by[1] = RULE_OVERLAP; /* its deadline is now behind the other's grant */
    if (!next || next->token <= e->token)
        return false;
    e->thread = 1000; /* nobody was doing anything else at that time */
    e->invoke_us = next->return_us + 1;
    e->return_us = next->return_us + 2;
    e->deadline_us = e->return_us + SIM_LEASE_MS * INT64_C(900);
    sim_sort(w->sim.events, w->sim.n);
    return true;
}

static void assert_found(bool (*make_wrong)(struct wrong *), const char *what)
{
    struct dice dice = dice_new(what);
    int made = 0;

    for (int tries = 0; made < 60 && tries < 3000; tries++) {
        struct wrong w = {.sim = {.seed = dice_below(&dice, UINT64_MAX),
                                  .names = (uint32_t)dice_between(&dice, 1, 3),
                                  .threads = (uint32_t)dice_between(&dice, 2, 8),
                                  .events_wanted = dice_between(&dice, 100, 500)},
                          .dice = dice};
        struct check_verdict v = {0};

        sim_run(&w.sim);
        if (make_wrong(&w)) {
            made++;
            w.sim.rules.rows = w.sim.rows;
            assert_int_not_equal(check_history(&w.sim.rules, w.sim.events, w.sim.n, &v, NULL), -1);
            if (v.found[w.found_by[0]] == 0 && (w.found_by[1] == 0 || v.found[w.found_by[1]] == 0))
                fail_msg("%s was not found by its rule: seed %" PRIu64 ", %" PRId64
                         " other violations",
                         what, w.sim.seed, v.violations);
        }
        free(w.sim.events);
    }
    assert_int_equal(made, 60);
}

#define FOUND(wrong)                                                                               \
    static void test_##wrong##_is_found(void **state)                                              \
    {                                                                                              \
        (void)state;                                                                               \
        assert_found(wrong, #wrong);                                                               \
    }

FOUND(token_of_before)
FOUND(smaller_token)
FOUND(passed_on_without_a_release)
FOUND(grant_that_never_was)
FOUND(lost_update)
FOUND(updates_in_the_wrong_order)
FOUND(write_that_nobody_owns_up_to)
FOUND(write_that_is_not_in_the_row)
FOUND(write_under_an_old_token)
FOUND(late_write_that_is_accepted)
FOUND(commit_after_a_later_grant)
FOUND(conflict_with_nobody)
FOUND(change_of_another_version)
FOUND(busy_with_the_one_before)
FOUND(row_that_ends_too_early)
FOUND(loss_without_a_cause)
FOUND(deadline_that_is_too_late)
FOUND(use_after_the_end)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_history_of_200000_operations_is_proved_in_two_seconds),
    cmocka_unit_test(test_true_histories_are_proved),
    cmocka_unit_test(test_token_of_before_is_found),
    cmocka_unit_test(test_smaller_token_is_found),
    cmocka_unit_test(test_passed_on_without_a_release_is_found),
    cmocka_unit_test(test_grant_that_never_was_is_found),
    cmocka_unit_test(test_lost_update_is_found),
    cmocka_unit_test(test_updates_in_the_wrong_order_is_found),
    cmocka_unit_test(test_write_that_nobody_owns_up_to_is_found),
    cmocka_unit_test(test_write_that_is_not_in_the_row_is_found),
    cmocka_unit_test(test_write_under_an_old_token_is_found),
    cmocka_unit_test(test_late_write_that_is_accepted_is_found),
    cmocka_unit_test(test_commit_after_a_later_grant_is_found),
    cmocka_unit_test(test_conflict_with_nobody_is_found),
    cmocka_unit_test(test_change_of_another_version_is_found),
    cmocka_unit_test(test_busy_with_the_one_before_is_found),
    cmocka_unit_test(test_row_that_ends_too_early_is_found),
    cmocka_unit_test(test_loss_without_a_cause_is_found),
    cmocka_unit_test(test_deadline_that_is_too_late_is_found),
    cmocka_unit_test(test_use_after_the_end_is_found),
};

TEST_MAIN(tests)
