#include "tests/torture/sim_wrong.h"

#include <stddef.h>
#include <string.h>

#include <sqlock/sqlock.h>

struct event *wrong_pick(struct wrong *w, bool (*fits)(const struct wrong *, const struct event *))
{
    struct event *found = NULL;
    uint64_t seen = 0;

    for (int64_t i = 0; i < w->sim.n; i++)
        if (fits(w, &w->sim.events[i]) && dice_below(&w->dice, ++seen) == 0)
            found = &w->sim.events[i];
    return found;
}

bool wrong_answered(const struct event *e, int verb, int outcome)
{
    return e->verb == verb && e->return_us != HISTORY_NOT_RETURNED && e->outcome == outcome;
}

bool wrong_same_grant(const struct event *a, const struct event *b)
{
    return a->name == b->name && a->token == b->token;
}

/* Another event of the same name for which this is so, the first after e. */
static struct event *after(const struct wrong *w, const struct event *e, int verb, int outcome)
{
    for (int64_t i = 0; i < w->sim.n; i++) {
        struct event *x = &w->sim.events[i];

        if (wrong_answered(x, verb, outcome) && x->name == e->name && x->invoke_us > e->return_us)
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
    return wrong_answered(e, V_ACQUIRE, 0) && after(w, e, V_ACQUIRE, 0);
}

bool wrong_token_of_before(struct wrong *w)
{
    struct event *g = wrong_pick(w, is_followed_grant);

    w->found_by[0] = RULE_TOKEN;
    if (g)
        after(w, g, V_ACQUIRE, 0)->token = g->token;
    return g != NULL;
}

bool wrong_smaller_token(struct wrong *w)
{
    struct event *g = wrong_pick(w, is_followed_grant);

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

        if (e->verb == V_BREAK && wrong_same_grant(e, g))
            return NULL;
        if (e->verb == V_RELEASE && wrong_same_grant(e, g) && !found)
            found = e;
    }
    return found;
}

/* It was released, and the next one was granted before its deadline. */
static bool is_passed_on(const struct wrong *w, const struct event *e)
{
    const struct event *next = wrong_answered(e, V_ACQUIRE, 0) ? after(w, e, V_ACQUIRE, 0) : NULL;
    const struct event *release = next ? release_of(w, e) : NULL;

    return release && wrong_answered(release, V_RELEASE, 0) && next->token == e->token + 1 &&
           next->return_us < e->deadline_us;
}

bool wrong_passed_on_without_a_release(struct wrong *w)
{
    struct event *g = wrong_pick(w, is_passed_on);

    w->found_by[0] = RULE_OVERLAP;
    for (int64_t i = w->sim.n - 1; g && i >= 0; i--) {
        struct event *e = &w->sim.events[i];

        if ((e->verb == V_RELEASE || (e->verb == V_SETTLE && e->value == SQLOCK_WHY_RELEASED)) &&
            wrong_same_grant(e, g))
            drop(w, e);
    }
    return g != NULL;
}

static bool is_used_grant(const struct wrong *w, const struct event *e)
{
    if (!wrong_answered(e, V_ACQUIRE, 0))
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (wrong_same_grant(x, e) &&
            (wrong_answered(x, V_RENEW, 0) || wrong_answered(x, V_GUARDED, 0)))
            return true;
    }
    return false;
}

bool wrong_grant_that_never_was(struct wrong *w)
{
    struct event *g = wrong_pick(w, is_used_grant);

    w->found_by[0] = RULE_STALE;
    if (g)
        drop(w, g);
    return g != NULL;
}

static bool is_committed(const struct wrong *w, const struct event *e)
{
    (void)w;
    return wrong_answered(e, V_GUARDED, 0) || wrong_answered(e, V_ROW_LOCK, 0) ||
           wrong_answered(e, V_CAS, 0);
}

bool wrong_lost_update(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_committed);
    struct event *next = e ? after(w, e, e->verb, 0) : NULL;

    w->found_by[0] = RULE_UPDATE;
    if (next)
        next->value = e->value;
    return next != NULL;
}

bool wrong_updates_in_the_wrong_order(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_committed);
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

bool wrong_write_that_nobody_owns_up_to(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_committed);

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
    return wrong_answered(e, V_ROW_LOCK, 0) && e->value == w->sim.rows[e->name].row;
}

bool wrong_write_that_is_not_in_the_row(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_last_write);

    w->found_by[0] = RULE_SUM;
    if (e)
        w->sim.rows[e->name].row--;
    return e != NULL;
}

/* After another one wrote under its own, and under the token of the one before. */
static bool is_second_writer(const struct wrong *w, const struct event *e)
{
    const struct event *next = wrong_answered(e, V_GUARDED, 0) ? after(w, e, V_GUARDED, 0) : NULL;

    return next && next->token > e->token && next->value == e->value + 1 &&
           after(w, next, V_GUARDED, 0) && after(w, next, V_GUARDED, 0)->token == next->token;
}

bool wrong_write_under_an_old_token(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_second_writer);

    w->found_by[0] = RULE_FENCE;
    if (e) {
        struct event *next = after(w, e, V_GUARDED, 0);

        after(w, next, V_GUARDED, 0)->token = e->token;
    }
    return e != NULL;
}

static bool is_late_refused(const struct wrong *w, const struct event *e)
{
    if (!wrong_answered(e, V_GUARDED, SQLOCK_ELOST))
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (wrong_answered(x, V_ACQUIRE, 0) && x->name == e->name && x->token > e->token &&
            x->return_us < e->invoke_us)
            return true;
    }
    return false;
}

bool wrong_late_write_that_is_accepted(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_late_refused);

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

        if (wrong_answered(x, V_ACQUIRE, 0) && x->name == e->name && x->token > e->token &&
            (!found || x->return_us < found->return_us))
            found = x;
    }
    return found;
}

static bool is_committed_beside_a_grant(const struct wrong *w, const struct event *e)
{
    return wrong_answered(e, V_GUARDED, 0) && after_token(w, e);
}

static bool is_changed(const struct wrong *w, const struct event *e)
{
    (void)w;
    return wrong_answered(e, V_CAS, 0);
}

bool wrong_commit_after_a_later_grant(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_committed_beside_a_grant);

    w->found_by[0] = RULE_GUARD;
    if (e)
        e->deadline_us = after_token(w, e)->return_us + 1;
    return e != NULL;
}

static bool is_conflict(const struct wrong *w, const struct event *e)
{
    (void)w;
    return wrong_answered(e, V_CAS, SQLOCK_CONFLICT);
}

bool wrong_conflict_with_nobody(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_conflict);

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

bool wrong_change_of_another_version(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_changed);

    w->found_by[0] = RULE_UPDATE;
    if (e)
        e->token--;
    return e != NULL;
}

static bool is_young_use(const struct wrong *w, const struct event *e)
{
    const struct event *last = NULL;

    if (!wrong_answered(e, V_GUARDED, 0) && !wrong_answered(e, V_RENEW, 0))
        return false;
    for (int64_t i = 0; i < w->sim.n; i++) {
        const struct event *x = &w->sim.events[i];

        if (wrong_same_grant(x, e) && x->verb == V_BREAK)
            return false;
        if (wrong_same_grant(x, e) && x->return_us <= e->invoke_us &&
            wrong_answered(x, V_ACQUIRE, 0))
            last = x;
    }
    return last && e->return_us < last->deadline_us;
}

bool wrong_loss_without_a_cause(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_young_use);

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

        if (wrong_answered(x, V_ACQUIRE, 0) && wrong_same_grant(x, e) &&
            x->return_us < e->invoke_us)
            return x;
    }
    return NULL;
}

static bool is_refused_late(const struct wrong *w, const struct event *e)
{
    return wrong_answered(e, V_ACQUIRE, SQLOCK_EBUSY) && e->token > 1 && grant_before(w, e);
}

bool wrong_busy_with_the_one_before(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_refused_late);

    w->found_by[0] = RULE_BUSY;
    if (e)
        e->token--;
    return e != NULL;
}

bool wrong_row_that_ends_too_early(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_refused_late);

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

bool wrong_deadline_that_is_too_late(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_promise);

    w->found_by[0] = RULE_DEADLINE;
    if (e)
        e->deadline_us = e->return_us + SIM_LEASE_MS * INT64_C(1000);
    return e != NULL;
}

static bool is_renewed(const struct wrong *w, const struct event *e)
{
    (void)w;
    return wrong_answered(e, V_RENEW, 0) || wrong_answered(e, V_HELD, 0);
}

bool wrong_use_after_the_end(struct wrong *w)
{
    struct event *e = wrong_pick(w, is_renewed);
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
