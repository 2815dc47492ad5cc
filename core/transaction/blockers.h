#ifndef SQLOCK_TRANSACTION_BLOCKERS_H
#define SQLOCK_TRANSACTION_BLOCKERS_H

#include "core/engine/op.h"
#include "core/transaction/table.h"

/* Which session keeps a call on the application's connection from its rows. The look is made on the
 * manager's connections (P9, P14). Failures of it are not reported. */
struct blockers {
    sqlock_conn *conn; /* NULL: no caller wants to know, or the server cannot say */
    int64_t session;   /* the server's number for the connection; 0: not known yet */
    sqlock_rows *rows;
    int64_t pause;     /* until the next look */
    sqlock_lock *lock; /* handle of the worker's looks; NULL: there are none */
    sqlock_op *op;
};

/* Looks who is in the way, again and again. op->work: a struct blockers */
extern const struct verb blockers_verb;

/* The call begins. No blocker is known. */
void blockers_begin(struct blockers *b, sqlock_conn *c);
/* It is about to wait for a row. The worker looks until blockers_rest(). */
void blockers_watch(struct blockers *b);
void blockers_rest(struct blockers *b);
/* It does not wait, and did not get a row of the table: look once. */
void blockers_look(struct blockers *b, const struct table *t);
/* The call has ended. out belongs to the caller, and is cleared unless it is wanted. */
void blockers_end(struct blockers *b, int wanted, sqlock_blocker *out);

#endif
