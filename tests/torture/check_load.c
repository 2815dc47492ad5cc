/* Whether locks are granted again when all faults are over, and whether enough was done. */
#include <inttypes.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

/* ---- after the last fault -------------------------------------------------------------------- */

/* A name after the last fault. */
struct later {
    int64_t from_us;            /* asked for, or given up by who held it all the time; NEVER: not */
    int64_t granted_us;         /* the first grant after the last fault; NEVER: none */
    int64_t sent_us;            /* of those grants, the first to be asked for; NEVER */
    const struct event *waited; /* an answer, or none, that should have been yes */
};

static int64_t end_of_history(const struct book *b)
{
    int64_t end_us = 0;

    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        int64_t last = event_returned(e) ? e->return_us : e->invoke_us;

        if (e->verb != V_FAULT && last > end_us)
            end_us = last;
    }
    return end_us;
}

static bool grants(const struct book *b, const struct event *e)
{
    const struct grant *g = b->grant_of[e - b->events];

    return g && g->told == e;
}

/* Who held it when the last fault was over, and has gone on using it, keeps it with every right. */
static bool keeps(const struct book *b, const struct event *e, int64_t healed_us)
{
    const struct grant *g = b->grant_of[e - b->events];

    return g && g->start_us <= healed_us && event_ok(e) && e->return_us > healed_us;
}

static void note_later(const struct book *b, const struct event *e, int64_t healed_us,
                       struct later *l)
{
    bool asks = event_acquires(e) && (!event_returned(e) || e->return_us > healed_us);

    if (keeps(b, e, healed_us) && (l->from_us == NEVER || e->return_us > l->from_us))
        l->from_us = e->return_us;
    if (asks && l->from_us == NEVER)
        l->from_us = e->invoke_us > healed_us ? e->invoke_us : healed_us;
    if (!grants(b, e) || e->return_us <= healed_us)
        return;
    if (e->return_us < l->granted_us)
        l->granted_us = e->return_us;
    if (b->grant_of[e - b->events]->sent_us < l->sent_us)
        l->sent_us = b->grant_of[e - b->events]->sent_us;
}

static int64_t due_us(const struct book *b, const struct later *l)
{
    return l->from_us + ((int64_t)b->rules->lease_ms + b->rules->slack_ms) * 1000;
}

/* Whether this ask had a right to a yes. It was refused when all leases of before had run out, and
 * nobody who was granted it had asked yet; or it had waited long enough when the grant was due. A
 * name for which nobody asked for so long proves nothing, nor does a history that ends earlier. */
static void note_waited(const struct book *b, const struct event *e, int64_t healed_us,
                        int64_t end_us, struct later *l)
{
    int64_t slack_us = (int64_t)b->rules->slack_ms * 1000;
    bool refused, waited;

    if (!event_acquires(e) || l->from_us == NEVER || l->granted_us <= due_us(b, l) ||
        end_us <= due_us(b, l) || e->invoke_us < healed_us)
        return;
    refused = event_returned(e) && e->outcome != 0 && e->return_us > due_us(b, l) &&
              e->return_us < l->sent_us;
    waited = e->invoke_us <= due_us(b, l) - slack_us &&
             (!event_returned(e) || e->return_us > due_us(b, l));
    if (!l->waited && (refused || waited))
        l->waited = e;
}

static void judge_later(struct book *b, const struct later *l)
{
    b->out->judged += l->granted_us != NEVER;
    if (l->waited)
        breach(b, RULE_LIVENESS, l->waited, NULL, "asked for, and not granted in time");
}

void check_liveness(struct book *b)
{
    int64_t healed_us = b->all.n ? b->all.times[b->all.n - 1].healed_us : NEVER;
    int64_t end_us = end_of_history(b), names = 0;
    struct later *later;

    if (healed_us == NEVER)
        return;
    for (int64_t i = 0; i < b->n; i++)
        if (event_acquires(&b->events[i]) && b->events[i].name >= names)
            names = (int64_t)b->events[i].name + 1;
    later = book_new(b, names, sizeof *later);
    for (int64_t name = 0; name < names; name++)
        later[name] = (struct later){NEVER, NEVER, NEVER, NULL};
    for (int64_t i = 0; i < b->n; i++)
        if (b->events[i].verb != V_FAULT && b->events[i].name < names)
            note_later(b, &b->events[i], healed_us, &later[b->events[i].name]);
    for (int64_t i = 0; i < b->n; i++)
        if (event_acquires(&b->events[i]))
            note_waited(b, &b->events[i], healed_us, end_us, &later[b->events[i].name]);
    for (int64_t name = 0; name < names; name++)
        judge_later(b, &later[name]);
}

/* ---- what was done --------------------------------------------------------------------------- */

static bool is_operation(const struct event *e)
{
    return e->verb != V_HELD && e->verb != V_BEAT && e->verb != V_PLACE && e->verb != V_LEASE &&
           e->verb != V_SLOTS && e->verb != V_SIDE && e->verb != V_RUN && e->verb != V_FAULT;
}

static bool opens_question(const struct event *e)
{
    return event_returned(e) && e->outcome == SQLOCK_EUNSURE &&
           (event_acquires(e) || e->verb == V_RELEASE);
}

/* Acquires and releases whose replies were lost, until their thread is told what became of them: a
 * release that is asked for again, and is unsure again, is the same question. Commits are counted
 * where the rows are checked. */
static void count_settled(struct book *b)
{
    const struct event *open = NULL;

    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = b->by_thread[i], *last = i > 0 ? b->by_thread[i - 1] : e;

        if (e->process != last->process || e->thread != last->thread || event_acquires(e))
            open = NULL;
        if (!open && opens_question(e)) {
            b->out->unsure++;
            open = e;
        } else if (open && e->name == open->name && event_settles(e)) {
            b->out->settled++;
            open = NULL;
        }
    }
}

/* Who was stopped when it held a grant, and went on when that had ended. */
static int64_t count_frozen(const struct book *b)
{
    int64_t n = 0;

    for (int i = 0; i < b->rules->n_freezes; i++) {
        const struct check_freeze *f = &b->rules->freezes[i];

        for (const struct grant *g = b->grants; g < b->grants + b->n_grants; g++)
            n += g->told->process == f->process && g->start_us <= f->from_us &&
                 g->end_us > f->from_us && g->deadline_us < f->to_us;
    }
    return n;
}

static void measure_rate(struct book *b)
{
    int64_t from_us = b->n ? b->events[0].invoke_us : 0;
    int64_t to_us = b->all.n ? b->all.times[0].begin_us : end_of_history(b);
    int64_t n = 0;

    for (int64_t i = 0; i < b->n_grants; i++)
        n += b->grants[i].start_us <= to_us;
    if (to_us - from_us >= 1000)
        b->out->rate = n * 1000000 / (to_us - from_us);
}

void check_load(struct book *b)
{
    const struct check_rules *r = b->rules;
    struct check_verdict *v = b->out;

    for (int64_t i = 0; i < b->n; i++)
        v->operations += is_operation(&b->events[i]);
    count_settled(b);
    v->grants = b->n_grants;
    v->faults = b->all.n;
    v->frozen = count_frozen(b);
    v->clock_steps = b->clock.n;
    measure_rate(b);
    if (v->rate < r->min_rate)
        breach(b, RULE_LOAD, NULL, NULL,
               "%" PRId64 " grants each second before the first fault, and not %" PRId64, v->rate,
               r->min_rate);
    if (v->grants < r->min_grants)
        breach(b, RULE_LOAD, NULL, NULL, "%" PRId64 " grants, and not %" PRId64, v->grants,
               r->min_grants);
    if (v->faults < r->min_faults)
        breach(b, RULE_LOAD, NULL, NULL, "%" PRId64 " faults, and not %" PRId64, v->faults,
               r->min_faults);
    if (v->faults > 0 && b->all.times[b->all.n - 1].healed_us == NEVER)
        breach(b, RULE_LOAD, NULL, NULL, "a fault was never healed");
    else if (v->faults > 0 && r->min_grants > 0 && v->judged == 0)
        breach(b, RULE_LOAD, NULL, NULL, "nothing was granted after the last fault");
}
