#ifndef SQLOCK_VERBS_BLOCKERS_H
#define SQLOCK_VERBS_BLOCKERS_H

#include "core/engine/op.h"
#include "core/transaction/table.h"

/* Who keeps a call on the application's connection from its rows, asked on the manager's (P9, P14).
 * Whatever fails here is told to nobody. */
struct blockers {
    sqlock_conn *conn; /* NULL: nobody wants to know, or nobody could tell */
    int64_t session;   /* the connection's, as the server numbers it; 0: not asked yet */
    sqlock_rows *rows;
    int64_t pause;     /* until the next look */
    sqlock_lock *lock; /* what the worker looks by; NULL: it does not */
    sqlock_op *op;
};

/* The call begins: nobody is in its way. */
void blockers_begin(struct blockers *b, sqlock_conn *c);
/* It will wait for a row: the worker looks from now on, until blockers_rest(). */
void blockers_watch(struct blockers *b);
void blockers_rest(struct blockers *b);
/* It was refused a row of the table without a wait: look once. */
void blockers_look(struct blockers *b, const struct table *t);
/* The call has ended. out: the caller's; emptied unless it wants to know. */
void blockers_end(struct blockers *b, int wanted, sqlock_blocker *out);

#endif
