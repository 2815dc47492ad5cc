/* Breaking a grant whose holder is dead. */
#include "core/engine/dialect.h"
#include "core/verbs/check.h"
#include "core/verbs/verbs.h"

static void broken(sqlock_op *op)
{
    op_done(op, !verb_is_guarded(op, *(const int64_t *)op->work)
                    ? 0
                    : sqlock_error_set(&op->err, SQLOCK_EGUARDED, 0,
                                       "broken; nobody is granted it before the transaction ends "
                                       "that guards it"));
}

/* It was not there to be broken. After a lost reply that may be our own doing: the row or
 * the note tells, unless an older schema keeps none and a later grant has ended since. */
static void not_there(sqlock_op *op, const struct answer *a)
{
    long long token = *(const int64_t *)op->work;

    if (op->unsure && a->outcome == SQLOCK_OUT_BROKEN)
        broken(op);
    else if (op->unsure && (a->outcome == SQLOCK_OUT_TAKEN || a->outcome == SQLOCK_OUT_NONE))
        op_done(op, sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                     "the reply was lost, and the grant with token %lld has ended, "
                                     "by this or otherwise",
                                     token));
    else
        op_done(op, sqlock_error_set(&op->err, SQLOCK_ELOST, 0, "there is no grant with token %lld",
                                     token));
}

/* An older schema has no place for a note, and an older driver does not know of it; they can break
 * all the same (P20). */
static int ask(sqlock_op *op, const sqlock_value *values, struct answer *a)
{
    int rc = SQLOCK_ESCHEMA;

    if (rendered_has(op->m->texts, SQLOCK_STMT_BREAK_NOTED, NULL) == 0)
        rc = op_attempt(op, SQLOCK_STMT_BREAK_NOTED, values, a);
    /* MariaDB: it was broken, and somebody dropped the notes before the packet's look at them. */
    if (rc == SQLOCK_ESCHEMA && (op->err.flags & SQLOCK_MAYBE))
        op->unsure = 1;
    return rc == SQLOCK_ESCHEMA ? op_attempt(op, SQLOCK_STMT_BREAK, values, a) : rc;
}

static void advance(sqlock_op *op)
{
    sqlock_value values[] = {
        value_bytes(op->lock->ns, op->lock->ns_len),
        value_bytes(op->lock->name, op->lock->name_len),
        value_int(*(const int64_t *)op->work),
    };
    struct answer a;

    if (ask(op, values, &a) != 0)
        op_failed(op);
    else if (a.outcome == SQLOCK_OUT_DONE)
        broken(op);
    else if (a.outcome == SQLOCK_OUT_KIND)
        op_unknown_kind(op);
    else if (a.outcome == SQLOCK_OUT_SKIPPED)
        op_hurry(op); /* the row changed while we looked */
    else
        not_there(op, &a);
}

int sqlock_break(sqlock *m, const char *name, size_t name_len, int64_t token, sqlock_error *err)
{
    UNCANCELLED;
    struct asked asked = {"break", name, name_len, advance, &token, 1};
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_name(name, &name_len, err)) != 0 ||
        (rc = check_token(token, err)) != 0)
        return rc;
    return verb_ask(m, &asked, err);
}
