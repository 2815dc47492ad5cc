/* sqlock: distributed locks in the database that an application already has.
 *
 * Read this first
 *   A lease says who may work. It cannot stop a program that goes on after its lease ended: a stopped
 *   process, a paused machine. The fencing token protects your data. Store it with the data before you
 *   read what you will change, and refuse smaller ones.
 *
 * Units      Durations are int32_t milliseconds and end in _ms. Points in time are int64_t microseconds
 *            and end in _us. Client times are CLOCK_BOOTTIME (sqlock_now_us). Server times are
 *            microseconds since 1970 UTC, by the server's clock.
 * Options    Option structs begin with their size: start from their _INIT macro. A newer caller's struct
 *            is longer; a field that this version does not know must be 0, else SQLOCK_EINVAL.
 * Ownership  Strings and options that you pass in are copied. A string that you get belongs to its object
 *            and dies with it. An `out` parameter hands over a handle.
 * Errors     Functions return 0 or a negative SQLOCK_E code. A few have a positive outcome that is no
 *            error, so compare with != 0, not with < 0. Each may return SQLOCK_ENOMEM and SQLOCK_ESYS
 *            (the process ran out of something), listed or not. The sqlock_error is yours and may be
 *            NULL. It is written on failure only.
 * Threads    Any number of threads may share a manager. Any thread may read a lock's state, deadline,
 *            token and descriptor. One thread at a time may renew, release, settle and free it. The
 *            library starts at most two threads per manager, when it needs them, and none for managers
 *            of sqlock_open_start() (sqlock/async.h). It installs no signal handler, prints
 *            nothing, never exits, and has no global state to set.
 * pthread_cancel()
 *            A thread in a function of this library is cancelled when that returns, also in callbacks.
 *            Exceptions: the work of sqlock_with() and the attempts of sqlock_retry(), where the lock is
 *            given back. Use sqlock_cancel_fire() to end a wait. Deferred cancellation only.
 * fork       In a child every handle of the parent is dead: functions return SQLOCK_EFORK, the state is
 *            SQLOCK_LOST, freeing and closing do nothing. The child may open its own manager. Under
 *            SQLite only if none was open at the fork, else after exec (sqlock/sqlite.h).
 *
 * More headers
 * - error.h (included here): what failed, and what to do
 * - many.h: several locks in one call
 * - mode.h: from an exclusive lock to a shared one, and back
 * - import.h: pass a grant on to another process
 * - async.h: event loops
 * - admin.h: find, list, break, reap
 * - migrate.h: the schema
 * - transaction.h, rows.h, cas.h: guards, row locks, compare and set in your own transaction
 * - register.h: versioned values
 * - retry.h: attempts, with a lock at last
 */
#ifndef SQLOCK_SQLOCK_H
#define SQLOCK_SQLOCK_H

#include <sqlock/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_VERSION_MAJOR 0
#define SQLOCK_VERSION_MINOR 1
#define SQLOCK_VERSION_PATCH 0
#define SQLOCK_VERSION "0.1.0"


/* ---- limits and special values ---------------------------------------------------------------- */

#define SQLOCK_NAME_MAX 255            /* bytes of a name, at least 1 */
#define SQLOCK_NAMESPACE_MAX 63        /* bytes of a namespace, may be 0 */
#define SQLOCK_LABEL_MAX 255           /* bytes of a holder's label */
#define SQLOCK_ACTOR_MAX 255           /* bytes of an actor, at least 1 */
#define SQLOCK_OWNER_SIZE 16           /* bytes: an owner is 128 random bits */
#define SQLOCK_TOKEN_MAX INT64_C(9007199254740991) /* 2^53 - 1: exact in a double too */

#define SQLOCK_WAIT_FOREVER (-1)       /* wait_ms: until granted, cancelled or failed */
#define SQLOCK_LEASE_MIN_MS 100
#define SQLOCK_LEASE_MAX_MS 604800000  /* 7 days */
#define SQLOCK_LEASE_DEFAULT_MS 30000
#define SQLOCK_WAIT_DEFAULT_MS 10000

/* ---- this library ----------------------------------------------------------------------------- */

/* SQLOCK_VERSION of the library that runs; it may be newer than this header. Any thread. */
SQLOCK_API const char *sqlock_version(void);
/* Now, by the clock of deadlines: CLOCK_BOOTTIME, else MONOTONIC, in microseconds. Any thread. */
SQLOCK_API int64_t sqlock_now_us(void);

/* ---- the manager ------------------------------------------------------------------------------ */

typedef struct sqlock sqlock;             /* a manager: one database, namespace, schema, prefix */
typedef struct sqlock_lock sqlock_lock;   /* one grant */
typedef struct sqlock_op sqlock_op;       /* a request under way */
typedef struct sqlock_cancel sqlock_cancel; /* ends a wait from another thread */
typedef struct sqlock_driver sqlock_driver; /* from sqlock/postgres.h, mysql.h or sqlite.h */

/* Makes a connection for the manager, which owns and closes it: a PGconn *, a sqlite3 *, as the
 * driver's header says. Do not use it elsewhere. Called from any thread, as often as a connection is
 * lost. Returns 0, or an SQLOCK_E code with *err filled. SQLOCK_EBUSY, EGUARDED, EDEADLOCK, ELOST
 * and EUNSURE say nothing about a connection, and count as SQLOCK_EUNREACH. */
typedef int (*sqlock_connect_fn)(void *user, void **out_native, sqlock_error *err);

/* Accept a server that may forget commits after a crash. It may then forget a holder and grant the lock
 * to another one. Tokens still rise. */
#define SQLOCK_OPEN_ACCEPT_WEAK 0x1u
/* Keep no state in the session: for poolers in transaction mode. Refused on MariaDB and MySQL. */
#define SQLOCK_OPEN_UNPREPARED 0x2u
/* After a start or promotion tokens go on above the server's clock. A server whose clock is behind its
 * own tokens is refused (SQLOCK_EREFUSED): set the clock. Or lift the tokens by 2^32 microseconds, 71
 * minutes of a clock, if no other server has drawn larger ones. */
#define SQLOCK_OPEN_LIFT_TOKENS 0x4u
/* A release too waits until the disk has it. Without this flag it does not, on PostgreSQL and on SQLite
 * in WAL mode. After a crash of the server (SQLite: of the machine), or a failover, a lock that was
 * released in the last moments may stand until its lease ends, and SQLOCK_EBUSY names its former holder.
 * Nothing else can be lost. */
#define SQLOCK_OPEN_DURABLE_RELEASE 0x8u

typedef struct sqlock_open_opts {
    uint32_t size;             /* sizeof(sqlock_open_opts) */
    unsigned flags;            /* SQLOCK_OPEN_... */
    const char *schema;        /* NULL: "public" on PostgreSQL, the URL's database on MySQL */
    const char *prefix;        /* of table names, [a-z][a-z0-9_]{0,23}; NULL: "sqlock_" */
    const char *ns;            /* namespace, 0 to 63 bytes of UTF-8; NULL: "" */
    const char *label;         /* shown to anyone who finds the lock busy, up to 128 bytes; NULL: "" */
    sqlock_connect_fn connect; /* makes connections; then url must be NULL */
    void *connect_user;
    int32_t connections;     /* at most, and for a moment a broken one beside its successor;
                                at least 2, one is reserved for renewals */
    int32_t request_ms;      /* limit of one request: a try, a release, the open */
    int32_t lease_ms;        /* default of the manager's acquires */
    int32_t pid; /* shown as the holder's; 0: this process. For a process that takes locks for
                    another one, and ends earlier */
    int32_t grace_ms; /* After a failover that may have lost commits, grant nothing until the longest
                         known lease is over, at most for so long: a holder may be among the lost
                         commits. It counts from the first contact with the new server. Renewals go
                         on. 0: grant at once; a lock may have two holders for up to one lease.
                         Not on SQLite, which cannot notice a loss */
} sqlock_open_opts;

#define SQLOCK_OPEN_OPTS_INIT                                                                      \
    { sizeof(sqlock_open_opts), 0, NULL, NULL, NULL, NULL, NULL, NULL, 2, 5000,                    \
      SQLOCK_LEASE_DEFAULT_MS, 0, 0 }
/* Writes the same values as SQLOCK_OPEN_OPTS_INIT, for callers without the macro. */
SQLOCK_API void sqlock_open_opts_init(sqlock_open_opts *opts);

/* Open a manager on the database at url, or on what opts->connect connects to.
 * It connects once. It checks the schema's version, the server's durability, and that the server can be
 * written to. It changes nothing but the meta row, and that only when the server changed or was started
 * anew. opts may be NULL.
 * Ownership: on success *out_m is yours; end it with sqlock_close().
 * Threads:   any.
 * Returns:   0, or
 *            SQLOCK_EINVAL    bad URL scheme, schema, prefix, namespace or number; before any I/O
 *            SQLOCK_EUNREACH  no server, no such host, or no login within request_ms
 *            SQLOCK_ETIMEOUT  the server fell silent behind the login
 *            SQLOCK_EDENIED   password, privileges
 *            SQLOCK_ESCHEMA   the schema is absent, too new, or of libraries that draw tokens in another
 *                             way; the text says what was found and what is needed
 *            SQLOCK_EREADONLY a replica, a read-only file; of several hosts none can be written to
 *            SQLOCK_ECORRUPT  not a database
 *            SQLOCK_EREFUSED  a promise cannot be kept: weak durability, a clock behind the tokens, one
 *                             of several servers that grant, a library or server that is too old, or
 *                             two copies of the client library. PostgreSQL: a view or rule in place
 *                             of a table. SQLite: a child of a process with an open manager
 *            SQLOCK_EDB, SQLOCK_ENOMEM, SQLOCK_ESYS. */
SQLOCK_API SQLOCK_CHECKED int sqlock_open(const sqlock_driver *driver, const char *url,
                           const sqlock_open_opts *opts, sqlock **out_m, sqlock_error *err);

/* Close a manager: end its threads and connections. Locks that are still held are not released, so
 * release them first: their handles become LOST with SQLOCK_WHY_CLOSED and must still be freed, and
 * their rows run out. No call may be under way in another thread. NULL is allowed. In a forked child it
 * does nothing.
 * Requests that still wait end first. They and waits that have ended leave their queues. What was granted to
 * a request that was not finished is given back: sqlock_op_finish() must still be called, and its handle is
 * LOST. All this takes 0.25 s at most. A manager without threads is stepped meanwhile, so callbacks may run.
 * Where it is closed within a callback it is not stepped, and who waits behind its waiters may lose up to 3 s. */
SQLOCK_API void sqlock_close(sqlock *m);

/* ---- locks ------------------------------------------------------------------------------------ */

typedef enum sqlock_state {
    SQLOCK_UNSURE = 1,  /* a reply was lost, or it was imported: sqlock_settle() finds out */
    SQLOCK_HELD = 2,    /* ours until the deadline */
    SQLOCK_AT_RISK = 3, /* still ours, but renewals have failed for 2/3 of the lease; or the server
                           changed, and the new one has not confirmed the lease yet */
    SQLOCK_LOST = 4,    /* not ours any more, or never was: see sqlock_lock_why() */
    SQLOCK_RELEASED = 5 /* given back, confirmed by the database */
} sqlock_state;

typedef enum sqlock_why {
    SQLOCK_WHY_NONE = 0,
    SQLOCK_WHY_EXPIRED = 1,     /* the deadline passed without a confirmed renewal (P4, P6) */
    SQLOCK_WHY_TAKEN = 2,       /* others have been granted the lock since */
    SQLOCK_WHY_BROKEN = 3,      /* an operator broke it */
    SQLOCK_WHY_REAPED = 4,      /* it ran out, and the reaper cleared it */
    SQLOCK_WHY_GONE = 5,        /* its row is gone */
    SQLOCK_WHY_CLOCK = 6,       /* the server's clock jumped past the end of the lease */
    SQLOCK_WHY_MAX_HOLD = 7,    /* max_hold_ms was reached */
    SQLOCK_WHY_NOT_GRANTED = 8, /* settled: it was never granted */
    SQLOCK_WHY_CLOSED = 9,      /* the manager was closed */
    SQLOCK_WHY_FORK = 10,       /* this is a forked child */
    SQLOCK_WHY_RELEASED = 11,   /* another handle of this grant released it */
    SQLOCK_WHY_FORGOTTEN = 12   /* the server lost the commit that granted it, in a failover */
} sqlock_why;

/* A word for a state ("held") or a reason ("taken by others"); static strings. */
SQLOCK_API const char *sqlock_state_name(sqlock_state state);
SQLOCK_API const char *sqlock_why_name(sqlock_why why);

/* Who holds a lock. */
typedef struct sqlock_holder {
    uint32_t size;                    /* sizeof(sqlock_holder) */
    int64_t token;                    /* of the grant; 0: who is next waits for others to release */
    int64_t left_ms;                  /* until the lease runs out; <= 0: it has run out */
    int64_t held_ms;                  /* since it was granted */
    char label[SQLOCK_LABEL_MAX + 1]; /* "pid@host" and, after a blank, the manager's label */
    int64_t place;                    /* of the caller in the queue: 1 is the next; only a waiter of the
                                         holder's manager may come first. 0: it was in none. On MariaDB
                                         and MySQL some before it may be dead: sqlock_list_waiters() */
    int64_t age_ms;                   /* of an acquire that was refused: since the database said so. The
                                         times above are those of now */
} sqlock_holder;

/* Called on the timer thread, or in a step of a manager without threads, when a lock becomes AT_RISK or LOST, and when it is HELD again. Changes that
 * follow each other at once may come as one call, with the last state. It delays the callbacks of other
 * locks, so be brief. Of this library it may call the getters below, nothing else.
 * No call begins after sqlock_release() or sqlock_release_start() was called. sqlock_release() and
 * sqlock_lock_free() wait for one that is running; sqlock_release_start() and sqlock_op_finish() do not. */
typedef void (*sqlock_event_fn)(sqlock_lock *lock, sqlock_state state, void *user);

typedef struct sqlock_acquire_opts {
    uint32_t size;       /* sizeof(sqlock_acquire_opts) */
    int32_t wait_ms;     /* 0: one try; > 0: at most; SQLOCK_WAIT_FOREVER */
    int32_t lease_ms;    /* 0: the manager's default */
    int32_t renew_ms;    /* between renewals; 0: a third of the lease; at most half of it */
    int32_t max_hold_ms; /* renewals end this long after the grant; 0: never */
    unsigned flags;      /* SQLOCK_NO_RENEW */
    const char *label;   /* as in the manager's options; NULL: the manager's, and the actor */
    sqlock_cancel *cancel;  /* ends the wait early; NULL: none */
    sqlock_event_fn on_event; /* NULL: none */
    void *user;               /* for on_event */
    sqlock_holder *holder;    /* filled with SQLOCK_EBUSY, EDEADLOCK and EGUARDED. Token 0 and no label:
                                 it is not known, as where a transaction has locked the row. NULL: not */
    const unsigned char *owner; /* NULL: random. Else SQLOCK_OWNER_SIZE bytes, for SQLOCK_EXCLUSIVE only:
                                   see sqlock/import.h */
    int64_t mode; /* SQLOCK_EXCLUSIVE, SQLOCK_SHARED, or SQLOCK_SLOTS(n) */
    const int64_t *modes; /* for a list of names (sqlock/many.h): one for each, in place of mode; or NULL */
    int64_t slot; /* of a grant that is imported (sqlock/import.h): as sqlock_lock_slot(); -1: it is exclusive */
    const char *actor; /* who does this work, for deadlocks: see below; NULL: unknown */
} sqlock_acquire_opts;

#define SQLOCK_NO_RENEW 0x1u /* the caller renews with sqlock_renew() */

/* Who may hold a lock at the same time (opts->mode). Exclusive and shared go together on a name. Slots are of
 * the name: while one is taken, or waited for, another number of them, and another mode, is refused
 * (SQLOCK_EREFUSED). Behind an exclusive holder, who goes with no one, slots may be waited for, if all who
 * wait want as many. A try is merely busy there. */
#define SQLOCK_EXCLUSIVE 0    /* one holder, and no shared one */
#define SQLOCK_SHARED    (-1) /* any number of shared holders, and no exclusive one */
/* at most n holders, 1 to SQLOCK_SLOTS_MAX: sqlock_lock_slot(). Another n is refused. It is evaluated twice. */
#define SQLOCK_SLOTS(n)  ((n) > 0 ? (int64_t)(n) : INT64_MIN)
#define SQLOCK_SLOTS_MAX 10000

/* A job, a session, a request: whatever takes several locks and does one thing at a time (opts->actor). Give it
 * to each acquire of that work, in whichever process, and to no other work of the namespace at the same time:
 * "job 1742", not "worker". Where actors wait for each other's locks in a circle, none would ever go on. Then
 * one acquire ends with SQLOCK_EDEADLOCK: that of the circle's actor who came last. The text says who waits for
 * what of whom. Release the actor's other locks, and begin again; or always take locks in the same order.
 * - It is noticed 1.5 to 2 s after the circle is closed, and in any case within 10 s while the database
 *   answers. A wait that ends before is busy. An actor that waits for a lock that it holds itself is in a
 *   circle, too. A slot is waited for in vain only if all who have one are in circles.
 * - Known are queues only. Who waits for less than 50 ms, or for a guard, is in no circle. Nor are row locks of
 *   the application's transactions.
 * - An actor is 1 to 255 bytes of UTF-8. Eight bytes of a hash of it become the first half of the owners: so
 *   an operator sees which locks are of the same one. By accident two actors have the same bytes as good as
 *   never (a chance of one in 30 million among a million). Someone who wants to can find two such texts. They
 *   would count as one actor, and could get SQLOCK_EDEADLOCK without a reason.
 * - It stands behind the manager's label, where label is NULL. */

#define SQLOCK_ACQUIRE_OPTS_INIT                                                                   \
    { sizeof(sqlock_acquire_opts), SQLOCK_WAIT_DEFAULT_MS, 0, 0, 0, 0, NULL, NULL, NULL, NULL,     \
      NULL, NULL, SQLOCK_EXCLUSIVE, NULL, -1, NULL }
SQLOCK_API void sqlock_acquire_opts_init(sqlock_acquire_opts *opts);

/* Acquire the lock called name: a string of 1 to 255 bytes of UTF-8, compared byte by byte.
 * A lease that runs for an eighth of the time until its renewal opens a second connection, for
 * renewals. If there can be none, renewals borrow the first one while it is idle.
 * It waits at most opts->wait_ms, and up to 50 ms more for an answer under way (not under SQLite). A try
 * is bounded by the manager's request_ms. A wait for a lock that is held ends as busy, if
 * there was time to connect and to send a request. Near its end it sends no new one. Not reentrant: a second acquire of a name by the same program is busy too.
 * Who waits for 50 ms or longer is served first come, first served, across processes. Only a waiter of the
 * holder's own manager may come first, 16 times in a row at most.
 * If it was next for a lock that others share, or for a slot, and gives up, its turn is given back. Until
 * then, some milliseconds, tries of others are refused.
 * opts may be NULL (defaults).
 * Ownership: on success, and with SQLOCK_EUNSURE, *out_lock is yours; end it with sqlock_lock_end().
 *            Otherwise it is NULL. So `if (rc != 0) return rc;` leaks an UNSURE handle and its grant:
 *            settle it, or call sqlock_lock_end(), which accepts NULL.
 * Threads:   any.
 * Returns:   0 (held, with at least half of the lease left), or
 *            SQLOCK_EBUSY      held by another owner until the wait ended. The holder is not known (token
 *                              0, no label) to a wait behind others of the manager that ended before it
 *                              was refused itself
 *            SQLOCK_EGUARDED   free, but an open transaction guards it until the wait ended
 *            SQLOCK_EUNSURE    a reply was lost: *out_lock is UNSURE, sqlock_settle() finds out
 *            SQLOCK_ETIMEOUT   no answer in time and nothing was applied; or no connection came free,
 *                              see the option connections; or three grants in a row came too late and
 *                              were given back: take a longer lease
 *            SQLOCK_EDEADLOCK  opts->actor waits in a circle of actors, and is the one that gives up; nothing is
 *                              held, and its place in the queue is gone
 *            SQLOCK_ECANCELLED by opts->cancel; nothing is held. A cancel that meets a request under way may give
 *                              SQLOCK_EUNSURE instead: if you do not end that handle, the lock may stay held
 *                              for one lease
 *            SQLOCK_ELOST      opts->owner was released before, and is never granted again
 *            SQLOCK_EREFUSED   the lock is in use, or others have waited for it for 3 s, in a way that does
 *                              not go with opts->mode. The text names both. Or as below
 *            SQLOCK_EINVAL     name or numbers; before any I/O
 *            SQLOCK_EFORK, SQLOCK_ENOMEM, and the database's: SQLOCK_EDB, EUNREACH, EDENIED, ESCHEMA,
 *            ECORRUPT, EREADONLY, EFULL, EREFUSED. While the wait lasts, lost connections are reopened. */
SQLOCK_API SQLOCK_CHECKED int sqlock_acquire(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                              sqlock_lock **out_lock, sqlock_error *err);

/* Renew the lease now. The new deadline is at least a full lease after this call began, less the margin.
 * Needed with SQLOCK_NO_RENEW only; otherwise renewals run by themselves until release, max_hold_ms or
 * loss.
 * Returns: 0, SQLOCK_ELOST (see sqlock_lock_why), SQLOCK_EUNSURE or SQLOCK_ETIMEOUT (the old deadline
 *          stands), SQLOCK_ESTATE (released; unsure, so settle first; or past max_hold_ms),
 *          SQLOCK_EFORK, or the database's codes (the old deadline stands). */
SQLOCK_API SQLOCK_CHECKED int sqlock_renew(sqlock_lock *lock, sqlock_error *err);

/* Release the lock and free its handle, in any state, and set *lock to NULL: the usual end.
 * Use sqlock_release() and sqlock_lock_free() instead if you want to release again after a failure.
 * lock, or *lock, may be NULL.
 * Returns: what sqlock_release() returns. The handle is freed whatever it is. */
SQLOCK_API SQLOCK_CHECKED int sqlock_lock_end(sqlock_lock **lock, sqlock_error *err);

/* Release the lock, and keep its handle. Its renewals and callbacks end with this call, whatever it
 * returns. At its end it waits for a running callback.
 * An UNSURE lock may be released too. What was granted is given back, and what may still be granted is
 * stopped. The answer then waits until no grant can come any more, at most request_ms after the acquire;
 * without room for that it is SQLOCK_EUNSURE.
 * For an imported grant that was not settled it first looks at the row, one statement more.
 * Returns: 0 (RELEASED; also if an earlier release had been applied), or
 *          SQLOCK_ELOST    it was lost before. A row that still says ours is emptied
 *          SQLOCK_EGUARDED a transaction that guards it is still open. On servers the lock is RELEASED,
 *                          and granted to no one before that transaction ends. There it is a look that
 *                          says so: 0 if that fails, or others work on the row for some 0.4 s. No one
 *                          is granted it then either. Under SQLite nothing was changed: release again
 *                          afterwards
 *          SQLOCK_EUNSURE  the reply was lost: release again, settle, or let the lease run out
 *          SQLOCK_ETIMEOUT, SQLOCK_EFORK, or the database's codes: nothing was changed. */
SQLOCK_API SQLOCK_CHECKED int sqlock_release(sqlock_lock *lock, sqlock_error *err);

/* Find out what became of a request whose reply was lost: send it again, with the same owner. Or whether
 * an imported grant still is: renew it. It tries until there is an answer, at most wait_ms
 * (SQLOCK_WAIT_FOREVER; 0: request_ms). "Held by another owner" is an answer only when the request
 * cannot arrive any more, at most request_ms after it was sent.
 * Returns: 0 (acquire or import: HELD; release: RELEASED; nothing to settle: 0 too), or
 *          SQLOCK_EBUSY, SQLOCK_EGUARDED  the acquire was not granted, or has ended; the lock is LOST.
 *                          Under SQLite it stays UNSURE while another transaction keeps the file locked
 *          SQLOCK_ELOST    it was held before, and is not any more
 *          SQLOCK_EUNSURE  no answer yet
 *          SQLOCK_EINVAL (wait_ms), SQLOCK_EFORK, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_settle(sqlock_lock *lock, int32_t wait_ms, sqlock_error *err);

/* Free the handle, and do not release: the renewals of a held lock end, and its lease runs out. Waits for
 * a running callback of this lock, unless called from within it. NULL is allowed. In a forked child it
 * does nothing. */
SQLOCK_API void sqlock_lock_free(sqlock_lock *lock);

/* Getters: no I/O, any thread, also from callbacks. In a forked child: LOST with SQLOCK_WHY_FORK. */

/* The state now. Never HELD or AT_RISK after the deadline, whatever the threads, the network and the
 * server do. */
SQLOCK_API sqlock_state sqlock_lock_state(sqlock_lock *lock);
/* Why it is LOST; SQLOCK_WHY_NONE in other states. */
SQLOCK_API sqlock_why sqlock_lock_why(sqlock_lock *lock);
/* 1 while HELD or AT_RISK, else 0. Check before each step that must not happen without the lock. */
SQLOCK_API int sqlock_is_held(sqlock_lock *lock);
/* When the lock ends unless renewed, by sqlock_now_us(), less a margin of a tenth of the lease for
 * clocks that drift or jump. 0 if it was never held. */
SQLOCK_API int64_t sqlock_lock_deadline_us(sqlock_lock *lock);
/* The fencing token: positive, below 2^53, larger than that of every earlier grant of this name. 0 while
 * unknown (UNSURE after an acquire). Store it with your data first of all, and refuse smaller ones.
 * Compare it with tokens of the same name in the same database only; of slots, with those of the same
 * slot. Those of shared holders do not compare. */
SQLOCK_API int64_t sqlock_lock_token(sqlock_lock *lock);
/* The number of the slot that it holds, from 0; of a shared lock, the number of its place among the shared
 * holders. -1: it is exclusive, or not granted. */
SQLOCK_API int64_t sqlock_lock_slot(sqlock_lock *lock);
/* How it is held, and so what its token compares with: SQLOCK_EXCLUSIVE, SQLOCK_SHARED, or the number of
 * slots. Of an imported grant: what opts->mode said. */
SQLOCK_API int64_t sqlock_lock_mode(sqlock_lock *lock);
/* The name; "" of NULL. */
SQLOCK_API const char *sqlock_lock_name(sqlock_lock *lock);
/* A descriptor that becomes readable when the lock is lost (not when it is released), for poll().
 * Do not read it. It belongs to the lock, and sqlock_lock_free() closes it. Made at the first call.
 * Returns: the descriptor, or SQLOCK_ESYS (none left) or SQLOCK_EFORK. */
SQLOCK_API int sqlock_lock_fd(sqlock_lock *lock, sqlock_error *err);

/* ---- scoped use ------------------------------------------------------------------------------- */

/* Work under the lock. In long work check sqlock_is_held() now and then. */
typedef int (*sqlock_work_fn)(sqlock_lock *lock, void *user);
/* Acquire, call work(lock, user), release, free; also if the thread is cancelled in work. *out_result, if
 * not NULL, is what work returned.
 * An UNSURE grant is settled or given back for you, which may take request_ms behind the wait.
 * Returns: the codes of sqlock_acquire() if work was not called; otherwise 0, SQLOCK_ELOST if the lock was
 *          lost before work returned, or what sqlock_release() returns. */
SQLOCK_API SQLOCK_CHECKED int sqlock_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                           sqlock_work_fn work, void *user, int *out_result, sqlock_error *err);

/* sqlock_lock_end() at the end of a scope: SQLOCK_SCOPED sqlock_lock *lock = NULL; */
SQLOCK_API void sqlock_scope_end(sqlock_lock **lock);
#if defined(__GNUC__)
#define SQLOCK_SCOPED __attribute__((cleanup(sqlock_scope_end)))
#endif

/* ---- cancelling ------------------------------------------------------------------------------- */

/* Make a cancel object for options. Free it after the calls that use it have returned. */
SQLOCK_API SQLOCK_CHECKED int sqlock_cancel_new(sqlock_cancel **out_cancel, sqlock_error *err);
/* End every call that waits with this object, now and later. Any thread; not from signal handlers.
 * NULL is allowed. */
SQLOCK_API void sqlock_cancel_fire(sqlock_cancel *cancel);
SQLOCK_API void sqlock_cancel_free(sqlock_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif
