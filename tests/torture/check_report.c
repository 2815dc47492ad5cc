/* What a reader of a violation needs: the rule, how to run it again, and the shortest window. */
#include <inttypes.h>
#include <stdarg.h>

#include "tests/torture/check_parts.h"

#define TOLD_OF_EACH 3  /* violations of a rule that are told; all are counted */
#define WINDOW_LINES 24 /* half of them from the begin of a window, half from its end */

static const char *const texts[] = {
#define CHECK_TEXT(rule, text) text,
    CHECK_RULES(CHECK_TEXT)
#undef CHECK_TEXT
};

const char *check_rule_text(int rule)
{
    return rule >= 0 && rule < RULE_COUNT ? texts[rule] : "?";
}

static bool in_window(const struct event *e, uint32_t name, int64_t from_us, int64_t to_us)
{
    int64_t end = event_returned(e) ? e->return_us : NEVER;

    return e->invoke_us <= to_us && end >= from_us && (e->verb == V_FAULT || e->name == name);
}

/* What began before the window and ended within it belongs to it: so all events are looked at. */
static void report_window(const struct book *b, uint32_t name, int64_t from_us, int64_t to_us)
{
    int64_t total = 0, at = 0;

    for (int64_t i = 0; i < b->n; i++)
        total += in_window(&b->events[i], name, from_us, to_us);
    fprintf(b->say, "  %" PRId64 " us, in which these were asked (and these faults were):\n",
            to_us - from_us);
    for (int64_t i = 0; i < b->n; i++) {
        if (!in_window(&b->events[i], name, from_us, to_us))
            continue;
        at++;
        if (at <= WINDOW_LINES / 2 || at > total - WINDOW_LINES / 2) {
            fprintf(b->say, "    ");
            history_print(b->say, &b->events[i]);
        } else if (at == WINDOW_LINES / 2 + 1) {
            fprintf(b->say, "    ... %" PRId64 " more ...\n", total - WINDOW_LINES);
        }
    }
}

static int64_t end_of(const struct event *e)
{
    return event_returned(e) ? e->return_us : e->invoke_us;
}

/* From the begin of the earlier one to the end of the later one. */
static void report_between(const struct book *b, const struct event *first,
                           const struct event *second)
{
    const struct event *early = first, *late = second ? second : first;
    int64_t to_us;

    if (early->invoke_us > late->invoke_us) {
        early = second;
        late = first;
    }
    to_us = end_of(early) > end_of(late) ? end_of(early) : end_of(late);
    report_window(b, first->name, early->invoke_us, to_us);
}

void breach(struct book *b, int rule, const struct event *first, const struct event *second,
            const char *fmt, ...)
{
    const struct check_rules *r = b->rules;
    va_list ap;

    b->out->violations++;
    if (++b->out->found[rule] > TOLD_OF_EACH || !b->say)
        return;
    fprintf(b->say, "VIOLATION: %s\n  ", check_rule_text(rule));
    if (first)
        fprintf(b->say, "n%" PRIu32 ": ", first->name);
    va_start(ap, fmt);
    vfprintf(b->say, fmt, ap);
    va_end(ap);
    fprintf(b->say, "\n  seed %" PRIu64 ", %s, fault \"%s\", history in %s\n", r->seed,
            r->engine ? r->engine : "an engine", r->fault ? r->fault : "?",
            r->folder ? r->folder : "?");
    if (first)
        report_between(b, first, second);
}

void check_print(const struct check_verdict *v, FILE *say)
{
    if (v->violations == 0)
        fprintf(say, "proved: ");
    else
        fprintf(say, "REFUTED, %" PRId64 " violations: ", v->violations);
    fprintf(say,
            "%" PRId64 " operations, %" PRId64 " grants (%" PRId64
            " each second before the first fault), %" PRId64 " faults, %" PRId64
            " replies lost and %" PRId64 " of them settled, %" PRId64 " guarded writes, %" PRId64
            " late ones refused",
            v->operations, v->grants, v->rate, v->faults, v->unsure, v->settled, v->guarded,
            v->late_refused);
    if (v->places)
        fprintf(say, ", %" PRId64 " places in a queue", v->places);
    if (v->clock_steps)
        fprintf(say, ", %" PRId64 " clock steps with %" PRId64 " overlaps", v->clock_steps,
                v->clock_overlaps);
    if (v->lost_overlaps)
        fprintf(say, ", %" PRId64 " overlaps where commits were lost", v->lost_overlaps);
    fprintf(say, "\n");
    for (int rule = 0; rule < RULE_COUNT; rule++)
        if (v->found[rule])
            fprintf(say, "  %" PRId64 " x %s\n", v->found[rule], check_rule_text(rule));
}

/* ---- all of it, one rule after the other ----------------------------------------------------- */

int check_history(const struct check_rules *rules, const struct event *events, int64_t n,
                  struct check_verdict *out, FILE *say)
{
    struct book b = {.rules = rules, .events = events, .n = n, .out = out, .say = say};

    *out = (struct check_verdict){0};
    book_make(&b);
    check_threads(&b);
    check_tokens(&b);
    check_spans(&b);
    check_claims(&b);
    check_slots(&b);
    check_answers(&b);
    check_rows(&b);
    check_queue(&b);
    check_liveness(&b);
    check_load(&b);
    book_free(&b);
    return out->violations > 0;
}
