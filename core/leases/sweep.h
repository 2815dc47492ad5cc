#ifndef SQLOCK_LEASES_SWEEP_H
#define SQLOCK_LEASES_SWEEP_H

#include <sqlock/admin.h>

#include "core/engine/op.h"

/* What to do next with the page that was read last, in this order. */
enum todo { TODO_REAP, TODO_DRAIN, TODO_PRUNE, TODO_NEXT_PAGE };

/* A walk over the table. */
struct sweep {
    sqlock_reap_opts o;
    sqlock_reap_report r;
    int64_t until;    /* by our clock: start nothing after that */
    int64_t answered; /* when the database last answered */
    sqlock_rows *page, *changed;
    sqlock_value *keys;   /* namespace and name of each row of a statement; bytes of the page */
    sqlock_value *prunes; /* all values of a statement that prunes */
    size_t sent;          /* rows of the statement under way */
    enum todo todo;
    size_t from, to;  /* rows of the page: where this statement begins and ends */
    size_t size;      /* rows for a statement, by the time that the last ones took */
    int last;         /* the page was the last one */
    int64_t page_now; /* the server's clock, read once for each page: ages are counted by it */
    char ns[SQLOCK_NAMESPACE_MAX], name[SQLOCK_NAME_MAX]; /* the next page begins after them */
    size_t ns_len, name_len;
};

/* Prepare the walk. Its options are set and checked. Free it, whatever this returns. */
int sweep_init(struct sweep *s, sqlock_error *err);
void sweep_free(struct sweep *s);
/* Walk from the first row to the last, or to a limit. lock is the reaper's own lease. It must be
 * held, except in a dry run. s->r is filled, whatever this returns. */
int sweep_run(sqlock *m, struct sweep *s, sqlock_lock *lock, sqlock_error *err);

#endif
