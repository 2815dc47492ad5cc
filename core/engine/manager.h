#ifndef SQLOCK_ENGINE_MANAGER_H
#define SQLOCK_ENGINE_MANAGER_H

#include <sqlock/driver.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/list.h"
#include "core/base/process.h"
#include "core/base/thread.h"
#include "core/engine/cancel.h"
#include "core/model/lease.h"
#include "core/model/skew.h"
#include "core/sql/texts.h"

/* What the engine's files share. Order of mutexes: sqlock_cancel.mu before sqlock.mu. No I/O and no
 * callback happens under sqlock.mu. */

#define CONNECTIONS_MAX 64
#define LABEL_MAX       SQLOCK_LABEL_MAX
#define WHO_MAX         126 /* bytes of "pid@host" */
#define LABEL_TEXT_MAX  (LABEL_MAX - WHO_MAX - 1)

/* A place for a connection. busy belongs to the manager's mutex; native to whoever made it busy. */
struct conn {
    void *native; /* NULL: not open */
    int busy;
    int schema;  /* its version when the handshake was last made; belongs to whoever made it busy */
    int used;    /* it has been given back before: it may have died since */
    int wake;    /* cuts connecting; -1: not made yet */
    int running; /* a call is under way, which may be cut; under the mutex */
    int cut;     /* one was, perhaps when it had just ended: the connection is not used again */
    int64_t until;  /* the kept place: give it back by then, for the renewals; else TIME_NEVER */
    uint32_t host;  /* of the URL, from 0; belongs to whoever made it busy, or the mutex */
    int64_t server; /* sqlock.server when it was opened, or as handshake found; under the mutex */
    int accepted;   /* the handshake has accepted it: its clock is the manager's; under the mutex */
};

/* Who takes a connection: one place is kept for renewals, so that calls never starve them. */
enum pool_use {
    POOL_CALLS,
    POOL_URGENT,   /* as calls; after a while the kept place, as long as no renewal is due */
    POOL_RENEWALS, /* the kept place; a call's idle connection while that one cannot be opened */
    POOL_KEPT,     /* the kept place itself */
};

struct sqlock {
    /* fixed once it is open */
    sqlock_driver table;         /* the driver's, as far as this library knows it */
    const sqlock_driver *driver; /* table */
    struct texts *texts;
    char *url;
    sqlock_connect_fn connect;
    void *connect_user;
    unsigned flags;
    char ns[SQLOCK_NAMESPACE_MAX + 1];
    size_t ns_len;
    char who[WHO_MAX + 1];     /* "pid@host" */
    char label[LABEL_MAX + 1]; /* "pid@host text", of grants without a label of their own */
    int64_t request_us, lease_us, grace_us;
    int64_t process; /* that may use it: sqlock_process_id() */
    int n_conns;
    uint32_t n_hosts; /* that the URL names */
    int64_t host_us;  /* no longer for one of them; 0: not said */

    mutex mu; /* guards all that follows, and the locks' and ops' fields that say so */
    int refs; /* the handle, and every lock */
    struct conn conns[CONNECTIONS_MAX]; /* [0]: kept for renewals */
    int kept;                           /* [0] has been open */
    int64_t opening;                    /* what it takes to open a connection, handshake and all */
    int64_t round;                      /* what acquires take to be answered, of late at the most */
    int opening_fails;                  /* the last one could not be opened */
    int64_t mend_at;                    /* [0] is to be opened again, when there is time for it */
    cond conn_free;
    uint32_t host;  /* walks begin with it: it answered last, or those before it did not */
    int64_t server; /* rises when another server is met; 0: none yet */
    char server_id[512];
    size_t server_len;
    struct skew skew;
    int64_t longest; /* no lease of this manager's is longer, and its server knows that */
    int64_t above;   /* some server that it has met draws tokens above that */
    char place[64];  /* the schema that its connections have for their own; "": not known */
    char running[LABEL_MAX +
                 1];    /* the server that the last handshake met, and its database; "": not told */
    struct link locks;  /* sqlock_lock.in_manager */
    struct link ops;    /* sqlock_op.in_manager: those that the worker drives */
    sqlock_op *driving; /* the one that it is driving now */
    int64_t driving_since;
    int watching, talking; /* the thread runs */
    int stopping;
    thread worker, timer;
    cond worker_cond;
    int timer_alarm, timer_wake_fd;    /* descriptors */
    int64_t timer_until, worker_until; /* they sleep until then; INT64_MIN: they are awake */
    cond told;                         /* a callback has returned */
};

/* What may still be unknown to the database's answer. */
enum lock_pending { PENDING_NOTHING, PENDING_ACQUIRE, PENDING_IMPORT, PENDING_RELEASE };

struct sqlock_lock {
    sqlock *m;
    const char *ns; /* the manager's, or the library's own */
    size_t ns_len;
    char name[SQLOCK_NAME_MAX + 1];
    size_t name_len;
    char *label; /* NULL: the manager's */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    unsigned flags;
    sqlock_event_fn on_event;
    void *user;
    int64_t process;

    /* under m->mu */
    int refs; /* the handle, and renewals under way */
    struct link in_manager;
    struct lease lease;
    enum lock_pending pending;
    int64_t token;      /* 0: not known */
    int64_t server_end; /* end of the lease by the server's clock, as last confirmed */
    int64_t retry_at;   /* renewals: not before */
    int failures;       /* renewals: without an answer, in a row */
    int renewing;       /* a renewal is under way */
    int behind;         /* the last one kept others waiting: it goes behind them */
    int doubted;        /* the last answer was no: look once more before believing it */
    int unchecked;      /* no renewal will tell whether the server that was met has it: look */
    int release_sent;   /* a release may have been applied */
    int guards;         /* it was guarded, by this handle or perhaps another: a guard may be open */
    int64_t lost_until; /* an acquire whose reply was lost may be granted so long, by the server's
                           clock */
    int quiet;          /* released or freed: no callback begins any more */
    int tell;           /* the timer has to call on_event */
    int telling;        /* it is calling it now */
    int fd;             /* sqlock_lock_fd(), or -1 */
};

/* How a request is made: one attempt after the other until it is done. */
struct sqlock_op {
    sqlock *m;
    sqlock_lock *lock;
    void (*advance)(sqlock_op *op); /* the verb: one attempt, then op_done() or op_again() */
    void *work;                     /* what the verb keeps between attempts */
    int64_t begun;
    int64_t deadline; /* TIME_NEVER: endless */
    int64_t next_at;
    int once;             /* a try: one refusal is the answer */
    int settle;           /* only finding out: never waits for the lock */
    int greet;            /* the next attempt makes the handshake before it asks */
    int tries;            /* attempts made */
    int refusals;         /* pauses so far: for the backoff */
    int unsure;           /* an attempt's reply was lost, and no answer since has cleared it up */
    int patient;          /* the kept place was, or is, not for it: it waits for one of the calls */
    int stale;            /* the attempt used a connection that had been open before */
    int64_t server;       /* ... to this one (sqlock.server) */
    int denials;          /* how often the database said no, in a row */
    int retries_at_once;  /* immediate repetitions in a row */
    int late;             /* grants that came too late, in a row */
    int refused;          /* SQLOCK_EBUSY or SQLOCK_EGUARDED if the last answer was that */
    sqlock_holder holder; /* of the last refusal */
    int64_t held_until;   /* by that holder, unless it is given up: the end of its lease */
    sqlock_error refusal;
    sqlock_holder *out_holder;
    sqlock_error err; /* of the last failure, or the result */
    int gives_lock;   /* finish hands the lock out (or frees it) */

    /* under m->mu */
    int async; /* driven by the worker */
    int done, code;
    int cancelled;
    int cut;                 /* this attempt is to end, for that or for another request */
    struct conn *running;    /* the connection that an attempt is using */
    struct conn *connecting; /* ... is opening */
    struct link in_manager;
    cond wake;
    int fd; /* async: readable when done */

    struct cancel_listener listener; /* by a cancel object */
};

struct sqlock_cancel {
    int64_t process;
    mutex mu;
    int fired;
    cond wake;        /* it fires, for who waits for nothing else */
    struct link cuts; /* struct cancel_listener.in_cancel: what listens */
};

/* manager.c: life of a manager, and what is known of the server's clock. driver: a whole table, of
 * this library's size, that need not outlive the call. */
int manager_new(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                sqlock **out_m, sqlock_error *err);
void manager_unref_locked(sqlock *m); /* unlocks; frees with the last reference */
void manager_stop(sqlock *m);         /* ends threads and connections */
/* 0, or SQLOCK_ESYS: one could not be made. m->mu is held. */
int manager_start_threads(sqlock *m);
/* An answer told the server's clock: corrects deadlines when it jumped. m->mu is held. */
/* "pid@host text": what others see of a holder. */
void manager_label(const sqlock *m, const char *text, char out[LABEL_MAX + 1]);
void manager_saw_clock(sqlock *m, int64_t sent, int64_t received, int64_t server_now);

/* timer.c, worker.c: thread bodies */
void *timer_main(void *m);
void *worker_main(void *m);
/* Something has to be done at that time (0: now): wake them if they would sleep past it. Those that
 * are awake look at everything before they sleep. m->mu is held. */
void timer_wake(sqlock *m, int64_t at);
void worker_wake(sqlock *m, int64_t at);

#endif
