/* sqlock: distributed locks in the database that an application already has.
 *
 * Read this first
 *   A lease tells who may work; it cannot stop a program that works on after its lease ended (a
 *   stopped process, a paused machine). What protects data is the fencing token: store it with the
 *   data before you read what you are going to change, and refuse whoever comes with a smaller one.
 *
 * Units      durations are int32_t milliseconds and end in _ms; points in time are int64_t
 *            microseconds and end in _us. Client times are of CLOCK_BOOTTIME (sqlock_now_us), server
 *            times are microseconds since 1970 UTC by the server's clock.
 * Options    structs of options begin with their size: start from their _INIT macro. A newer caller's
 *            are longer; what is set there that this version does not know is SQLOCK_EINVAL.
 * Ownership  strings and options that you pass in are copied. Strings that you are given belong to
 *            the object that they came from and die with it. An `out` parameter hands over a handle.
 * Errors     functions return 0 or a negative SQLOCK_E code; a few have an outcome that is neither,
 *            and positive: so ask for != 0, not for < 0. SQLOCK_ENOMEM and SQLOCK_ESYS (the process has run out of something) may come
 *            from each of them, listed there or not. The sqlock_error is yours and may be NULL; it is
 *            written on failure and left alone otherwise.
 * Threads    a manager may be shared by any number of threads. The state, deadline, token and fd of
 *            a lock may be read from any thread; renew, release, settle and free it from one at a
 *            time. The library starts at most two threads for a manager, installs no signal handler,
 *            prints nothing, never exits and has no global state that can be set.
 * Cancelling pthread_cancel() of a thread that is in a function of this library takes effect when that has
 *            returned: also in callbacks, but not in the work of sqlock_with() and the attempts of
 *            sqlock_retry(), where the lock is given back. A wait ends by its time, or by
 *            sqlock_cancel_fire(). That holds for cancellation of the deferred kind, which is the default.
 * fork       in a child every handle of the parent is dead: its functions answer SQLOCK_EFORK, its
 *            state is SQLOCK_LOST, and freeing or closing it does nothing. Open a manager of its own;
 *            under SQLite only if none was open at the fork, else exec first (sqlock/sqlite.h).
 */
#ifndef SQLOCK_SQLOCK_H
#define SQLOCK_SQLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SQLOCK_VERSION_MAJOR 0
#define SQLOCK_VERSION_MINOR 1
#define SQLOCK_VERSION_PATCH 0
#define SQLOCK_VERSION "0.1.0"

#if defined(__GNUC__)
#define SQLOCK_API __attribute__((visibility("default")))
#else
#define SQLOCK_API
#endif
/* Compilers that can warn where the answer of such a function is not looked at. Compare it with 0, not
 * with < 0: SQLOCK_CONFLICT and SQLOCK_ABSENT are positive. */
#ifndef SQLOCK_CHECKED
#if defined(__GNUC__)
#define SQLOCK_CHECKED __attribute__((warn_unused_result))
#else
#define SQLOCK_CHECKED
#endif
#endif
#define SQLOCK_EXPERIMENTAL /* what it stands before may change or go in any release */

/* ---- limits and special values ---------------------------------------------------------------- */

#define SQLOCK_NAME_MAX 255            /* bytes of a name, at least 1 */
#define SQLOCK_NAMESPACE_MAX 63        /* bytes of a namespace, may be 0 */
#define SQLOCK_LABEL_MAX 255           /* bytes of what a holder says about itself */
#define SQLOCK_OWNER_SIZE 16           /* bytes: an owner is 128 random bits */
#define SQLOCK_TOKEN_MAX INT64_C(9007199254740991) /* 2^53 - 1: exact in a double too */

#define SQLOCK_WAIT_FOREVER (-1)       /* wait_ms: until granted, cancelled or failed */
#define SQLOCK_LEASE_MIN_MS 100
#define SQLOCK_LEASE_MAX_MS 604800000  /* 7 days */
#define SQLOCK_LEASE_DEFAULT_MS 30000
#define SQLOCK_WAIT_DEFAULT_MS 10000
#define SQLOCK_LEN_STRING SIZE_MAX     /* a length: the string ends with NUL */

/* ---- errors ----------------------------------------------------------------------------------- */

/* Every code with the sentence that sqlock_strerror() gives for it. Contention is never reported as
 * a database error, and a database error never as contention. */
#define SQLOCK_ERRORS(X)                                                                           \
    X(SQLOCK_EBUSY, -1, "the lock is held by another owner")                                       \
    X(SQLOCK_ELOST, -2, "the lock was held and is no longer ours")                                 \
    X(SQLOCK_EUNSURE, -3, "the reply was lost: the request may have been applied")                 \
    X(SQLOCK_EGUARDED, -4, "an open transaction guards the lock")                                  \
    X(SQLOCK_ECANCELLED, -5, "the call was cancelled")                                             \
    X(SQLOCK_ETIMEOUT, -6, "the database did not answer in time")                                  \
    X(SQLOCK_ETXGONE, -7, "the database has ended the transaction")                                \
    X(SQLOCK_ETXRESTART, -8, "only a new transaction can do it: roll back and begin again")        \
    X(SQLOCK_EINVAL, -10, "an argument is not valid")                                              \
    X(SQLOCK_ENOMEM, -11, "out of memory")                                                         \
    X(SQLOCK_ESTATE, -12, "the handle is not in a state that allows this")                         \
    X(SQLOCK_EFORK, -13, "the handle belongs to the parent process")                               \
    X(SQLOCK_ESYS, -14, "the operating system refused a resource")                                 \
    X(SQLOCK_EDB, -20, "the database answered with an error")                                      \
    X(SQLOCK_EUNREACH, -21, "the database cannot be reached")                                      \
    X(SQLOCK_EDENIED, -22, "the database refused login or privileges")                             \
    X(SQLOCK_ESCHEMA, -23, "the schema is absent, too old or too new")                             \
    X(SQLOCK_ECORRUPT, -24, "the database or a row is not what it must be")                        \
    X(SQLOCK_EREADONLY, -25, "the database is read-only")                                          \
    X(SQLOCK_EFULL, -26, "the database has no space left or failed to write")                      \
    X(SQLOCK_EREFUSED, -27, "this database cannot keep a promise that was asked for")

enum sqlock_code {
    SQLOCK_OK = 0,
#define SQLOCK_ENUM(code, value, text) code = value,
    SQLOCK_ERRORS(SQLOCK_ENUM)
#undef SQLOCK_ENUM
};

/* Outcomes that are no errors are positive: there the sqlock_error is left alone. */
#define SQLOCK_CONFLICT 1 /* compare and set: the version is another one than expected; nothing was
                             changed. Row locks: another transaction has locked it */
#define SQLOCK_ABSENT 2   /* there is no such row */

/* What to do, in sqlock_error.flags. */
#define SQLOCK_RETRY 0x1u     /* the same call may work if made again */
#define SQLOCK_RECONNECT 0x2u /* the connection is gone or must not be used again */
#define SQLOCK_MAYBE 0x4u     /* the request may have been applied: settle before going on */

typedef struct sqlock_error {
    int code;         /* SQLOCK_E... */
    unsigned flags;   /* SQLOCK_RETRY, SQLOCK_RECONNECT, SQLOCK_MAYBE */
    char sqlstate[6]; /* of the server, or the nearest one; "" where there is none */
    long native;      /* the client library's own number, 0 where there is none */
    char text[256];   /* one line with context: `acquire "nightly": connection refused` */
} sqlock_error;

/* The sentence for a code; a static string, also for codes that do not exist. Any thread. */
SQLOCK_API const char *sqlock_strerror(int code);
/* The name of a code, "SQLOCK_EBUSY"; "SQLOCK_?" for codes that do not exist. Any thread. */
SQLOCK_API const char *sqlock_code_name(int code);
/* SQLOCK_VERSION of the library that runs, which may be newer than the header. Any thread. */
SQLOCK_API const char *sqlock_version(void);
/* Now, in microseconds of the clock that deadlines are told in (CLOCK_BOOTTIME, else MONOTONIC). */
SQLOCK_API int64_t sqlock_now_us(void);

/* ---- the manager ------------------------------------------------------------------------------ */

typedef struct sqlock sqlock;             /* a manager: one database, namespace, schema, prefix */
typedef struct sqlock_lock sqlock_lock;   /* one grant */
typedef struct sqlock_op sqlock_op;       /* a request that was started */
typedef struct sqlock_cancel sqlock_cancel; /* cuts a wait from another thread */
typedef struct sqlock_driver sqlock_driver; /* sqlock/driver.h; you get one from sqlock/<name>.h */

/* Makes a connection for the manager, which owns and closes it: a PGconn *, a sqlite3 *, as the
 * driver's header says. It must be used by nobody else. Called from any thread of the manager's, as
 * often as a connection is lost. Returns 0, or an SQLOCK_E code with *err filled; a number above
 * SQLOCK_ECANCELLED, which says nothing about a connection (-1 is SQLOCK_EBUSY), is taken for
 * SQLOCK_EUNREACH. */
typedef int (*sqlock_connect_fn)(void *user, void **out_native, sqlock_error *err);

/* Accept a server that may forget commits after a crash: who holds a lock is forgotten with them, and
 * somebody else may be granted it. Tokens rise all the same. */
#define SQLOCK_OPEN_ACCEPT_WEAK 0x1u
#define SQLOCK_OPEN_UNPREPARED 0x2u  /* keep no state in the session: for transaction poolers. Refused
                                        on MariaDB and MySQL */
/* Tokens go on above the server's clock, as it was when the server was first met after its start or promotion. A
 * clock that is behind those drawn before is refused (SQLOCK_EREFUSED): set it right, or have tokens lifted by 2^32
 * with this, 71 minutes of a clock, if you know that no other server has drawn larger ones. */
#define SQLOCK_OPEN_LIFT_TOKENS 0x4u

typedef struct sqlock_open_opts {
    uint32_t size;             /* sizeof(sqlock_open_opts) */
    unsigned flags;            /* SQLOCK_OPEN_... */
    const char *schema;        /* NULL: "public" on PostgreSQL, the URL's database on MySQL */
    const char *prefix;        /* of table names, [a-z][a-z0-9_]{0,23}; NULL: "sqlock_" */
    const char *ns;            /* namespace, 0 to 63 bytes of UTF-8; NULL: "" */
    const char *label;         /* told to those who find the lock busy; NULL: "" */
    sqlock_connect_fn connect; /* makes connections in place of a URL; then url must be NULL */
    void *connect_user;
    int32_t connections;     /* at most so many, at least 2 (one is kept for renewals) */
    int32_t request_ms;      /* longest time for one request: a try, a release, the open itself */
    int32_t lease_ms;        /* default of the manager's acquires */
    int32_t pid; /* told to others as the holder's; 0: this process. For one that takes locks for
                    another, and ends before it */
    int32_t grace_ms; /* where commits may be missing (another server, another timeline, one that may forget)
                         nobody is granted a lock by this manager until the longest lease that there was is over,
                         or so long at most: who was granted it by a lost commit may believe in it until then. It
                         counts from when the server was first met. Renewals go on. 0: grants at once, and a lock
                         may have two holders for a lease. Not on SQLite, where nothing tells of a loss */
} sqlock_open_opts;

#define SQLOCK_OPEN_OPTS_INIT                                                                      \
    { sizeof(sqlock_open_opts), 0, NULL, NULL, NULL, NULL, NULL, NULL, 2, 5000,                    \
      SQLOCK_LEASE_DEFAULT_MS, 0, 0 }
/* Writes the same values as SQLOCK_OPEN_OPTS_INIT, for callers without the macro. */
SQLOCK_API void sqlock_open_opts_init(sqlock_open_opts *opts);

/* Open a manager on the database at url, or on what opts->connect connects to.
 * Connects once, and checks the schema's version, the server's durability and that it can be written
 * to; it changes nothing (but the meta row, when the server is not the one that was
 * there before, or was started anew). opts may be NULL.
 * Ownership: on success *out_m is yours; end it with sqlock_close().
 * Threads:   any.
 * Returns:   0, or SQLOCK_EINVAL (unknown URL scheme, bad schema, prefix, namespace or numbers; told
 *            before any I/O), SQLOCK_EUNREACH (no server, no such host, request_ms ran out),
 *            SQLOCK_EDENIED (password, privileges), SQLOCK_ESCHEMA (absent, too new, or of libraries
 *            that draw tokens in another way: the text tells what was found and what is needed; one that is older than the library serves leases), SQLOCK_EREADONLY (replica, read-only
 *            file; of several hosts in the URL none that can be written to), SQLOCK_ECORRUPT (not a database), SQLOCK_EREFUSED (two copies of the client
 *            library, too old a library or server, weak durability without
 *            SQLOCK_OPEN_ACCEPT_WEAK, a clock behind the tokens without SQLOCK_OPEN_LIFT_TOKENS, a server that is one of several which grant, on PostgreSQL a view or a
 *            rule where a table should be, SQLite in a child of a process that had a manager open),
 *            SQLOCK_EDB, SQLOCK_ENOMEM, SQLOCK_ESYS. */
SQLOCK_API SQLOCK_CHECKED int sqlock_open(const sqlock_driver *driver, const char *url,
                           const sqlock_open_opts *opts, sqlock **out_m, sqlock_error *err);

/* Close a manager: stops its threads and its connections. Locks that are still held are not
 * released (release them first): their handles become LOST with SQLOCK_WHY_CLOSED and still have to
 * be freed, and their rows run out by themselves. No call may be under way in another thread.
 * NULL is allowed. In a forked child it does nothing. */
SQLOCK_API void sqlock_close(sqlock *m);

/* ---- locks ------------------------------------------------------------------------------------ */

typedef enum sqlock_state {
    SQLOCK_UNSURE = 1,  /* a reply was lost, or it was imported: sqlock_settle() tells */
    SQLOCK_HELD = 2,    /* ours until the deadline */
    SQLOCK_AT_RISK = 3, /* still ours, but renewals have failed for 2/3 of the lease; or the
                           database is on another server by now, a standby that was promoted or the
                           same one started anew, which has not yet confirmed it */
    SQLOCK_LOST = 4,    /* not ours any more, or never was: sqlock_lock_why() */
    SQLOCK_RELEASED = 5 /* given back, and the database has confirmed it */
} sqlock_state;

typedef enum sqlock_why {
    SQLOCK_WHY_NONE = 0,
    SQLOCK_WHY_EXPIRED = 1,     /* the deadline passed without a confirmed renewal (P4, P6) */
    SQLOCK_WHY_TAKEN = 2,       /* others have been granted the lock since; how this grant ended,
                                   the row has forgotten, unless they took it when it had run out */
    SQLOCK_WHY_BROKEN = 3,      /* an operator broke it */
    SQLOCK_WHY_REAPED = 4,      /* it had run out and was swept away */
    SQLOCK_WHY_GONE = 5,        /* its row is not there any more */
    SQLOCK_WHY_CLOCK = 6,       /* the server's clock jumped past the end of the lease */
    SQLOCK_WHY_MAX_HOLD = 7,    /* max_hold_ms was reached */
    SQLOCK_WHY_NOT_GRANTED = 8, /* settled: the request had never been granted */
    SQLOCK_WHY_CLOSED = 9,      /* the manager was closed */
    SQLOCK_WHY_FORK = 10,       /* this is a forked child */
    SQLOCK_WHY_RELEASED = 11,   /* another handle of the same grant gave it back */
    SQLOCK_WHY_FORGOTTEN = 12   /* the server has lost the commit that granted it, as one may that was
                                   promoted; nobody need have been granted the lock since */
} sqlock_why;

/* A word for a state ("held") or a reason ("gone to others"); static strings. */
SQLOCK_API const char *sqlock_state_name(sqlock_state state);
SQLOCK_API const char *sqlock_why_name(sqlock_why why);

/* Who holds a lock, as the database said in the same answer that refused it. */
typedef struct sqlock_holder {
    uint32_t size;                    /* sizeof(sqlock_holder), set by whoever made it */
    int64_t token;                    /* of the grant */
    int64_t left_ms;                  /* until the lease runs out; <= 0: it has run out */
    int64_t held_ms;                  /* since it was granted */
    char label[SQLOCK_LABEL_MAX + 1]; /* "pid@host" and, after a blank, the manager's label */
} sqlock_holder;

/* Called on the library's own timer thread when a lock becomes AT_RISK or LOST, and when one that
 * was AT_RISK is HELD again. What comes and goes at once may be told once, as it is then. It delays other
 * locks' callbacks, so be brief; of this library it may call the getters below and nothing else.
 * No call of it begins once sqlock_release() or sqlock_release_start() was called. One that had begun
 * is over when sqlock_release() or sqlock_lock_free() returns; sqlock_release_start() and
 * sqlock_op_finish() do not wait for it. */
typedef void (*sqlock_event_fn)(sqlock_lock *lock, sqlock_state state, void *user);

typedef struct sqlock_acquire_opts {
    uint32_t size;       /* sizeof(sqlock_acquire_opts) */
    int32_t wait_ms;     /* 0: one try; > 0: at most so long; SQLOCK_WAIT_FOREVER */
    int32_t lease_ms;    /* 0: the manager's default */
    int32_t renew_ms;    /* between renewals; 0: a third of the lease; at most half of it */
    int32_t max_hold_ms; /* renewals end so long after the grant, sqlock_renew() too; 0: never */
    unsigned flags;      /* SQLOCK_NO_RENEW */
    size_t name_len;     /* bytes of the name; SQLOCK_LEN_STRING: it ends with NUL */
    sqlock_cancel *cancel;  /* may cut the wait; NULL: nothing does */
    sqlock_event_fn on_event; /* NULL: none */
    void *user;               /* for on_event */
    sqlock_holder *holder;    /* filled when the answer is SQLOCK_EBUSY or EGUARDED (token 0: some
                                 transaction has locked the row, whose nobody can see); NULL: not */
    const unsigned char *owner; /* SQLOCK_OWNER_SIZE bytes: settle an acquire of a process that died;
                                   NULL: drawn at random, as it must be otherwise. One owner is one
                                   holder: two who give the same one are both told that they hold the
                                   lock, with one token. Only one may recover for a dead process. */
} sqlock_acquire_opts;

#define SQLOCK_NO_RENEW 0x1u /* the caller renews with sqlock_renew() */

#define SQLOCK_ACQUIRE_OPTS_INIT                                                                   \
    { sizeof(sqlock_acquire_opts), SQLOCK_WAIT_DEFAULT_MS, 0, 0, 0, 0, SQLOCK_LEN_STRING, NULL,    \
      NULL, NULL, NULL, NULL }
SQLOCK_API void sqlock_acquire_opts_init(sqlock_acquire_opts *opts);

/* Acquire the lock called name: 1 to 255 bytes of UTF-8 without NUL, compared byte by byte.
 * The first acquire without SQLOCK_NO_RENEW opens a second connection, that of the renewals; where none
 * is to be had it fails, and asks for nothing.
 * Waits at most opts->wait_ms, and where an answer is under way then, another 50 ms for it (not under
 * SQLite); a try is bounded by the manager's request_ms. A wait that was told of a holder ends as busy
 * when its time is up: near its end (50 ms, a quarter of a shorter wait, or as much as answers take of
 * late) it does not ask again. Not reentrant: a second
 * acquire of a name by the same program is busy like anybody's. opts may be NULL (defaults).
 * Ownership: on success, and with SQLOCK_EUNSURE, *out_lock is yours; end it with sqlock_release()
 *            and sqlock_lock_free(). Otherwise *out_lock is NULL. So `if (rc != 0) return rc;` leaks
 *            the handle of an UNSURE one, and its grant until that runs out: settle it, or call
 *            sqlock_scope_end(out_lock), which does nothing where there is none.
 * Threads:   any.
 * Returns:   0 (held, and at least half of the lease is left), or SQLOCK_EBUSY (held by someone else
 *            until the wait ran out), SQLOCK_EGUARDED (free, but kept by an open transaction until
 *            the wait ran out), SQLOCK_EUNSURE (a reply was lost: *out_lock is UNSURE and
 *            sqlock_settle() tells), SQLOCK_ETIMEOUT (the database answered nothing in time and
 *            nothing was applied; or no connection came free in time, which the text says: the option
 *            connections; or three grants in a row came with less than half of the lease
 *            left, and were given back: take a longer lease), SQLOCK_ECANCELLED (by opts->cancel, nothing is held),
 *            SQLOCK_ELOST (opts->owner has been released before and is never granted again),
 *            SQLOCK_EINVAL (name, numbers; before any I/O), SQLOCK_EFORK, SQLOCK_ENOMEM, and the
 *            database's: SQLOCK_EDB, EUNREACH, EDENIED, ESCHEMA, ECORRUPT, EREADONLY, EFULL,
 *            EREFUSED. While the wait lasts, a lost connection is opened again without an error. */
SQLOCK_API SQLOCK_CHECKED int sqlock_acquire(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                              sqlock_lock **out_lock, sqlock_error *err);

/* Make a handle for a grant that exists already: another process made it, and told its name, what
 * sqlock_lock_owner() and sqlock_lock_token() say of it. Nothing is sent: the handle is UNSURE, and
 *   sqlock_settle()   renews this very grant. It is HELD then, and renewed from then on (unless
 *                     SQLOCK_NO_RENEW); or LOST with the reason, and nothing was changed
 *   sqlock_release()  gives this very grant back, settled or not
 *   sqlock_lock_free() leaves it as it is
 * name has name_len bytes (SQLOCK_LEN_STRING: it ends with NUL). Of opts lease_ms (which need not be
 * that of the grant so far), renew_ms, max_hold_ms (counted from settling), flags, on_event and user
 * count; the others are not used. opts may be NULL (defaults).
 * All handles of a grant stand for one hold: one that is released ends it for all of them, which
 * learn it at their next renewal (SQLOCK_WHY_RELEASED).
 * Ownership: on success *out_lock is yours, as one of sqlock_acquire(). Else it is NULL.
 * Threads:   any.
 * Returns:   0, or SQLOCK_EINVAL (name, owner NULL, a token that cannot be, numbers), SQLOCK_EFORK,
 *            SQLOCK_ENOMEM. */
SQLOCK_API SQLOCK_CHECKED int sqlock_import(sqlock *m, const char *name, size_t name_len,
                             const unsigned char *owner, int64_t token,
                             const sqlock_acquire_opts *opts, sqlock_lock **out_lock,
                             sqlock_error *err);

/* Renew the lease now; its new deadline is at least the full lease from this call's start, less the
 * margin. Needed only with SQLOCK_NO_RENEW; otherwise renewals run by themselves until release,
 * max_hold_ms or loss.
 * Returns: 0, SQLOCK_ELOST (with the reason in the state), SQLOCK_EUNSURE (reply lost; the old
 *          deadline stands), SQLOCK_ETIMEOUT, SQLOCK_ESTATE (released; or unsure: settle first; or
 *          max_hold_ms has passed: nothing is renewed any more),
 *          SQLOCK_EFORK, or the database's codes (the old deadline stands). */
SQLOCK_API SQLOCK_CHECKED int sqlock_renew(sqlock_lock *lock, sqlock_error *err);

/* Give the lock back. Renewals and callbacks of it end with this call, whatever it returns; a callback
 * that is running is waited for when all else is done.
 * A lock in state UNSURE may be released too: what may have been granted is given back, and what may
 * still be granted is stopped. The answer waits until neither can come any more, which is at most
 * request_ms after the acquire; where that cannot be waited for it is SQLOCK_EUNSURE.
 * Of an imported grant that was not settled the row is looked at first, one statement more; if no answer to
 * that comes, it is SQLOCK_EUNSURE too.
 * Returns: 0 (state RELEASED; also when an earlier release had been applied), SQLOCK_ELOST (it was
 *          lost before: a row that still says ours is emptied, anything else is left alone),
 *          SQLOCK_EGUARDED (a transaction that guards it, by this handle or an imported one, is still
 *          open. On servers it is given back all the same, state RELEASED, and nobody is granted it
 *          before that transaction ends; under SQLite nothing was changed: ask again afterwards),
 *          SQLOCK_EUNSURE (reply lost: ask again, or sqlock_settle(), or let the lease run out),
 *          SQLOCK_ETIMEOUT, SQLOCK_EFORK, or the database's codes (nothing was changed; ask again or let it run out). */
SQLOCK_API SQLOCK_CHECKED int sqlock_release(sqlock_lock *lock, sqlock_error *err);

/* Find out what became of a request whose reply was lost, by sending the same request again with the
 * same owner; or whether an imported grant still is, by renewing it. Asks until there is an answer, at
 * most wait_ms (or SQLOCK_WAIT_FOREVER; 0: request_ms). That somebody else has the lock is an answer
 * only when the request can not arrive any more, which is at most request_ms after it was sent.
 * Returns: 0 (an acquire, an import: the lock is HELD; a release: it is RELEASED; nothing to settle: 0
 *          too), SQLOCK_EBUSY, SQLOCK_EGUARDED (an acquire: it was not granted, or has ended; the
 *          handle is LOST; what was granted before, and cannot be asked about while a transaction of
 *          somebody's keeps SQLite's file, stays UNSURE), SQLOCK_ELOST (held before, not any more),
 *          SQLOCK_EUNSURE (no answer yet), SQLOCK_EINVAL (wait_ms), SQLOCK_EFORK, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_settle(sqlock_lock *lock, int32_t wait_ms, sqlock_error *err);

/* Free the handle. A lock that is held is not released: renewals end and its lease runs out by
 * itself. Waits for a callback of this lock that is running, unless called from within it.
 * NULL is allowed. In a forked child it does nothing. */
SQLOCK_API void sqlock_lock_free(sqlock_lock *lock);

/* Getters: no I/O, any thread, also from callbacks. In a forked child: LOST with SQLOCK_WHY_FORK. */

/* The state now. HELD and AT_RISK are only ever told before the deadline, whatever the library's
 * threads, the network and the server do. */
SQLOCK_API sqlock_state sqlock_lock_state(sqlock_lock *lock);
/* Why it is LOST; SQLOCK_WHY_NONE in other states. */
SQLOCK_API sqlock_why sqlock_lock_why(sqlock_lock *lock);
/* 1 while HELD or AT_RISK, else 0: ask before each step that must not happen without the lock. */
SQLOCK_API int sqlock_is_held(sqlock_lock *lock);
/* When the lock stops being ours unless renewed, in microseconds of sqlock_now_us(); already less a
 * safety margin of a tenth of the lease, for clocks that are slewed or put forward. 0 if it was never
 * held. */
SQLOCK_API int64_t sqlock_lock_deadline_us(sqlock_lock *lock);
/* The fencing token: positive, below 2^53, larger than that of every earlier grant of this name.
 * 0 while it is not known (UNSURE after an acquire). Store it with your data, first of all, and refuse smaller ones. */
SQLOCK_API int64_t sqlock_lock_token(sqlock_lock *lock);
/* SQLOCK_OWNER_SIZE bytes, the owner of this grant. With name and token: what sqlock_import() takes. */
SQLOCK_API const unsigned char *sqlock_lock_owner(sqlock_lock *lock);
/* The name; *out_len, if not NULL, is its length in bytes. */
SQLOCK_API const char *sqlock_lock_name(sqlock_lock *lock, size_t *out_len);
/* A descriptor that becomes readable when the lock is lost (not when it is released), for poll().
 * Never read it; it belongs to the lock and is closed by sqlock_lock_free(). Made at the first call.
 * Returns: the descriptor, or SQLOCK_ESYS (none to be had) or SQLOCK_EFORK. */
SQLOCK_API int sqlock_lock_fd(sqlock_lock *lock, sqlock_error *err);

/* ---- scoped use ------------------------------------------------------------------------------- */

/* Work under the lock; for long work look at sqlock_is_held() now and then. */
typedef int (*sqlock_work_fn)(sqlock_lock *lock, void *user);
/* Acquire, call work(lock, user), release, free; also if the thread is cancelled in work. *out_result, if not NULL, is what work returned.
 * Returns: the codes of sqlock_acquire() when work was not called (an UNSURE grant is settled, or
 *          given back, for you); afterwards 0, or SQLOCK_ELOST when the lock was lost before work
 *          returned, or what sqlock_release() says. */
SQLOCK_API SQLOCK_CHECKED int sqlock_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                           sqlock_work_fn work, void *user, int *out_result, sqlock_error *err);

/* Releases and frees *lock, if there is one, whatever its state is, and sets it to NULL. At the end of a
 * scope: SQLOCK_SCOPED sqlock_lock *lock = NULL; */
SQLOCK_API void sqlock_scope_end(sqlock_lock **lock);
#if defined(__GNUC__)
#define SQLOCK_SCOPED __attribute__((cleanup(sqlock_scope_end)))
#endif

/* ---- cancelling ------------------------------------------------------------------------------- */

/* Make a cancel object, to be given in options. Free it after the calls that use it returned. */
SQLOCK_API SQLOCK_CHECKED int sqlock_cancel_new(sqlock_cancel **out_cancel, sqlock_error *err);
/* Cut every call that waits with this object, now and later. Any thread; not from signal handlers. */
SQLOCK_API void sqlock_cancel_fire(sqlock_cancel *cancel);
SQLOCK_API void sqlock_cancel_free(sqlock_cancel *cancel);

/* ---- event loops ------------------------------------------------------------------------------ */

/* The four calls that sqlock_acquire() is made of. start returns at once; the work is done by the
 * manager's worker thread. Poll sqlock_op_fd() for reading, call sqlock_op_step() when it is
 * readable, and sqlock_op_finish() when step returned 1. One thread at a time. A start that fails
 * answers as the blocking call would have before any I/O, and *out_op is NULL.
 * The thread does one at a time. One that waits behind another which hangs in the database ends when
 * its own time is up (SQLOCK_ETIMEOUT: it was not sent), and at once when it is cancelled; one that has
 * waited for half of its time may have the other's connection cut, which then asks again. */
SQLOCK_API SQLOCK_CHECKED int sqlock_acquire_start(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
                                    sqlock_op **out_op, sqlock_error *err);
SQLOCK_API SQLOCK_CHECKED int sqlock_renew_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
SQLOCK_API SQLOCK_CHECKED int sqlock_release_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err);
/* A descriptor that becomes readable when the request is done. It belongs to the op. */
SQLOCK_API int sqlock_op_fd(sqlock_op *op);
/* Returns 1 when the request is done, 0 when it is under way. Never blocks. */
SQLOCK_API int sqlock_op_step(sqlock_op *op);
/* Ask a request to end early. It still has to be finished. Any thread. */
SQLOCK_API void sqlock_op_cancel(sqlock_op *op);
/* Take the result and free op; waits for the request if it is not done. out_lock is for acquire and
 * may be NULL otherwise. Returns what the blocking call would have returned. */
SQLOCK_API SQLOCK_CHECKED int sqlock_op_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);

/* ---- seeing and breaking ---------------------------------------------------------------------- */

typedef struct sqlock_info {
    uint32_t size;
    const char *name; /* ends with NUL; name_len bytes */
    size_t name_len;
    int held; /* 1: an owner is in the row (left_ms <= 0: its lease has run out); 0: free */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    sqlock_holder holder; /* token: of the last grant, also when free */
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
 * moment's picture). Returns 0, what fn returned to stop, SQLOCK_EGUARDED (under SQLite: a transaction
 * keeps the whole file locked), or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_list(sqlock *m, const sqlock_list_opts *opts, sqlock_list_fn fn, void *user,
                           sqlock_error *err);

/* Take the lock away from the grant with this token (from sqlock_list or sqlock_holder), so that the
 * next acquire gets it. Its holder learns at its next renewal, and must be known to be dead: only the
 * token protects data from it. Where no note is made of it (a schema before version 3, or an older
 * library) a holder that is not, whose release loses its reply and is asked again when two others have
 * come and gone since, is told that it released.
 * Returns: 0, SQLOCK_EGUARDED (without SQLOCK_RETRY: it is broken, but an open transaction guards it, and
 *          nobody is granted it before that ends; with it, under SQLite: nothing was changed),
 *          SQLOCK_ELOST (no such grant is there: nothing was changed), SQLOCK_EUNSURE (reply
 *          lost: ask again; it is not there any more, if that says SQLOCK_ELOST), SQLOCK_EINVAL, SQLOCK_EFORK, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_break(sqlock *m, const char *name, size_t name_len, int64_t token,
                            sqlock_error *err);

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
    int64_t limit;         /* change at most so many rows; SQLOCK_REAP_NO_LIMIT */
    int32_t max_ms;        /* start nothing after so long; SQLOCK_REAP_NO_LIMIT */
    sqlock_cancel *cancel; /* may cut it; NULL: nothing does */
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

/* Tidy up, in all namespaces of the manager's table: free the rows whose lease has run out (their
 * holders, should they still live, learn SQLOCK_WHY_REAPED), and delete rows that nobody has used for
 * long. No lock waits for it: an expired one is granted to the next who asks, reaped or not. A lease
 * that is renewed or taken over meanwhile is left alone, and so is a row that is locked or guarded;
 * the tokens of a name go on rising after its row was deleted. Rows of a kind that this version does
 * not know stay.
 * One reaper works at a time for each table, under a lease of its own (as long as the manager's
 * default); a second one returns 0 with ran = 0. It sweeps in key order, a page and a statement at a
 * time, with pauses; run it every few minutes or hours, from wherever is convenient. It uses one of the
 * manager's connections.
 * opts may be NULL (defaults). out may be NULL; set its size, it is filled also on failure: what it
 * counts is done. What was changed by a statement whose reply was lost is not counted.
 * Threads:   any. Blocks until it is done.
 * Returns:   0, or SQLOCK_EINVAL (options; before any I/O), SQLOCK_ECANCELLED (by opts->cancel),
 *            SQLOCK_ELOST (its own lease was lost on the way: it stopped), SQLOCK_ETIMEOUT,
 *            SQLOCK_EUNSURE (whether it has its lease: nothing was done), SQLOCK_EGUARDED (under
 *            SQLite: a transaction keeps the file locked), SQLOCK_EFORK,
 *            SQLOCK_ENOMEM, SQLOCK_ESYS, or the database's codes (SQLOCK_EDENIED: pruning takes the
 *            right to DELETE). What failed is tried again for up to the manager's request_ms; a row
 *            that fails alone is left for the next sweep. */
SQLOCK_API SQLOCK_CHECKED int sqlock_reap(sqlock *m, const sqlock_reap_opts *opts, sqlock_reap_report *out,
                           sqlock_error *err);

/* ---- the schema ------------------------------------------------------------------------------- */

/* The tables that locks live in come by migrations: numbered steps, the same on every database, with
 * a way back. They are part of the driver's library. Opening a manager never runs them.
 *
 * The functions here connect by themselves, as sqlock_open() does; of opts (NULL: defaults) they use
 * schema, prefix, flags, label, connect and request_ms, which bounds each statement.
 *
 * A migrator may be killed at any moment, and run again: there is nothing to be mended by hand. Where
 * the database can (PostgreSQL, SQLite), a call is one transaction; elsewhere each statement can be
 * repeated. Any number of processes and threads may call at once: one works, and the others wait for
 * it, at most twice request_ms, and find it done. */

#define SQLOCK_SCHEMA_LATEST (-1) /* a version: the newest one that this library knows */

#define SQLOCK_MIGRATE_DOWN 0x1u    /* go down, which deletes what newer versions stored */
#define SQLOCK_MIGRATE_DRY_RUN 0x2u /* look and count, change nothing */
#define SQLOCK_MIGRATE_HELD 0x4u    /* go down though locks are held: their holders lose them */

/* Bring the schema to this library's version: sqlock_migrate_to() the latest without flags. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migrate(const sqlock_driver *driver, const char *url,
                              const sqlock_open_opts *opts, int *out_applied, sqlock_error *err);

/* Bring the schema to a version: 0 (nothing but the meta row, which keeps tokens rising) up to the
 * latest. *out_applied, if not NULL, counts the migrations that were applied or taken back (dry run:
 * that would be): 0 when there was nothing to do. Written on success only.
 * On the way up a server on which sqlock_open() would refuse to take locks is refused with the same
 * text, before anything is written: a replica, a node of several that grant, weak durability (unless
 * opts->flags accept that).
 * Without SQLOCK_MIGRATE_DOWN it goes up or nowhere, with it down or nowhere. Going down waits for
 * open transactions that use the tables, and is refused while a lease runs. Programs that go on get
 * SQLOCK_ESCHEMA; after the next up their tokens go on rising.
 * Returns:   0, or SQLOCK_EINVAL (flags, a version that this library does not know, or one that lies
 *            in the other direction), SQLOCK_ESCHEMA (the schema is newer than the library; a migration
 *            was applied from another file than this library's; there is no such schema to put tables
 *            into), SQLOCK_EREFUSED (PostgreSQL: a table of ours is a stranger's; the text tells whose),
 *            SQLOCK_EBUSY (down: a lock is held), SQLOCK_ETIMEOUT (no answer in time, or another
 *            migrator was at work all the time), SQLOCK_ELOST (where DDL is not transactional: this
 *            migrator was stopped for so long that another one took over), and the codes of sqlock_open().
 *            Whatever it returns, the call may be made again. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migrate_to(const sqlock_driver *driver, const char *url,
                                 const sqlock_open_opts *opts, int version, unsigned flags,
                                 int *out_applied, sqlock_error *err);

typedef enum sqlock_migration_state {
    SQLOCK_MIGRATION_PENDING = 1,    /* not applied */
    SQLOCK_MIGRATION_APPLIED = 2,    /* applied from the file that this library has */
    SQLOCK_MIGRATION_DRIFTED = 3,    /* applied from a file with another checksum */
    SQLOCK_MIGRATION_UNRECORDED = 4, /* the schema's version includes it, no record does */
    SQLOCK_MIGRATION_UNKNOWN = 5     /* recorded, and not known to this library: from a newer one */
} sqlock_migration_state;

/* A word for it ("pending"); a static string. Any thread. */
SQLOCK_API const char *sqlock_migration_state_name(sqlock_migration_state state);

typedef struct sqlock_migration_info {
    uint32_t size; /* sizeof(sqlock_migration_info) */
    int version;
    const char *name; /* "locks" */
    sqlock_migration_state state;
    int64_t applied_us;     /* server time; 0: no record */
    const char *checksum;   /* 16 hex digits, of this library's file; NULL: UNKNOWN */
    const char *recorded;   /* of the file that was applied; NULL: no record */
} sqlock_migration_info;

/* Return 0 to go on, anything else to stop. info and what it points to live during the call. */
typedef int (*sqlock_migration_fn)(const sqlock_migration_info *info, void *user);

/* Tell of every migration that the library knows or the database has a record of, by version. Changes
 * nothing; an empty database has all of them pending. Needs to read the meta and migration tables.
 * Returns 0, what fn returned to stop, SQLOCK_EINVAL, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_status(const sqlock_driver *driver, const char *url,
                                       const sqlock_open_opts *opts, sqlock_migration_fn fn,
                                       void *user, sqlock_error *err);

/* Prove that the schema is what this library's migrations make: its version, a record with the right
 * checksum for each migration, and every table with its columns (type, NOT NULL, place in the primary
 * key), its unique indexes and no others, and as many CHECKs as it should have (MySQL before 8.0.16
 * keeps none). On PostgreSQL also an index on what renewals change is a difference: it would make each of
 * them write to it. Columns, other indexes and tables that are there beyond that, and what a CHECK
 * says, are not looked at. Changes nothing.
 * Returns 0, SQLOCK_ESCHEMA (the text tells the first difference), or the codes of
 * sqlock_migration_status(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_verify(const sqlock_driver *driver, const char *url,
                                       const sqlock_open_opts *opts, sqlock_error *err);

/* Record the migrations up to a version (SQLOCK_SCHEMA_LATEST, or 1 and more) as applied, without
 * running them: for a database where another tool has run their statements. The tables must be there;
 * for the latest version they are compared as sqlock_migration_verify() does.
 * Records that are there already stay. Safe against migrators at work, like sqlock_migrate_to().
 * Returns 0, SQLOCK_EINVAL (version), SQLOCK_ESCHEMA (the tables are not what that version makes, a
 * record has another checksum, or the schema is of a newer version already), or the codes of
 * sqlock_migrate_to(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_baseline(const sqlock_driver *driver, const char *url,
                                         const sqlock_open_opts *opts, int version,
                                         sqlock_error *err);

/* Take a piece of text. Return 0 to go on, anything else to stop. */
typedef int (*sqlock_write_fn)(const char *text, size_t len, void *user);

#define SQLOCK_SQL_BARE 0x1u /* no transaction around it: for tools that bring their own */

/* Write the SQL of the migrations from one version to another (down where to < from), without a
 * database, for its own client (psql -v ON_ERROR_STOP=1, sqlite3 -bail, mysql) or another tool. It
 * includes the records, so that afterwards sqlock_open() works and sqlock_migration_status() says
 * applied. Unlike sqlock_migrate_to() it cannot look whether the schema is at `from`, nor whether
 * locks are held. Of opts (or NULL) schema and prefix are used.
 * Returns 0, what write returned to stop, SQLOCK_EINVAL, SQLOCK_ENOMEM. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_sql(const sqlock_driver *driver, const sqlock_open_opts *opts,
                                    int from, int to, unsigned flags, sqlock_write_fn write,
                                    void *user, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
