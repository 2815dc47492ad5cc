#ifndef SQLOCK_ENGINE_RENEWALS_H
#define SQLOCK_ENGINE_RENEWALS_H

#include "core/engine/call.h"

#define RENEWALS_MAX   500 /* in one request */
#define RENEWAL_VALUES 6

/* Renewals that travel together. */
struct renewal_batch {
    sqlock *m;
    sqlock_lock *locks[RENEWALS_MAX];
    sqlock_value values[RENEWALS_MAX * RENEWAL_VALUES];
    size_t n;
    int64_t first_deadline;
    int64_t sent, server; /* when they were sent, and to which server (sqlock.server) */
};

/* What the answer says of each lock; this only changes values. Who has no row in it was not
 * renewed: it is tried again, and the first of those goes behind the others. */
void renewals_judge(struct renewal_batch *b, const sqlock_rows *rows, int64_t now);

/* m->mu is held in all of these, and released during a request. */

/* When this lock's next renewal is due. TIME_NEVER: none is. */
int64_t renewals_lock_due(const sqlock_lock *lock);
/* The same for all locks. */
int64_t renewals_due(const sqlock *m);
/* The time until the first deadline of the leases that are renewed. TIME_NEVER: there is none. */
int64_t renewals_left(const sqlock *m, int64_t now);
/* This lock is to be renewed then. Until the reserved connection is open, renewals use an idle
 * connection of the calls. */
void renewals_reserve(sqlock *m, const sqlock_lock *lock, int64_t renewal);
/* When to open the reserved connection, for the first time or again. TIME_NEVER: not. */
int64_t renewals_mend_due(sqlock *m);
void renewals_mend(sqlock *m);
/* Renew all that is due, in one statement. */
void renewals_run(sqlock *m);

#endif
