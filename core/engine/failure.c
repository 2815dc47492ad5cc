/* What follows when a request of an op has failed: another one, or the op's end. */
#include <assert.h>
#include <string.h>

#include "core/engine/locks.h"
#include "core/engine/op.h"

#define SERIALIZATION_FAILURE "40001" /* SQLSTATE */

int op_unsure(sqlock_op *op)
{
    return op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE, "the reply was lost: %.200s",
                        error_text(&op->err));
}

void op_unknown_kind(sqlock_op *op)
{
    op_done(op, op_error_set(op, SQLOCK_ESCHEMA, 0,
                             "the name's row is of a kind that this version does not know"));
}

/* No server can be reached, or none of several can be written to. */
static int op_is_unreachable(const sqlock_op *op)
{
    return op->err.code == SQLOCK_EUNREACH ||
           (op->err.code == SQLOCK_EREADONLY && (op->err.flags & SQLOCK_RETRY));
}

/* Another attempt can help. A broken connection is opened again even for a request that does not
 * wait. Only a request that waits also waits for a server that cannot be reached. */
static int op_is_worth_again(const sqlock_op *op)
{
    if (op->err.code == SQLOCK_ECANCELLED)
        return 1; /* this was an earlier call's cancel, which came late */
    if (!(op->err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)))
        return 0;
    if (op_is_unreachable(op))
        return !op->once || op->tries == 1 || op->stale || op->unsure;
    return op->err.code == SQLOCK_EDB || op->err.code == SQLOCK_EGUARDED ||
           op->err.code == SQLOCK_ETIMEOUT;
}

static int op_was_not_sent(const sqlock_op *op, int64_t now)
{
    if (op->err.flags & SQLOCK_MAYBE)
        return 0;
    return op->err.code == SQLOCK_ETIMEOUT ||
           (op_is_unreachable(op) &&
            (op->stale || now >= op_last_try(op))); /* opening took too long */
}

/* A locked row or file is tried again as long as there is time. A holder that an earlier answer
 * showed still has the lock until the end of its lease. Otherwise an unknown transaction is in the
 * way. Only where a guard locks the whole file may that be one: a server shows guards to those who
 * look. */
static void op_note_locked(sqlock_op *op, int64_t now)
{
    const int one_writer = manager_has_one_writer(op->m);

    if (!error_contention(&op->err.code, op->err.sqlstate, one_writer))
        return;
    if ((op->err.flags & SQLOCK_MAYBE) || op->unsure || !(one_writer || op->verb->finds_busy))
        return;
    if (op->refused == SQLOCK_EBUSY && now < op->held_until)
        return;
    if (op->refused == SQLOCK_EGUARDED && !one_writer)
        return; /* a look has shown the guard */
    op_note_no_holder(op, 0);
    error_share(&op->refusal, &op->err);
    if (!one_writer)
        op->refusal.code = SQLOCK_EBUSY;
    op->refused = op->refusal.code;
}

void op_failed(sqlock_op *op, int64_t now)
{
    assert(op->err.code != 0); /* otherwise it would end as a success */
    op_note_locked(op, now);
    /* Either time ran out before the attempt was sent, or its connection had died in the pool, or a
     * server's row stayed locked. The refusal before it stands (P18). It is tried again while there
     * is time. */
    if (op->refused && op_was_not_sent(op, now)) {
        int died = op_is_unreachable(op);

        assert(op->refusal.code == op->refused);
        error_share(&op->err, &op->refusal);
        op_again(op, now >= op_last_try(op) ? op->deadline : died ? now : now + op_pause(op));
        return;
    }
    if (op->err.code != SQLOCK_EGUARDED)
        op->refused = 0;
    if (op->err.flags & SQLOCK_MAYBE)
        op->unsure = 1;
    /* On sessions that sqlock set up, this failure means a lost race. A pooler's session may have
     * got another isolation level since its handshake. A new handshake refuses it, instead of many
     * retries. */
    if ((op->m->flags & SQLOCK_OPEN_UNPREPARED) &&
        strcmp(op->err.sqlstate, SERIALIZATION_FAILURE) == 0)
        op->needs_handshake = 1;
    if (op_is_over(op, now))
        return; /* op_end_if_over() says how it ends */
    if (!op_is_worth_again(op)) {
        op_done(op, op->unsure ? op_unsure(op) : op->err.code);
        return;
    }
    op_again(op, now + (op->tries == 1 ? 0 : op_pause(op)));
}
