#ifndef SQLOCK_ENGINE_PARTY_H
#define SQLOCK_ENGINE_PARTY_H

#include "core/engine/op.h"

/* A party: ops of one call, of which one goes ahead and waits for its lock. The others have not
 * begun: they send nothing, and so hold nothing while it waits. They begin when its next request
 * will most likely be granted (SQLOCK_CALL_LIKELY), so that all go out as one. Or when it has its
 * lock in another way. If it ends without it before that, they end unsent.
 *
 * Once they have begun, a refusal is the answer to the one ahead, and it has request_ms left: it
 * would wait while the others hold their locks. m->mu is held in all of these. */
struct party {
    sqlock_op *ahead;
    struct link behind; /* sqlock_op.in_party: those that have not begun */
    int apart;          /* they begin behind its grant only */
    int begun;
    int64_t wait;     /* each waits for so long, and for an answer, once it has begun, */
    int64_t deadline; /* but no longer than until then. TIME_NEVER: there is no such end */
    int64_t until;    /* the end of one that has no time left to wait */
};

/* op goes ahead. It was started, and is not driven yet. */
void party_lead(struct party *c, sqlock_op *op);
/* op begins behind that one. The same. */
void party_follow(struct party *c, sqlock_op *op);
/* op may be ahead of others that have not begun: it sends its request; it is done. */
void party_sends(sqlock_op *op, int64_t now);
void party_ends(sqlock_op *op);

/* Its offer is to be taken up together with others. */
static inline int party_takes_along(const sqlock_op *op)
{
    return op->party != NULL && !op->party->apart;
}

/* Others began with it, and may hold their locks. */
static inline int party_has_begun(const sqlock_op *op)
{
    return op->party != NULL && op->party->begun;
}

#endif
