/* Claims that nobody contradicts by itself: that a lock is guarded, which says of an open
 * transaction, and not of any holder (P11); and that an acquire of which a reply was lost was never
 * granted (P5). That one is refuted by others, who are told of a holder whom nobody knows of. */
#include <string.h>
#include <strings.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

/* How long a request may be on its way, and its lease last, or a transaction stay open, whose
 * client is gone. */
#define LINGER_US INT64_C(15000000)

/* Whether there is an event of e's name, asked before e was answered, for which this is so; the
 * nearest ones first, and none that is long over. */
static bool any_beside(const struct book *b, const struct event *e,
                       bool (*fits)(const struct book *, const struct event *x,
                                    const struct event *e))
{
    const struct event *x;

    for (x = e + 1; x < b->events + b->n && x->invoke_us <= e->return_us; x++)
        if (x->name == e->name && fits(b, x, e))
            return true;
    for (x = e - 1; x >= b->events && x->invoke_us >= e->invoke_us - 2 * LINGER_US; x--)
        if (x->name == e->name && fits(b, x, e))
            return true;
    return false;
}

/* ---- guarded --------------------------------------------------------------------------------- */

/* In SQLite any writer keeps the file, and MySQL before 8.0 waits for what is locked. */
static bool says_guards(const struct book *b)
{
    const char *engine = b->rules->engine;

    return engine && strncasecmp(engine, "sqlite", 6) != 0 && strncmp(engine, "mysql-5", 7) != 0;
}

/* Who was granted the name, having asked for it since, was not kept out any more. Shared holders,
 * those of other slots, and those of another server are not kept out anyway. */
static int64_t first_grant_since(const struct book *b, const struct event *guard)
{
    int64_t first = NEVER;

    if (kind_of(b, guard->name).slots > 1)
        return NEVER;
    for (int64_t i = book_at(b, guard->name, 0);
         i < b->n_grants && b->grants[i].name == guard->name; i++)
        if (!b->grants[i].shared && b->grants[i].side == side_of(b, guard->process) &&
            b->grants[i].sent_us > guard->invoke_us && b->grants[i].start_us < first)
            first = b->grants[i].start_us;
    return first;
}

/* One that waited for the row behind a fault has it locked until it ends, also where it was told
 * that its grant is lost and others were granted the name meanwhile. */
static int64_t guard_end(const struct book *b, const struct event *guard)
{
    int64_t end, granted, least = guard->invoke_us;

    if (event_returned(guard) && (guard->outcome == 0 || guard->outcome == SQLOCK_ELOST)) {
        if (!fault_between(&b->all, guard->invoke_us, guard->return_us))
            return guard->return_us;
        least = guard->return_us;
    }
    end = (event_returned(guard) ? guard->return_us : guard->invoke_us) + LINGER_US;
    granted = first_grant_since(b, guard);
    if (granted < end)
        end = granted;
    return end > least ? end : least;
}

/* An acquire may be told of any grant's guard, a release or a break of its own grant's; or of one
 * that lost: it has the row locked if it waited for the write that took its grant away. */
static bool guards(const struct book *b, const struct event *x, const struct event *e)
{
    return x->verb == V_GUARDED && side_of(b, x->process) == side_of(b, e->process) &&
           (event_acquires(e) || x->token == e->token ||
            (event_returned(x) && x->outcome == SQLOCK_ELOST)) &&
           guard_end(b, x) >= e->invoke_us;
}

/* A grant that was held for as long as the question was under way. The server's clock, if it was
 * put forward meanwhile, had ended it before its holder could know. One that another server made
 * which lives on beside this one is nothing to it. */
static const struct grant *held_throughout(const struct book *b, const struct event *e)
{
    for (int64_t i = book_at(b, e->name, 0); i < b->n_grants && b->grants[i].name == e->name; i++)
        if (b->grants[i].start_us <= e->invoke_us && b->grants[i].end_us >= e->return_us &&
            b->grants[i].side == side_of(b, e->process) &&
            !fault_between(&b->clock, b->grants[i].sent_us, e->return_us))
            return &b->grants[i];
    return NULL;
}

/* Whose locks there are in a fault nobody knows. */
static void judge_guarded_claim(struct book *b, const struct event *e)
{
    const struct grant *held = event_acquires(e) ? held_throughout(b, e) : NULL;

    if (fault_between(&b->all, e->invoke_us, e->return_us))
        return;
    if (held)
        breach(b, RULE_GUARDED, held->told, e, "free but guarded, when it was held");
    else if (!any_beside(b, e, guards))
        breach(b, RULE_GUARDED, e, NULL, "guarded, and no such transaction was open");
}

/* ---- never granted --------------------------------------------------------------------------- */

/* A settle, or a release without a token, that told what became of this acquire. */
static const struct event *settled_by(const struct book *b, const struct event *x)
{
    for (const struct event *e = x + 1; e < b->events + b->n; e++) {
        if (e->process != x->process || e->thread != x->thread)
            continue;
        if (event_acquires(e))
            return NULL;
        if (event_settles(e) && e->name == x->name && (e->verb == V_SETTLE || e->token == 0))
            return e;
    }
    return NULL;
}

/* A waiter that gave up may be offered the lock before it has left the queue, for a second. */
#define OFFERED_US INT64_C(2000000)

/* Until when this may have been granted a token of which nobody else tells; e is told of such a
 * one. Another server that took over may have lost the settling, or that it was given back, and
 * still have the grant. */
static int64_t granted_until(const struct book *b, const struct event *x, const struct event *e)
{
    const struct event *settled = NULL;

    if (!event_returned(x))
        return x->invoke_us + LINGER_US;
    if (x->outcome == SQLOCK_EUNSURE) {
        settled = settled_by(b, x);
        return settled && !forgotten_between(b, settled, e->return_us) ? settled->return_us
                                                                       : x->return_us + LINGER_US;
    }
    if (fault_between(&b->all, x->invoke_us, x->return_us) ||
        (!event_ok(x) && forgotten_between(b, x, e->return_us)))
        return x->return_us + LINGER_US;
    if (x->verb == V_RUN)
        return x->return_us + b->rules->lease_ms * INT64_C(1000);
    return event_ok(x) ? x->return_us : x->return_us + OFFERED_US;
}

static bool may_hold(const struct book *b, const struct event *x, const struct event *e)
{
    return (event_acquires(x) || x->verb == V_RUN) && granted_until(b, x, e) >= e->invoke_us;
}

static void judge_unknown_holder(struct book *b, const struct event *e)
{
    if (any_beside(b, e, may_hold))
        return;
    breach(b, RULE_UNKNOWN, e, NULL, "busy with one that nobody can have been granted");
}

void check_claims(struct book *b)
{
    bool told = says_guards(b);

    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];

        if (!event_returned(e))
            continue;
        if (told && e->outcome == SQLOCK_EGUARDED &&
            (event_acquires(e) || e->verb == V_RELEASE || e->verb == V_BREAK))
            judge_guarded_claim(b, e);
        if (event_refused(e) && e->token != 0 && !b->grant_of[i])
            judge_unknown_holder(b, e);
    }
}
