/* One holder at a time, or those who share, and tokens that rise: P1, P2, P4. */
#include <inttypes.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

static bool same_name(const struct book *b, int64_t i)
{
    return i > 0 && b->grants[i - 1].name == b->grants[i].name;
}

/* Grants are in the order of their tokens. So the first answer about a larger token (`next`) must
 * not lie before the question for this one. */
void check_tokens(struct book *b)
{
    for (int64_t i = 0; i < b->n_grants; i++) {
        const struct grant *g = &b->grants[i];

        if (g->token <= 0 || g->token > SQLOCK_TOKEN_MAX)
            breach(b, RULE_TOKEN, g->told, NULL, "%" PRId64 " is no token", g->token);
        if (same_name(b, i) && g[-1].token == g->token)
            breach(b, RULE_TOKEN, g[-1].told, g->told, "token %" PRId64 " was granted twice",
                   g->token);
        if (g->next && g->next->return_us < g->asked_us)
            breach(b, RULE_TOKEN, g->next, g->told,
                   "token %" PRId64 " was granted, and %" PRId64 " to who asked %" PRId64
                   " us later",
                   g->next->token, g->token, g->asked_us - g->next->return_us);
    }
}

static void judge_span(struct book *b, const struct grant *early, const struct event *late)
{
    if (late->return_us < early->asked_us)
        return; /* it was over by then: so the tokens are wrong, which is told already */
    if (fault_between(&b->clock, early->asked_us, late->return_us)) {
        b->out->clock_overlaps++;
        return;
    }
    breach(b, RULE_OVERLAP, early->told, late,
           "token %" PRId64 " was good until %" PRId64 ", and %" PRId64 " was granted %" PRId64
           " us before that",
           early->token, early->end_us, late->token, early->end_us - late->return_us);
}

/* A database that has granted the larger token will not grant the smaller one any more, and had not
 * let anybody in before the end of its span. So whoever was told of the larger token before that
 * was let in too early: also if that one's own lease was over when it was told, and also if the
 * answer about the smaller token came after it. This is more than that no two spans meet. And who
 * was only refused is told of a larger token too: of that of somebody who was killed before it
 * knew. What is shared is no end of what is shared. */
void check_spans(struct book *b)
{
    /* Of those with smaller tokens, exclusive and shared: whose span ends last. */
    const struct grant *last[2] = {NULL, NULL};

    for (int64_t i = 0; i < b->n_grants; i++) {
        const struct grant *g = &b->grants[i];

        if (kind_of(b, g->name).slots > 1)
            continue;
        if (!same_name(b, i))
            last[false] = last[true] = NULL;
        for (int shared = false; shared <= true; shared++)
            if (last[shared] && !(shared && g->shared) && g->start_us < last[shared]->end_us)
                judge_span(b, last[shared], g->told);
        if (g->end_us <= g->start_us)
            continue;
        if (g->rival && event_refused(g->rival) && g->rival->return_us < g->end_us)
            judge_span(b, g, g->rival);
        if (!last[g->shared] || g->end_us > last[g->shared]->end_us)
            last[g->shared] = g;
    }
}
