#ifndef SQLOCK_VERBS_VERBS_H
#define SQLOCK_VERBS_VERBS_H

#include "core/engine/op.h"

/* The beginnings of requests, which the blocking calls, settle and the event loop's calls share. */
int acquire_start(sqlock_lock *lock, int32_t wait_ms, sqlock_cancel *cancel, sqlock_op **out_op,
                  sqlock_error *err);
int renew_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err);
int release_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err);

/* The answer is a grant, of an acquire or an import: the end of op, unless it came too late. */
void verb_granted(sqlock_op *op, const struct answer *a);

/* The answer a shows nothing of ours, but a request whose reply was lost may still arrive: look
 * again when it cannot any more, or end as unsure if that is past the op's end. */
void verb_early(sqlock_op *op, const struct answer *a);

/* Why an answer says that the op's lock is lost, or SQLOCK_WHY_NONE. */
sqlock_why verb_denied(sqlock_op *op, const struct answer *a);

/* Before a lease that is longer than any before: let the server know. As op_attempt(). */
int verb_lengthen(sqlock_op *op);

/* The row is locked by somebody's transaction: a few times at once, then after longer and longer
 * pauses. */
void verb_locked(sqlock_op *op);

/* The grant with this token has been given up: does an open transaction still guard it (P11)? No
 * answer is no, and so is that others have been granted the name since. */
int verb_is_guarded(sqlock_op *op, int64_t token);
/* One look for a guard, by SQLOCK_STMT_GUARDED or PROBE; a guard is told when it was seen in each
 * of some looks in a row. As op_attempt(). */
int verb_look(sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values, struct answer *a);

/* A request about a name that is no lock's life. It travels in a handle of its own that nobody
 * sees, which holds the name and an owner drawn for this one request. */
struct named_request {
    const char *verb; /* what errors begin with */
    const char *name;
    void (*advance)(sqlock_op *op);
    void *work; /* op->work */
    int urgent; /* ends a grant: it does not starve behind acquires */
};

/* Check manager and name, and do it in this thread, for request_ms at most. */
int named_request(sqlock *m, const struct named_request *named, sqlock_error *err);

/* Hand a started request to the worker; on failure it is ended, and *out_op is NULL. */
int async_go(sqlock_op *op, sqlock_op **out_op, sqlock_error *err);

#endif
