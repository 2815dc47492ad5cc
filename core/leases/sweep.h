#ifndef SQLOCK_VERBS_SWEEP_H
#define SQLOCK_VERBS_SWEEP_H

#include <sqlock/admin.h>

#include "core/engine/op.h"

/* What to do with the page that was read last, in this order. */
enum todo { TODO_REAP, TODO_PRUNE, TODO_NEXT_PAGE };

/* A sweep over the table. */
struct sweep {
    sqlock_reap_opts o;
    sqlock_reap_report r;
    int64_t until;    /* by our clock: start nothing later */
    int64_t answered; /* when the database last did */
    sqlock_rows *page, *changed;
    sqlock_value *keys; /* of the rows that one statement is about: ns, name; bytes of the page */
    enum todo todo;
    size_t from, to;  /* of the page's rows: what is to be done begins, and this statement ends */
    size_t size;      /* rows that a statement changes, as the last ones went */
    int last;         /* the page was the last one */
    int64_t page_now; /* the server's clock, read once for a page: what is old is old by it */
    char ns[SQLOCK_NAMESPACE_MAX], name[SQLOCK_NAME_MAX]; /* after which the next page begins */
    size_t ns_len, name_len;
};

/* Make it ready to begin; its options are set and have been checked. Free it whatever this returns.
 */
int sweep_init(struct sweep *s, sqlock_error *err);
void sweep_free(struct sweep *s);
/* From the first row to the last, or to a limit. lock is the reaper's own lease, which must be held
 * but for a dry run. s->r is filled whatever this returns. */
int sweep_run(sqlock *m, struct sweep *s, sqlock_lock *lock, sqlock_error *err);

#endif
