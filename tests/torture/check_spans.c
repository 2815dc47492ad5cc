/* One holder at a time, or those who share, and tokens that rise: P1, P2, P4. */
#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

static bool same_name(const struct book *b, int64_t i)
{
    return i > 0 && b->grants[i - 1].name == b->grants[i].name;
}

static bool same_side(const struct book *b, int64_t i)
{
    return same_name(b, i) && b->grants[i - 1].side == b->grants[i].side;
}

/* The fence: of two servers that live at the same time the one that was promoted later grants the
 * larger tokens, whenever it does so. So the data refuse what the old one's holders write. */
static void check_sides(struct book *b)
{
    const struct grant *top = NULL; /* of the latest server so far */

    for (int64_t i = 0; i < b->n_grants; i++) {
        const struct grant *g = &b->grants[i];

        if (!same_name(b, i))
            top = NULL;
        if (top && (g->side < top->side || (g->side > top->side && g->token == top->token)))
            breach(b, RULE_SIDE, top->told, g->told, "tokens of two servers that live at a time");
        else
            top = g;
    }
}

/* Grants are in the order of their tokens. So the first answer about a larger token (`next`) must
 * not lie before the question for this one. */
void check_tokens(struct book *b)
{
    check_sides(b);
    for (int64_t i = 0; i < b->n_grants; i++) {
        const struct grant *g = &b->grants[i];

        if (g->token <= 0 || g->token > SQLOCK_TOKEN_MAX)
            breach(b, RULE_TOKEN, g->told, NULL, "that is no token");
        if (same_name(b, i) && g[-1].token == g->token)
            breach(b, RULE_TOKEN, g[-1].told, g->told, "one token was granted twice");
        if (g->next && g->next->return_us < g->sent_us)
            breach(b, RULE_TOKEN, g->next, g->told,
                   "the larger one was told before the smaller one was asked for");
    }
}

/* False: the server's clock was stepped in between, or one took over that knows nothing of the
 * early grant, or of its renewal. */
static bool judge_span(struct book *b, const struct grant *early, const struct event *late)
{
    if (late->return_us < early->sent_us)
        return true; /* it was over by then: so the tokens are wrong, which is told already */
    if (fault_between(&b->clock, early->sent_us, late->return_us) ||
        fault_between(&b->regranted, early->sent_us, late->return_us))
        return false;
    breach(b, RULE_OVERLAP, early->told, late, "the first was good for longer than that");
    return true;
}

static void count_excused(struct book *b, const struct grant *early, const struct event *late)
{
    if (fault_between(&b->clock, early->sent_us, late->return_us))
        b->out->clock_overlaps++;
    else
        b->out->lost_overlaps++;
}

/* Of the grants of a name with smaller tokens, and of one mode: whose span ends last; and whose
 * does of those that were asked for after the last step of the clock, or loss of commits. */
struct last {
    const struct grant *of_all, *of_new;
};

static void judge_last(struct book *b, const struct last *l, const struct grant *g)
{
    if (!l->of_all || g->start_us >= l->of_all->end_us || judge_span(b, l->of_all, g->told))
        return;
    count_excused(b, l->of_all, g->told);
    if (l->of_new && g->start_us < l->of_new->end_us)
        judge_span(b, l->of_new, g->told);
}

static const struct grant *later(const struct grant *last, const struct grant *g)
{
    return last && last->end_us >= g->end_us ? last : g;
}

static void note_last(const struct book *b, struct last *l, const struct grant *g)
{
    int64_t stepped_us = faults_healed(&b->clock, g->start_us);
    int64_t lost_us = faults_healed(&b->regranted, g->start_us);
    int64_t excused_us = stepped_us > lost_us ? stepped_us : lost_us;

    if (l->of_new && l->of_new->sent_us <= excused_us)
        l->of_new = NULL;
    l->of_all = later(l->of_all, g);
    if (g->sent_us > excused_us)
        l->of_new = later(l->of_new, g);
}

/* Who tells of an end of this grant is none that is compared with it: it was refused, or shares
 * what was granted after that end. */
static bool is_hearsay(const struct book *b, const struct grant *g)
{
    const struct grant *rival = g->rival ? b->grant_of[g->rival - b->events] : NULL;

    return g->rival && (event_refused(g->rival) || (g->shared && rival && rival->shared));
}

/* A database that has granted the larger token will not grant the smaller one any more, and had not
 * let anybody in before the end of its span. So whoever was told of the larger token before that
 * was let in too early: also if that one's own lease was over when it was told, and also if the
 * answer about the smaller token came after it. This is more than that no two spans meet. And who
 * was only refused is told of a larger token too: of that of somebody who was killed before it
 * knew. What is shared is no end of what is shared. Servers that live at the same time each have
 * holders of their own. */
void check_spans(struct book *b)
{
    struct last exclusive = {NULL, NULL}, shared = {NULL, NULL};

    for (int64_t i = 0; i < b->n_grants; i++) {
        const struct grant *g = &b->grants[i];

        if (kind_of(b, g->name).slots > 1)
            continue;
        if (!same_side(b, i))
            exclusive = shared = (struct last){NULL, NULL};
        judge_last(b, &exclusive, g);
        if (!g->shared)
            judge_last(b, &shared, g);
        if (g->end_us <= g->start_us)
            continue;
        if (is_hearsay(b, g) && g->rival->return_us < g->end_us && !judge_span(b, g, g->rival))
            count_excused(b, g, g->rival);
        note_last(b, g->shared ? &shared : &exclusive, g);
    }
}
