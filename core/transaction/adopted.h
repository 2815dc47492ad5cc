#ifndef SQLOCK_TRANSACTION_ADOPTED_H
#define SQLOCK_TRANSACTION_ADOPTED_H

#include <stdatomic.h>

#include <sqlock/rows.h>
#include <sqlock/transaction.h>

#include "core/engine/call.h"

/* A connection of the application that sqlock has adopted (P14). Only one thread at a time uses it,
 * as the application does. So it has no mutex. */
struct sqlock_conn {
    sqlock *m;
    void *native; /* the driver's handle, which borrows the application's connection */
    int64_t process;
    const struct texts *texts; /* own_texts, or the manager's */
    struct texts *own_texts;
    struct known *known;             /* what is known of the application's tables: table.c */
    struct cancel_listener listener; /* a cancel object ends the call that is under way */
    atomic_int cancelled;
    /* What blocks the call under way, or blocked the last one. Under the manager's mutex. */
    sqlock_blocker blocker;
};

/* Beside it, on the manager's own connections. op->work is the lock of handshake_verb. */
extern const struct verb ensure_verb, handshake_verb;

/* 0 if a statement can be sent: the connection is this process's, its manager is open, and a
 * transaction is open and has not failed. */
int adopted_check(const sqlock_conn *c, sqlock_error *err);
/* One statement of sqlock in the application's transaction, with one answer (no row is
 * SQLOCK_OUT_NONE). After a failure the code says what became of the transaction: SQLOCK_ETXGONE,
 * SQLOCK_ETXRESTART, or any other code if it is as before. */
int adopted_run(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                struct answer *out, sqlock_error *err);
/* The same, with an answer of many rows. err is not NULL. */
int adopted_rows(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                 sqlock_rows *rows, sqlock_error *err);
/* The same, with a script that is not in the dialect. */
int adopted_script(sqlock_conn *c, const sqlock_script *script, const sqlock_value *values,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err);
/* From now on requests end with SQLOCK_ECANCELLED when cancel is fired. cancel may be NULL. */
void adopted_listen(sqlock_conn *c, sqlock_cancel *cancel);
int adopted_was_cancelled(sqlock_conn *c, sqlock_error *err); /* 0, or that code */
/* The end of that. What is left of a cancel does not hit later requests. */
void adopted_unlisten(sqlock_conn *c, sqlock_rows *scratch);
/* After a failure: a part of the request is in the transaction already. Returns the code. */
int adopted_half_done(sqlock_error *err);
/* After try n (from 0) met a busy row or file. Returns 0 after a short sleep: try again. Returns
 * SQLOCK_ETIMEOUT if time is up. */
int adopted_retry(int n, int64_t deadline, sqlock_error *err);
/* 1: the failure means that another session has the lock, or had it. Another try may succeed. */
int adopted_was_busy(const sqlock_error *err);

#endif
