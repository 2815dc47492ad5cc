#ifndef SQLOCK_ENGINE_GUEST_H
#define SQLOCK_ENGINE_GUEST_H

#include <stdatomic.h>

#include <sqlock/rows.h>
#include <sqlock/transaction.h>

#include "core/engine/call.h"

/* A connection of the application's, which the library has adopted (P14). One thread at a time
 * uses it, as the application does; so it has no mutex. */
struct sqlock_conn {
    sqlock *m;
    void *native; /* the driver's: it borrows the application's connection */
    int64_t process;
    const struct texts *texts; /* the manager's, or its own */
    struct texts *own_texts;
    struct known *known;             /* of the application's tables: table.c */
    struct cancel_listener listener; /* the call that is under way, by a cancel object */
    atomic_int cancelled;
    sqlock_blocker
        blocker; /* of the call that is under way, or was last; under the manager's mutex */
};

/* 0 when a statement can be sent: this process's, its manager open, a transaction open and fit. */
int adopted_check(const sqlock_conn *c, sqlock_error *err);
/* One statement of the library's own in the application's transaction, with one answer (no row is
 * SQLOCK_OUT_NONE). On failure the code tells what has become of the transaction: SQLOCK_ETXGONE,
 * SQLOCK_ETXRESTART, else it is as it was before. */
int adopted_run(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                struct answer *out, sqlock_error *err);
/* The same with an answer of many rows. err is not NULL. */
int adopted_rows(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                 sqlock_rows *rows, sqlock_error *err);
/* The same with a script that is not one of the dialect's. */
int adopted_script(sqlock_conn *c, const sqlock_script *script, const sqlock_value *values,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err);
/* From here on what is asked ends with SQLOCK_ECANCELLED when cancel, which may be NULL, is fired.
 */
void adopted_listen(sqlock_conn *c, sqlock_cancel *cancel);
int adopted_was_cancelled(sqlock_conn *c, sqlock_error *err); /* 0, or that code */
/* Up to here. What is left of a cancel hits nothing that is asked later. */
void adopted_unlisten(sqlock_conn *c, sqlock_rows *scratch);
/* After a failure: a part of what was asked for is in the transaction already. Returns the code. */
int adopted_half_done(sqlock_error *err);
/* After a failure, or an answer, that was busy, the n-th (from 0): 0 after a short sleep, to ask
 * again; or time is up, SQLOCK_ETIMEOUT. */
int adopted_retry(int n, int64_t deadline, sqlock_error *err);
/* 1: the failure is that somebody else has what was asked for, or had it; it may be asked again. */
int adopted_was_busy(const sqlock_error *err);

#endif
