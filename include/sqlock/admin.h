/* Administration: list locks, break those of dead holders, and clean the table up. */
#ifndef SQLOCK_ADMIN_H
#define SQLOCK_ADMIN_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- seeing and breaking ---------------------------------------------------------------------- */

typedef struct sqlock_info {
    uint32_t size;
    const char *name; /* ends with NUL; name_len bytes */
    size_t name_len;
    int held; /* 1: an owner is in the row (left_ms <= 0: its lease has run out); 0: free, or held by those
                 who share it or have its slots, whose rows sqlock_list() shows */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    sqlock_holder holder; /* token: of the last grant, also when free */
    int64_t slot; /* -1: the lock's own row; else the slot, or place among shared holders, that this is */
    int64_t mode; /* SQLOCK_EXCLUSIVE, SQLOCK_SHARED or the number of slots: as the lock was used last */
    int64_t holders; /* by sqlock_find(): how many hold it now, of any mode; by sqlock_list(): 0 */
} sqlock_info;

/* Return 0 to go on, anything else to stop. info and what it points to live during the call. */
typedef int (*sqlock_list_fn)(const sqlock_info *info, void *user);

#define SQLOCK_LIST_FREE 0x1u /* free rows too, which keep their last token */

typedef struct sqlock_list_opts {
    uint32_t size;
    unsigned flags;     /* SQLOCK_LIST_FREE */
    const char *prefix; /* only names that start with it; NULL: all */
} sqlock_list_opts;

#define SQLOCK_LIST_OPTS_INIT { sizeof(sqlock_list_opts), 0, NULL }
SQLOCK_API void sqlock_list_opts_init(sqlock_list_opts *opts);

/* List the locks of the manager's namespace in byte order of their names, page by page (so not one
 * moment's picture). Returns 0, what fn returned to stop, SQLOCK_EGUARDED (under SQLite: a
 * transaction keeps the whole file locked), or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_list(sqlock *m, const sqlock_list_opts *opts, sqlock_list_fn fn, void *user,
                           sqlock_error *err);

/* Look at one lock. Set out->size before the call; out->name then points to your name.
 * out->holders says whether it is in use, also where several hold it.
 * Returns: 0, SQLOCK_ABSENT (no lock of that name was ever held, or its row was pruned),
 *          SQLOCK_EINVAL, SQLOCK_EFORK, SQLOCK_EGUARDED as sqlock_list(), or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_find(sqlock *m, const char *name, sqlock_info *out, sqlock_error *err);

/* One that waits for a lock, in the queue of the database. */
typedef struct sqlock_waiter {
    uint32_t size;
    const char *name; /* of the lock; ends with NUL; name_len bytes */
    size_t name_len;
    int64_t place;     /* 1: the next in line; 0: it waits for holders to go, beside whom no one comes */
    int64_t waited_ms; /* since it has its place, or with 0 its turn */
    unsigned char owner[SQLOCK_OWNER_SIZE]; /* who is granted the lock then */
    char label[SQLOCK_LABEL_MAX + 1];       /* as in sqlock_holder */
    int64_t mode;      /* what it waits for: SQLOCK_EXCLUSIVE, SQLOCK_SHARED, or one of so many slots */
} sqlock_waiter;

/* Return 0 to go on, anything else to stop. waiter and what it points to live during the call. */
typedef int (*sqlock_waiter_fn)(const sqlock_waiter *waiter, void *user);

/* List who waits for the lock called name, the next in line first. NULL: for all locks of the
 * manager's namespace, in byte order of their names. Who was offered the lock waits no more:
 * sqlock_find() shows it as the holder. But who is next for a shared lock, or for a slot, and waits
 * for holders to go, is listed before the others, with place 0; of all locks, that takes a look at each.
 * Waiters whose program has ended are left out, because they are passed over. On PostgreSQL that is at
 * once, if no pooler hides the end. Else it is when the program has said nothing for 3 s, on MariaDB and
 * MySQL for 1.5 s. Who waits for less than 50 ms takes no place, and is left out too. Page by page, so not
 * one moment's picture.
 * Threads: any. Blocks until it is done. fn may call the library.
 * Returns: 0, what fn returned to stop, or
 *          SQLOCK_EREFUSED this database has no queue: its waiters try again and again
 *          SQLOCK_EDENIED  it needs the right to read who waits
 *          SQLOCK_EINVAL, SQLOCK_ENOMEM, SQLOCK_EFORK, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_list_waiters(sqlock *m, const char *name, sqlock_waiter_fn fn,
                                                  void *user, sqlock_error *err);

/* Break the grant with this token (from sqlock_find or sqlock_holder), so that the next acquire
 * gets the lock. Its holder must be known to be dead: one that lives learns of the break at its
 * next renewal, and until then only the token protects your data.
 * Before schema version 3 no note is made of a break. Then a living holder may get 0 from its
 * release, if that lost its reply and two others have held the lock since.
 * Returns: 0, or
 *          SQLOCK_EGUARDED without SQLOCK_RETRY: it is broken, but an open transaction guards the
 *                          lock, and none is granted before that ends. With SQLOCK_RETRY (SQLite):
 *                          nothing changed. On servers it is a look that says so: 0 if that fails,
 *                          or others work on the row for some 0.4 s. None is granted then either
 *          SQLOCK_ELOST    there is no such grant; nothing changed
 *          SQLOCK_EUNSURE  the reply was lost: break again; SQLOCK_ELOST then means that it is gone
 *          SQLOCK_EINVAL, SQLOCK_EFORK, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_break(sqlock *m, const char *name, int64_t token, sqlock_error *err);

/* ---- reaping ---------------------------------------------------------------------------------- */

#define SQLOCK_REAP_DRY_RUN 0x1u        /* look and count, change nothing, take no lease */
#define SQLOCK_REAP_NO_LIMIT (-1)       /* limit, max_ms: until everything has been looked at */
#define SQLOCK_REAP_KEEP (-1)           /* idle_ms: prune nothing */
#define SQLOCK_REAP_IDLE_MIN_MS 7200000 /* 2 h: twice as long as a request can still be under way */
#define SQLOCK_REAP_BATCH_MAX 5000

typedef struct sqlock_reap_opts {
    uint32_t size;         /* sizeof(sqlock_reap_opts) */
    unsigned flags;        /* SQLOCK_REAP_... */
    int32_t batch;         /* at most so many rows are looked at, or changed, by one statement;
                              fewer are changed where they take long */
    int32_t pause_ms;      /* after each statement that changed something */
    int64_t grace_ms;      /* clear only what ran out at least so long ago */
    int64_t idle_ms;       /* prune what has been free for so long; SQLOCK_REAP_KEEP: nothing */
    int64_t limit;         /* clear and prune at most so many rows; SQLOCK_REAP_NO_LIMIT */
    int32_t max_ms;        /* start nothing after so long; SQLOCK_REAP_NO_LIMIT */
    sqlock_cancel *cancel; /* ends it early; NULL: none */
} sqlock_reap_opts;

#define SQLOCK_REAP_OPTS_INIT                                                                      \
    { sizeof(sqlock_reap_opts), 0, 500, 20, 60000, INT64_C(604800000), SQLOCK_REAP_NO_LIMIT,       \
      SQLOCK_REAP_NO_LIMIT, NULL }
SQLOCK_API void sqlock_reap_opts_init(sqlock_reap_opts *opts);

typedef struct sqlock_reap_report {
    uint32_t size;       /* sizeof(sqlock_reap_report), set by the caller */
    int ran;             /* 0: another reaper is at work, and this one did nothing */
    int more;            /* 1: a limit ended it, there may be more to do */
    int64_t cleared;     /* expired grants whose rows were freed (dry run: would be) */
    int64_t pruned;      /* rows deleted (dry run: would be) */
    int64_t seen;        /* rows looked at */
    int64_t batches;     /* statements that were sent to change rows */
    int64_t duration_us; /* from begin to end, with pauses */
    int64_t longest_us;  /* the longest that one statement took, with its way there and back */
    int64_t oldest_ms;   /* how long ago the oldest of the expired grants ran out; 0: none */
} sqlock_reap_report;

/* Clean the table up, in all namespaces. Clear rows whose lease ran out; a holder that still lives
 * learns SQLOCK_WHY_REAPED. Delete rows that were not used for long. No lock depends on it: an
 * expired lock is free at once, reaped or not. Leases that are renewed or taken over meanwhile
 * stay, and so do rows that are locked, guarded, or of an unknown kind. Of a name that was shared,
 * or had slots, the last row goes later than the others: a sweep first notes that it has no holders
 * left. Tokens of a name go on rising after its row was deleted. One reaper works at a time for
 * each table, under a lease of its own (the manager's default). A second one returns 0 with ran =
 * 0. It sweeps in key order, a page and a statement at a time, with pauses. Run it every few minutes
 * or hours, from anywhere. It uses one of the manager's connections.
 * opts may be NULL (defaults). out may be NULL; set its size. It is filled on failure too: what it
 * counts is done. Changes of a statement whose reply was lost are not counted.
 * Threads:   any. Blocks until it is done.
 * Returns:   0, or
 *            SQLOCK_EINVAL     options; before any I/O
 *            SQLOCK_ECANCELLED by opts->cancel
 *            SQLOCK_ELOST      it lost its own lease, and stopped
 *            SQLOCK_EUNSURE    it does not know whether it has its lease; nothing was done
 *            SQLOCK_EGUARDED   under SQLite: a transaction keeps the file locked
 *            SQLOCK_EDENIED    pruning needs the right to DELETE
 *            SQLOCK_ETIMEOUT, SQLOCK_EFORK, SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes.
 *            Failed statements are repeated for up to the manager's request_ms. A row that fails
 *            alone is left for the next sweep. */
SQLOCK_API SQLOCK_CHECKED int sqlock_reap(sqlock *m, const sqlock_reap_opts *opts, sqlock_reap_report *out,
                           sqlock_error *err);

/* 1: two owners (sqlock_info.owner and so on) are of one actor (sqlock_acquire_opts.actor). 0: they are not, or one is
 * NULL. Any thread. */
SQLOCK_API int sqlock_same_actor(const unsigned char *a, const unsigned char *b);

#ifdef __cplusplus
}
#endif
#endif
