/* Names that several may hold at a time: those who share a lock, or as many as there are slots. All
 * else that is proved goes for them too: what ends a grant here is an end (its release, a break,
 * its deadline), or a later grant that it cannot be held beside. */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/torture/check_parts.h"

/* ---- kinds of names ---------------------------------------------------------------------------
 */

bool kinds_make(struct book *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if ((b->events[i].verb == V_SHARE || b->events[i].verb == V_SLOTS) &&
            b->events[i].name >= b->n_kinds)
            b->n_kinds = b->events[i].name + 1;
    b->kinds = calloc((size_t)b->n_kinds + 1, sizeof *b->kinds);
    for (int64_t i = 0; b->kinds && i < b->n; i++) {
        const struct event *e = &b->events[i];

        if (e->verb == V_SHARE)
            b->kinds[e->name].shared = true;
        if (e->verb == V_SLOTS)
            b->kinds[e->name].slots = e->value;
    }
    return b->kinds != NULL;
}

struct name_kind kind_of(const struct book *b, uint32_t name)
{
    return name < b->n_kinds ? b->kinds[name] : (struct name_kind){0};
}

bool may_hold_together(const struct book *b, const struct grant *x, const struct grant *y)
{
    return x && y && (kind_of(b, x->name).slots > 1 || (x->shared && y->shared));
}

/* ---- from one mode to the other ---------------------------------------------------------------
 */

#define CHANGES_MODE 4 /* value of an acquire */

/* A shared lock is kept until the exclusive one is granted. An exclusive one may be shared from
 * when that was asked for, and nobody can have held it alone in between. */
static void convert(struct grant *from, struct grant *to)
{
    if (to->shared && from->end_us > to->asked_us)
        to->start_us = to->asked_us;
    if (from->end_us > to->start_us)
        from->end_us = to->start_us;
}

void convert_grants(struct book *b)
{
    struct grant *held = NULL;

    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = b->by_thread[i], *last = i > 0 ? b->by_thread[i - 1] : e;
        struct grant *g = b->grant_of[e - b->events];

        if (e->process != last->process || e->thread != last->thread)
            held = NULL;
        if (!g || g->told != e)
            continue;
        if (event_acquires(e) && e->value == CHANGES_MODE && held && held->name == g->name)
            convert(held, g);
        held = g;
    }
}

/* ---- slots ------------------------------------------------------------------------------------
 */

/* A span begins or ends. */
struct turn {
    int64_t at_us;
    bool begins;
    int64_t grant; /* its place in the book */
};

/* The spans that are open, in no order. */
struct open_spans {
    int64_t *grants; /* places in the book */
    int64_t *at;     /* of each grant: its place in them */
    int64_t n;
};

/* Who leaves makes room for who comes at the same moment. */
static int by_time(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1;
    return (x->grant > y->grant) - (x->grant < y->grant);
}

static void close_span(struct open_spans *o, int64_t grant)
{
    int64_t last = o->grants[--o->n];

    o->grants[o->at[grant]] = last;
    o->at[last] = o->at[grant];
}

static void open_span(struct open_spans *o, int64_t grant)
{
    o->at[grant] = o->n;
    o->grants[o->n++] = grant;
}

static const struct grant *first_asked(const struct book *b, const struct open_spans *o)
{
    const struct grant *first = &b->grants[o->grants[0]];

    for (int64_t i = 1; i < o->n; i++)
        if (b->grants[o->grants[i]].asked_us < first->asked_us)
            first = &b->grants[o->grants[i]];
    return first;
}

static void judge_slots(struct book *b, const struct open_spans *o, const struct grant *late)
{
    int64_t slots = kind_of(b, late->name).slots;
    const struct grant *first;

    if (o->n <= slots)
        return;
    first = first_asked(b, o);
    if (fault_between(&b->clock, first->asked_us, late->start_us)) {
        b->out->clock_overlaps++;
        return;
    }
    breach(b, RULE_SLOTS, first->told, late->told,
           "%" PRId64 " hold it, of which there are %" PRId64 " slots, since token %" PRId64
           " was granted",
           o->n, slots, late->token);
}

static void sweep_slots(struct book *b, const struct turn *turns, int64_t n, struct open_spans *o)
{
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && b->grants[turns[i].grant].name != b->grants[turns[i - 1].grant].name)
            o->n = 0;
        if (!turns[i].begins) {
            close_span(o, turns[i].grant);
        } else {
            open_span(o, turns[i].grant);
            judge_slots(b, o, &b->grants[turns[i].grant]);
        }
    }
}

/* The turns of each name by time; names one after the other, as in the book. */
static int64_t collect_turns(const struct book *b, struct turn *turns)
{
    int64_t n = 0, from = 0;

    for (int64_t i = 0; i < b->n_grants; i++) {
        const struct grant *g = &b->grants[i];

        if (i > 0 && g->name != g[-1].name) {
            qsort(turns + from, (size_t)(n - from), sizeof *turns, by_time);
            from = n;
        }
        if (kind_of(b, g->name).slots <= 1 || g->end_us <= g->start_us)
            continue;
        turns[n++] = (struct turn){g->start_us, true, i};
        turns[n++] = (struct turn){g->end_us, false, i};
    }
    qsort(turns + from, (size_t)(n - from), sizeof *turns, by_time);
    return n;
}

bool check_slots(struct book *b)
{
    size_t room = (size_t)b->n_grants + 1;
    struct turn *turns = calloc(2 * room, sizeof *turns);
    struct open_spans open = {calloc(room, sizeof *open.grants), calloc(room, sizeof *open.at), 0};
    bool fine = turns && open.grants && open.at;

    if (fine)
        sweep_slots(b, turns, collect_turns(b, turns), &open);
    free(turns);
    free(open.grants);
    free(open.at);
    return fine;
}
