/* Who was told that a lock is busy was told by whom, and until when at the latest (P9). That is
 * what the row said, while the holder goes by what it was told itself: so each refusal looks at a
 * grant from the other side. It must be one that had not ended; and the row must not end before its
 * holder stops believing (P4), which is seen here without anybody who comes in too early. */
#include <inttypes.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

/* The first answer about a grant with a larger token, or NULL. */
static const struct event *granted_after(const struct book *b, uint32_t name, int64_t token)
{
    int64_t low = 0, high = b->n_grants;
    const struct grant *g;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        g = &b->grants[middle];
        if (g->name < name || (g->name == name && g->token <= token))
            low = middle + 1;
        else
            high = middle;
    }
    g = low < b->n_grants ? &b->grants[low] : NULL;
    if (!g || g->name != name)
        return NULL;
    return g->next && g->next->return_us < g->start_us ? g->next : g->told;
}

static void judge_holder(struct book *b, const struct grant *g, const struct event *e)
{
    const struct event *next = granted_after(b, e->name, e->token);

    if (g && g->over_us < e->invoke_us)
        breach(b, RULE_BUSY, g->over, e, "busy with token %" PRId64 ", which had ended", e->token);
    else if (next && next->return_us < e->invoke_us)
        breach(b, RULE_BUSY, next, e,
               "busy with token %" PRId64 ", when %" PRId64 " had been granted", e->token,
               next->token);
    else if (g && g->asked_us > e->return_us)
        breach(b, RULE_BUSY, e, g->told, "busy with token %" PRId64 ", which nobody had asked for",
               e->token);
}

void judge_busy(struct book *b, const struct grant *g, const struct event *e, int64_t deadline_us)
{
    if (e->token == 0)
        return;
    judge_holder(b, g, e);
    if (g && e->deadline_us > 0 && deadline_us > e->deadline_us &&
        !fault_between(&b->clock, g->asked_us, e->return_us))
        breach(b, RULE_ROW, g->told, e,
               "token %" PRId64 " was good until %" PRId64
               ", said its holder, and the row ended %" PRId64 " us before that",
               g->token, deadline_us, deadline_us - e->deadline_us);
}
