/* Breaks a lock: ends a grant by its token, whoever holds it. */
#include <string.h>

#include <sqlock/admin.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/calling.h"
#include "core/leases/leases.h"
#include "core/sql/texts.h"

/* What comes next. An older schema has no place for a note, and an older driver has no request for
 * it. They can break a lock all the same (P20). */
enum break_phase {
    BREAK_NOTED,
    BREAK_PLAIN,
    BREAK_NEXT,   /* who waits for the lock? */
    BREAK_NOTIFY, /* another client's waiter should look */
    BREAK_PROBE   /* does a guard still stand? */
};

static int64_t break_token(const sqlock_op *op)
{
    return *(const int64_t *)op->work;
}

static int break_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    (void)now;
    if (op->phase == BREAK_NEXT)
        return calling_send_look(op);
    if (op->phase == BREAK_NOTIFY)
        return calling_send(op);
    if (op->phase == BREAK_PROBE)
        return verb_send_probe(op, break_token(op));
    if (texts_has(op->m->texts, SQLOCK_STMT_BREAK_NOTED, NULL) != 0)
        op->phase = BREAK_PLAIN;
    return OP_SEND(op, op->phase == BREAK_NOTED ? SQLOCK_STMT_BREAK_NOTED : SQLOCK_STMT_BREAK,
                   value_bytes(lock->ns, lock->ns_len), value_bytes(lock->name, lock->key_len),
                   value_int(break_token(op)));
}

static void break_end(sqlock_op *op)
{
    if (verb_may_be_guarded(op))
        op->phase = BREAK_PROBE;
    else
        op_done(op, 0);
}

static void break_done(sqlock_op *op)
{
    op->succeeded = 1; /* whatever becomes of the call */
    if (calling_can(op))
        op->phase = BREAK_NEXT;
    else
        break_end(op);
}

/* There was no grant to break. After a lost reply we may have broken it ourselves: the row or the
 * note shows it. Only an older schema has no notes, and there a later grant may have ended
 * since. */
static void break_found_none(sqlock_op *op, const struct answer *a)
{
    long long token = break_token(op);

    if (op->unsure && a->outcome == SQLOCK_OUT_BROKEN)
        break_done(op);
    else if (op->unsure && (a->outcome == SQLOCK_OUT_TAKEN || a->outcome == SQLOCK_OUT_NONE))
        op_done(op, op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                 "the reply was lost; the grant with token %lld has ended, by "
                                 "this request or otherwise",
                                 token));
    else
        op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "no grant with token %lld", token));
}

static void break_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (op->phase == BREAK_PROBE) {
        verb_probed(op, a, "broken; no one else gets it until the transaction that guards it ends");
        return;
    }
    if (op->phase == BREAK_NEXT && calling_found(op, a, now)) {
        op->phase = BREAK_NOTIFY;
        return;
    }
    if (op->phase == BREAK_NEXT || op->phase == BREAK_NOTIFY) {
        break_end(op);
        return;
    }
    op->phase = BREAK_NOTED;
    if (a->outcome == SQLOCK_OUT_DONE)
        break_done(op);
    else if (a->outcome == SQLOCK_OUT_KIND)
        op_unknown_kind(op);
    else if (a->outcome == SQLOCK_OUT_SKIPPED)
        op_retry_at_once(op, now); /* the row changed while we looked */
    else
        break_found_none(op, a);
}

static void break_failed(sqlock_op *op, int64_t now)
{
    int noted = op->phase == BREAK_NOTED;

    if (op->phase == BREAK_PROBE) {
        op_done(op, 0);
        return;
    }
    if (op->phase == BREAK_NEXT || op->phase == BREAK_NOTIFY) {
        break_end(op);
        return;
    }
    op->phase = BREAK_NOTED;
    if (noted && op->err.code == SQLOCK_ESCHEMA) {
        /* MariaDB: the lock was broken, and then the table of notes was dropped before the same
         * packet read it. */
        if (op->err.flags & SQLOCK_MAYBE)
            op->unsure = 1;
        op->phase = BREAK_PLAIN;
        return;
    }
    op_failed(op, now);
}

const struct verb break_verb = {break_next, break_answered, break_failed, 0, NULL};

/* The lock's own row has no grant with this token, or had one (rc). In both cases a seat may have
 * one: its holder keeps the turn, with the token of the seat, until it is passed on. */
static int break_seat(sqlock *m, struct named_request *request, int64_t token, int rc,
                      sqlock_error *err)
{
    sqlock_error found = {0};
    int seated = named_seat(m, request->name, token, request->until, &request->seat, &found);

    if (seated == 0 && request->seat < 0)
        return rc;
    if (seated == 0)
        seated = named_request(m, request, &found);
    if (rc == SQLOCK_ELOST || seated == SQLOCK_EGUARDED)
        return seated == 0 ? 0 : error_give(err, &found);
    if (seated == 0 || seated == SQLOCK_ELOST) /* its holder has released it since */
        return rc;
    return sqlock_error_set(err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                            "broken, or the turn that its holder kept was: send it again: %.200s",
                            found.text);
}

int sqlock_break(sqlock *m, const char *name, int64_t token, sqlock_error *err)
{
    UNCANCELLED;
    struct named_request request = {"break", name, &break_verb, &token, 1, -1, 0};
    sqlock_error said = {0};
    size_t name_len;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_name(name, &name_len, err)) != 0 ||
        (rc = check_token(token, err)) != 0)
        return rc;
    request.until = sqlock_now_us() + m->request_us; /* for all that it takes */
    rc = named_request(m, &request, &said);
    /* To be tried again: the file was locked, and nothing is broken. */
    if ((rc == 0 || (rc == SQLOCK_EGUARDED && !(said.flags & SQLOCK_RETRY)) ||
         rc == SQLOCK_ELOST) &&
        texts_has(m->texts, SQLOCK_STMT_SEAT, NULL) == 0)
        rc = break_seat(m, &request, token, rc, &said);
    return rc == 0 ? 0 : error_give(err, &said);
}
