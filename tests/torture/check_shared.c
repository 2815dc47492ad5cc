/* Names that several may hold at a time: those who share a lock, or as many as there are slots. Who
 * shares is judged with those who do not (check_spans.c). Slots are counted here: with them a
 * larger token ends no other grant, so how many are held at a time is all that tells. */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/torture/check_parts.h"

/* ---- kinds of names -------------------------------------------------------------------------- */

static bool says_kind(const struct event *e)
{
    return e->verb == V_SHARE || e->verb == V_SLOTS;
}

static void note_kind(struct book *b, const struct event *e)
{
    struct name_kind *kind = &b->kinds[e->name];

    if (e->verb == V_SHARE) {
        kind->shared = true;
        return;
    }
    if (kind->slots != 0 && kind->slots != e->value)
        breach(b, RULE_HISTORY, e, NULL, "it has %" PRId64 " slots, and %" PRId64, kind->slots,
               e->value);
    kind->slots = e->value;
}

void kinds_make(struct book *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (says_kind(&b->events[i]) && b->events[i].name >= b->n_kinds)
            b->n_kinds = (int64_t)b->events[i].name + 1;
    b->kinds = book_new(b, b->n_kinds, sizeof *b->kinds);
    for (int64_t i = 0; i < b->n; i++)
        if (says_kind(&b->events[i]))
            note_kind(b, &b->events[i]);
}

struct name_kind kind_of(const struct book *b, uint32_t name)
{
    return name < b->n_kinds ? b->kinds[name] : (struct name_kind){0};
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* A slot is taken for a time: by a grant, or by a guarded write of one that has run out. */
struct span {
    struct grant *grant;
    const struct event *told;
    int64_t from_us, to_us;
};

/* It begins or ends. */
struct turn {
    int64_t at_us;
    bool begins;
    int64_t span;
};

struct slots {
    struct span *spans; /* names one after the other, and of each name the servers */
    int64_t n_spans;
    struct turn *turns; /* of those that are looked at */
    int64_t *open;      /* spans that have begun, in no order */
    int64_t n_open;
    struct grant **past; /* whose spans have ended, and may still be there */
    int64_t n_past;
    int64_t *kept_us; /* of each grant: its last span so far ends */
};

/* Who leaves makes room for who comes at the same moment. */
static int by_time(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    return order(x->at_us, y->at_us) ?: order(x->begins, y->begins) ?: order(x->span, y->span);
}

/* What was granted before the last step of the clock, or loss of commits, may stand beside what
 * came after it. */
static int64_t excused_until(const struct book *b, int64_t now_us)
{
    int64_t stepped_us = faults_healed(&b->clock, now_us);
    int64_t lost_us = faults_healed(&b->regranted, now_us);

    return stepped_us > lost_us ? stepped_us : lost_us;
}

/* Who was asked for after that; and the first of all to be asked for. */
static int64_t count_new(const struct book *b, const struct slots *s, int64_t now_us,
                         const struct span **first)
{
    int64_t excused_us = excused_until(b, now_us), n = 0;

    *first = &s->spans[s->open[0]];
    for (int64_t i = 0; i < s->n_open; i++) {
        const struct span *span = &s->spans[s->open[i]];

        n += span->grant->sent_us > excused_us;
        if (span->from_us < (*first)->from_us)
            *first = span;
    }
    return n;
}

static bool is_open(const struct slots *s, const struct grant *g)
{
    for (int64_t i = 0; i < s->n_open; i++)
        if (s->spans[s->open[i]].grant == g)
            return true;
    return false;
}

/* All slots are taken: so whoever had one before, and has not come again, has none any more. Unless
 * one of those who have them was granted it before the last step of the clock: its slot may be
 * another's. */
static void end_past(const struct book *b, struct slots *s, const struct span *late)
{
    const struct span *first;

    if (count_new(b, s, late->told->return_us, &first) < s->n_open)
        return;
    for (int64_t i = 0; i < s->n_past; i++) {
        struct grant *g = s->past[i];

        if (late->told->return_us < g->over_us && !is_open(s, g) &&
            excused_until(b, late->told->return_us) < g->sent_us) {
            g->over_us = late->told->return_us;
            g->over = late->told;
        }
    }
    s->n_past = 0;
}

static void judge_slots(struct book *b, struct slots *s, const struct span *late)
{
    int64_t slots = kind_of(b, late->grant->name).slots;
    const struct span *first;

    if (s->n_open == slots)
        end_past(b, s, late);
    if (s->n_open <= slots)
        return;
    if (count_new(b, s, late->from_us, &first) > slots)
        breach(b, RULE_SLOTS, first->told, late->told,
               "%" PRId64 " held it with token %" PRId64 ", and it has %" PRId64 " slots",
               s->n_open, late->grant->token, slots);
    else if (fault_between(&b->clock, first->grant->sent_us, late->from_us))
        b->out->clock_overlaps++;
    else
        b->out->lost_overlaps++;
}

static void open_span(struct book *b, struct slots *s, int64_t span)
{
    s->open[s->n_open++] = span;
    judge_slots(b, s, &s->spans[span]);
}

static void close_span(struct slots *s, int64_t span)
{
    int64_t at = 0;

    while (s->open[at] != span)
        at++;
    s->open[at] = s->open[--s->n_open];
    s->past[s->n_past++] = s->spans[span].grant;
}

/* The spans of one name, on one server. */
static void sweep_name(struct book *b, struct slots *s, int64_t from, int64_t to)
{
    int64_t n = 0;

    for (int64_t i = from; i < to; i++) {
        s->turns[n++] = (struct turn){s->spans[i].from_us, true, i};
        s->turns[n++] = (struct turn){s->spans[i].to_us, false, i};
    }
    qsort(s->turns, (size_t)n, sizeof *s->turns, by_time);
    s->n_open = s->n_past = 0;
    for (int64_t i = 0; i < n; i++)
        if (s->turns[i].begins)
            open_span(b, s, s->turns[i].span);
        else
            close_span(s, s->turns[i].span);
}

/* Behind the spans that it has already. */
static void add_span(const struct book *b, struct slots *s, struct grant *g,
                     const struct event *told, int64_t from_us, int64_t to_us)
{
    int64_t *kept_us = &s->kept_us[g - b->grants];

    if (from_us < *kept_us)
        from_us = *kept_us;
    if (to_us <= from_us)
        return;
    s->spans[s->n_spans++] = (struct span){g, told, from_us, to_us};
    *kept_us = to_us;
}

/* A larger token that anybody was told of before its own holder was tells that it was granted. */
static void add_grant(const struct book *b, struct slots *s, struct grant *g)
{
    int64_t from_us = g->start_us;

    if (g->next && g->next->return_us < from_us && g->next->return_us >= g->sent_us)
        from_us = g->next->return_us;
    add_span(b, s, g, g->told, from_us, g->end_us);
}

/* A guard that came when the lease was over found it in its slot, and kept it there. */
static void add_guard(const struct book *b, struct slots *s, struct grant *g, const struct event *e)
{
    if (event_ok(e) && e->verb == V_GUARDED)
        add_span(b, s, g, e, e->invoke_us, e->deadline_us);
}

/* Servers that live at the same time each have slots of their own. */
static int by_place(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return order(x->grant->name, y->grant->name) ?: order(x->grant->side, y->grant->side);
}

static void collect_spans(struct book *b, struct slots *s)
{
    for (int64_t i = 0; i < b->n_grants; i++)
        if (kind_of(b, b->grants[i].name).slots > 1)
            add_grant(b, s, &b->grants[i]);
    for (int64_t i = 0; i < b->n; i++)
        if (b->grant_of[i] && kind_of(b, b->grant_of[i]->name).slots > 1)
            add_guard(b, s, b->grant_of[i], &b->events[i]);
    qsort(s->spans, (size_t)s->n_spans, sizeof *s->spans, by_place);
}

void check_slots(struct book *b)
{
    int64_t room = b->n_grants + b->n, from = 0;
    struct slots s = {.spans = book_new(b, room, sizeof *s.spans),
                      .turns = book_new(b, 2 * room, sizeof *s.turns),
                      .open = book_new(b, room, sizeof *s.open),
                      .past = book_new(b, room, sizeof(struct grant *)),
                      .kept_us = book_new(b, room, sizeof *s.kept_us)};

    collect_spans(b, &s);
    for (int64_t i = 1; i <= s.n_spans; i++)
        if (i == s.n_spans || by_place(&s.spans[i], &s.spans[from]) != 0) {
            sweep_name(b, &s, from, i);
            from = i;
        }
}
