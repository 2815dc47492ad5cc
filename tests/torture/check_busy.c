/* Who was told that a lock is busy was told by whom, and until when at the latest (P9). That is
 * what the row said, while the holder goes by what it was told itself: so each refusal looks at a
 * grant from the other side. It must be one that had not ended; and the row must not end before its
 * holder stops believing (P4), which is seen here without anybody who comes in too early. */
#include <inttypes.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

/* An answer that tells of a larger token than that of a grant of which nobody else tells, and of
 * one that ended it; or NULL. */
static const struct event *told_above(const struct book *b, const struct event *e)
{
    int64_t i = book_at(b, e->name, e->token);
    const struct grant *g = i < b->n_grants ? &b->grants[i] : NULL;

    if (!g || g->name != e->name || kind_of(b, e->name).slots > 1)
        return NULL;
    if (g->shared)
        return g->rival;
    return g->next && g->next->return_us < g->start_us ? g->next : g->told;
}

/* InnoDB shows a commit to others before it is on the disk. A server that is killed in between
 * knows nothing of it when it is back, nor does the client, whose answer waited for the disk; and
 * the token is granted to another. */
static bool was_forgotten(const struct book *b, const struct grant *g, const struct event *e)
{
    return fault_between(&b->hurt, e->invoke_us, g->asked_us);
}

static void judge_holder(struct book *b, const struct grant *g, const struct event *e)
{
    const struct event *above = g ? NULL : told_above(b, e);

    if (above && side_of(b, above->process) != side_of(b, e->process))
        above = NULL; /* the servers do not know of each other's grants */
    if (g && g->over_us < e->invoke_us && !forgotten_between(b, g->over, e->return_us))
        breach(b, RULE_BUSY, g->over, e, "busy with token %" PRId64 ", which had ended", e->token);
    else if (above && above->return_us < e->invoke_us && !forgotten_between(b, above, e->return_us))
        breach(b, RULE_BUSY, above, e,
               "busy with token %" PRId64 ", when %" PRId64 " had been granted", e->token,
               above->token);
    else if (g && g->asked_us > e->return_us && !was_forgotten(b, g, e))
        breach(b, RULE_BUSY, e, g->told, "busy with token %" PRId64 ", which nobody had asked for",
               e->token);
}

void judge_busy(struct book *b, const struct grant *g, const struct event *e, int64_t deadline_us)
{
    if (e->token == 0)
        return;
    judge_holder(b, g, e);
    if (g && e->deadline_us > 0 && deadline_us > e->deadline_us &&
        !fault_between(&b->clock, g->asked_us, e->return_us) &&
        !fault_between(&b->lost, g->asked_us, e->return_us))
        breach(b, RULE_ROW, g->told, e,
               "token %" PRId64 " was good until %" PRId64
               ", said its holder, and the row ended %" PRId64 " us before that",
               g->token, deadline_us, deadline_us - e->deadline_us);
}
