#ifndef SQLOCK_ENGINE_MANAGER_H
#define SQLOCK_ENGINE_MANAGER_H

#include <sqlock/adopt.h>
#include <sqlock/driver.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/list.h"
#include "core/base/process.h"
#include "core/base/thread.h"
#include "core/engine/cancel.h"
#include "core/engine/hold.h"
#include "core/model/hash.h"
#include "core/model/heap.h"
#include "core/model/lease.h"
#include "core/model/skew.h"
#include "core/sql/rows.h"
#include "core/sql/texts.h"

/* What the files of the engine share. The order of mutexes is sqlock_cancel.mu, then sqlock.mu. No
 * I/O and no callback happens under sqlock.mu. */

#define CONNECTIONS_MAX 64
#define LABEL_MAX       SQLOCK_LABEL_MAX
#define WHO_MAX         126 /* bytes of "pid@host" */
#define LABEL_TEXT_MAX  (LABEL_MAX - WHO_MAX - 1)

/* A place for a connection. busy is guarded by the manager's mutex. native belongs to the thread
 * that made it busy. */
struct conn {
    void *native; /* NULL: not open */
    int busy;
    int schema;     /* its version at the handshake; belongs to the thread that made it busy */
    int used;       /* it was given back before, so it may have died since */
    int wake;       /* cancels connecting; -1: not made yet */
    int running;    /* a call is under way, which can be cancelled; under the mutex */
    uint64_t call;  /* the number of the last one; rises over all that stands in this place */
    int64_t until;  /* the reserved one is lent until then; otherwise TIME_NEVER */
    uint32_t host;  /* of the URL, from 0; belongs to the thread that made it busy, or the mutex */
    int64_t server; /* sqlock.server when it was opened, or at its handshake; under the mutex */
    int listens;    /* it receives the notifications of this client; belongs to the thread as schema
                       does */
    int accepted;   /* the handshake accepted it, and its clock is the manager's; under the mutex */
};

/* For what a connection is taken. One place is reserved for renewals, so that calls never delay
 * them. */
enum pool_use {
    POOL_CALLS,
    POOL_URGENT,   /* as calls; after a while the reserved one, while no renewal is due */
    POOL_RENEWALS, /* the reserved one; an idle one of the calls while that one cannot be opened */
    POOL_RESERVED, /* only the reserved one */
    POOL_OPEN,     /* whichever is open and idle; else the reserved one */
};

/* Looks for circles of those who wait for each other (engine/circles.h). */
struct circles {
    size_t n;             /* ops with an actor that wait */
    int64_t look_at;      /* the next one */
    int64_t pause;        /* behind that */
    struct stand *before; /* what the last one saw, sorted; NULL: nothing */
    size_t n_before;
};

/* The manager lasts. It is closed, and the database has to know. The database knows. */
enum queue_end { QUEUE_LASTS, QUEUE_ENDS, QUEUE_ENDED };

/* Waiting in the database's queues (engine/queue.h). */
struct queue {
    unsigned char client[SQLOCK_OWNER_SIZE]; /* this manager; does not change */
    int has_client;                          /* ... was drawn */
    struct hash owners, names;               /* struct place.by_owner, line.by_name */
    struct link places;                      /* struct place.in_queue: of ops that wait */
    struct link leavers;                     /* struct leaver.in_leavers: of ops that have ended */
    struct link alone;                       /* struct place.in_alone; who came first is first */
    int leaving;                             /* so many are about to */
    cond left;                               /* one has left */
    uint64_t left_key; /* line_key() of the last that has left, or is about to, */
    int64_t left_at;   /* and when that was; TIME_NEVER: it is about to */
    int hears;         /* the reserved connection receives notifications */
    enum queue_end end;
    int deaf;            /* this server refuses to let it listen */
    int hearing;         /* ... and waits for that now */
    int lent;            /* others needed that connection */
    void *parted;        /* the connection that listened, until the database does without it */
    int64_t alive_until; /* the database takes this client for alive */
    int64_t beat_at, leave_at, hear_at;
    int64_t heard_at;  /* when the worker heard last, while it was busy */
    int64_t ghosts_at; /* no look for places that no one knows of before that */
    int64_t best;      /* the smallest of its places; 0: not known */
    int64_t best_at;   /* ... since then */
    struct circles circles;
};

struct sqlock {
    /* do not change once the manager is open */
    sqlock_driver table;         /* the driver's, as far as this library knows it */
    sqlock_adopter adopter;      /* the same, if the driver has one: table.adopter */
    const sqlock_driver *driver; /* points to table */
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
    int64_t process; /* the process that may use it: sqlock_process_id() */
    int n_conns;
    uint32_t n_hosts; /* how many the URL names */
    int64_t host_us;  /* time limit for each; 0: none */

    mutex mu; /* guards all that follows, and the fields of locks and ops that say so */
    int refs; /* one for the handle, and one for each lock */
    struct conn conns[CONNECTIONS_MAX]; /* [0]: reserved for renewals */
    int reserved_tried;                 /* it was to be opened, at least once */
    int64_t opening;                    /* time to open a connection, with its handshake */
    int64_t round;                      /* the longest that such an answer took (REQ_PACES) */
    int opening_fails;                  /* the last one could not be opened */
    int64_t mend_at;                    /* when [0] is to be opened again, if there is time */
    struct link waiting;                /* struct pool_waiter.in_manager: for a connection */
    struct hold hold;                   /* of batches, for those who come soon (engine/hold.h) */
    uint32_t host;  /* the next walk begins with it: it answered last, or those before it failed */
    int64_t server; /* rises each time another server is met; 0: none was met yet */
    char server_id[512];
    size_t server_len;
    struct skew skew;
    int64_t longest;             /* no lease of this manager is longer, and its server knows that */
    int64_t above;               /* a server that it has met draws tokens above that */
    char place[64];              /* the default schema of its connections; "": not known */
    char running[LABEL_MAX + 1]; /* server and database of the last handshake; "": not known */
    struct link locks;           /* sqlock_lock.in_manager */
    struct heap ticks, renewals, checks; /* by the time at which a lock has something to do */
    struct heap ends;                    /* by deadline, of leases that are renewed */
    struct link events;                  /* sqlock_lock.in_events: to be reported, oldest first */
    struct link ops;                     /* sqlock_op.in_manager: those that the worker drives */
    struct heap op_starts, op_halves, op_ends; /* of these, by when the worker or timer acts */
    struct queue queue;
    struct heap op_urgent; /* as op_starts, of those that wait for no lock */
    sqlock_op *driving;    /* the op that the worker is driving now */
    int64_t driving_since;
    struct loop *loop;           /* the manager has no threads: an event loop steps it; or NULL */
    int timer_runs, worker_runs; /* the thread is running */
    int stopping;
    thread worker, timer; /* timer: the thread that runs callbacks */
    cond worker_cond;
    int timer_alarm, timer_wake_fd;    /* descriptors */
    int64_t timer_until, worker_until; /* the threads sleep until then; INT64_MIN: they are awake */
    cond reported;                     /* a callback has returned */
};

/* What has not been settled by an answer of the database. */
enum lock_pending { PENDING_NOTHING, PENDING_ACQUIRE, PENDING_IMPORT, PENDING_RELEASE };

struct sqlock_lock {
    sqlock *m;
    const char *ns;   /* the manager's, or that of the library's own locks */
    const char *name; /* stands behind this struct */
    uint32_t ns_len, name_len;
    uint32_t key_len; /* of the row that it holds: name, or name with its seat's number behind */
    int32_t seat;     /* its number, of a lock that is shared or has slots; -1: none */
    int64_t mode;     /* SQLOCK_EXCLUSIVE, SQLOCK_SHARED, or the number of slots */
    char *label;      /* NULL: the manager's */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    sqlock_event_fn on_event;
    void *user;
    unsigned flags;
    bool has_actor; /* whose bytes the owner begins with */
    bool given;     /* the application gave the owner, and may give it again */

    /* under m->mu */
    int refs; /* one for the handle, one for each renewal or op under way */
    enum lock_pending pending;
    struct link in_manager;
    struct link in_events;
    struct heap_node tick, renewal, check, end; /* in the manager's heaps of these names */
    struct lease lease;
    int64_t token;      /* 0: not known */
    int64_t server_end; /* end of the lease by the server's clock, as last confirmed */
    int64_t end_server; /* the server that confirmed it (sqlock.server) */
    int64_t end_sent;   /* when that request was sent */
    int64_t retry_at;   /* do not renew before that time */
    int64_t given_back; /* the token of a late grant that may have been given back; 0: none */
    int64_t lost_until; /* a lost acquire may be granted until then, by the server's clock */
    int failures;       /* renewals without an answer, in a row */
    int fd;             /* sqlock_lock_fd(), or -1 */
    unsigned to_act;    /* what lock_act() has to do */
    bool renewing;      /* a renewal is under way */
    bool behind;        /* its last renewal delayed others: next time it comes after them */
    bool doubted;       /* the last answer denied it: look once more before believing that */
    bool unchecked;     /* no renewal will show whether the new server has it: look at it */
    bool release_sent;  /* a release may have been applied */
    bool contended;     /* it was waited for: others may wait too */
    bool gave_up;       /* its acquire has waited, and was refused */
    bool queued;        /* its acquire has ended unsure, and may still have a place in the queue */
    bool guards;        /* it was guarded, perhaps by another handle: a guard may be open */
    bool quiet;         /* released or freed: no new callback begins */
    bool changes;       /* an op is under way that is granted the lock in its place (op->former), */
    bool paused;        /* and which gives it back: no renewals meanwhile */
    bool downgrades;    /* it takes the place of its owner's exclusive grant, or is not granted */
    bool upgrades;      /* it takes the place of a shared grant, or is not granted */
    bool to_report;     /* the timer has to call on_event */
    bool reporting;     /* the timer is calling on_event now */
};

/* A sqlock_holder that a request has met, with no more room for the label than that needs. */
struct met_holder {
    int64_t token, left_ms, held_ms, place;
    char label[];
};

/* An op: it makes one request after the other until it is done. Its verb says which. Many may wait
 * at the same time, so it is small. */
struct sqlock_op {
    sqlock *m;
    sqlock_lock *lock;
    const struct verb *verb;
    const char *word;        /* of an error that op_finish() gives: what was called; NULL: none */
    void *work;              /* what the verb keeps between requests */
    struct attempt *attempt; /* NULL: no request is under way */
    int64_t begun;
    int64_t deadline; /* TIME_NEVER: no deadline */
    int64_t next_at;
    int phase;            /* of the verb: which request is next or under way; 0 at first */
    int looks;            /* that saw a guard, in a row */
    int tries;            /* attempts made */
    int refusals;         /* pauses so far, for the backoff */
    int retries_at_once;  /* retries without a pause, in a row */
    bool decided;         /* the verb called op_done() with code */
    bool succeeded;       /* what was wanted is done, and only a look is left */
    bool once;            /* it does not wait: one refusal is the answer */
    bool behind;          /* another name of its list was tried before: its time is the list's */
    bool settle;          /* it only looks what became of a request, and never waits for the lock */
    bool needs_handshake; /* the next attempt makes a handshake before its request */
    bool unsure;          /* the reply to an attempt was lost, and no answer since has settled it */
    bool patient;         /* it cannot have the reserved connection, and waits for another */
    bool stale;           /* the attempt used a connection that was open before, or was cut short
                             because another connection has met another server */
    bool gives_lock;      /* op_finish() hands the lock out, or frees it */
    bool hides_lock;      /* no one else has the lock: op_finish() frees it */
    int64_t server;       /* the server of that connection (sqlock.server) */
    int refused;          /* SQLOCK_EBUSY or SQLOCK_EGUARDED, if the last answer was that */
    int64_t told;         /* when the answer came that said so */
    int64_t held_until;   /* end of that holder's lease, unless it is released before; 0: no one is
                             known */
    struct met_holder *holder; /* at the last refusal, for out_holder; NULL: not known */
    sqlock_holder *out_holder;
    struct kept_error refusal;
    struct kept_error err; /* of the last failure, or of the result */
    sqlock_lock *former;   /* the grant of the same holder whose place it takes; NULL: none */

    /* under m->mu */
    int code;
    bool done;
    bool async; /* the worker drives it */
    bool cancelled;
    bool end_attempt;     /* this attempt is to end: by a cancel, or for another request */
    bool alone;           /* its next request does not go with those of others (engine/batch.h) */
    bool parked;          /* it sleeps in a queue until it is called, or until next_at */
    bool urgent;          /* it waits for no lock */
    int fd;               /* sqlock_op_fd(), or -1 */
    struct conn *running; /* the connection that an attempt uses */
    struct conn *connecting; /* the connection that an attempt is opening */
    struct link *company; /* NULL, or in_company of ops that its thread drives together with it */
    struct party *party;  /* of those that begin behind it (engine/party.h); NULL: none do */
    struct link in_party; /* it has not begun yet */
    struct link in_manager;
    struct heap_node start, half, end; /* in the manager's heaps op_starts or op_urgent, op_halves,
                                          op_ends */
    sqlock_op **driven_by; /* of async requests: where who drives it names it, until it has ended */
    cond *wake;            /* on which who drives it sleeps; NULL: no one does */
    cond *awaited;         /* the same of who waits for its end */
    struct place *in_queue;           /* its place in the database's queue; NULL: none */
    struct cancel_listener *listener; /* stands behind it; NULL: it listens to no cancel object */

    /* What several verbs have in common, and each verb's own. */
    int late; /* grants that came too late, in a row: of an acquire, or of what settles an import */
    struct {
        bool passes;       /* others wait for the lock that is given back */
        sqlock_lock *next; /* of a waiter to whom the request may pass it on */
    } pass;
    union {
        struct {
            int64_t token;     /* of a grant that came too late and is given back */
            int64_t not_after; /* the last request does nothing after that, by the server's clock */
            bool queued;       /* the last answer was to QUEUE */
            bool called;       /* the lock was offered to it: the next request takes it up */
            bool has_turn; /* it has the lock's row, and waits for a seat, or for all to be empty */
            bool resigned; /* the seat was given back in whose place it takes the lock */
            int64_t turned;     /* when the request was sent that last extended its turn */
            int64_t turn_came;  /* when it was granted that first */
            int64_t turn_since; /* of that turn, where it takes the place of a seat */
            int64_t unlike;     /* the lock has other seats: of this kind; 0: no */
            int64_t
                unlike_at; /* since then others wait in a mode that does not go with it; 0: none */
        } acquire;
        struct {
            int denials; /* by the database, in a row */
        } renew;
        struct {
            unsigned char client[SQLOCK_OWNER_SIZE], owner[SQLOCK_OWNER_SIZE]; /* for NOTIFY */
        } call;
    };
};

struct sqlock_cancel {
    int64_t process;
    mutex mu;
    int fired;
    cond wake;             /* signalled when it fires, for sleeping threads */
    struct link listeners; /* of struct cancel_listener.in_cancel */
};

/* manager.c: a manager's life, and the server's clock. driver: a complete table of this library's
 * size. It need not live longer than the call. */
int manager_new(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                sqlock **out_m, sqlock_error *err);
/* The same, after a look at what the application gave. In open.c. */
int manager_open(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                 sqlock **out_m, sqlock_error *err);
/* Whoever writes keeps all others out of the whole database (SQLite). */
static inline int manager_has_one_writer(const sqlock *m)
{
    return (m->driver->caps & SQLOCK_CAP_ONE_WRITER) != 0;
}
void manager_unref_locked(sqlock *m); /* unlocks; the last reference frees */
void manager_stop(sqlock *m);         /* ends the threads and closes the connections */
/* 0, or SQLOCK_ESYS if a thread or descriptor could not be made. A manager that is stepped starts
 * none. m->mu is held. */
int manager_start_threads(sqlock *m);
/* "pid@host text", which others see of a holder. */
void manager_label(const sqlock *m, const char *text, char out[LABEL_MAX + 1]);
/* An answer showed the server's clock. If that clock jumped, this corrects the deadlines. m->mu is
 * held. */
void manager_saw_clock(sqlock *m, int64_t sent, int64_t received, int64_t server_now);

/* threads.c: the bodies of the threads */
void *timer_main(void *m);
void *worker_main(void *m);
/* What the timer does when it wakes up. m->mu is held in these three. */
void timer_tick(sqlock *m);
/* Run one callback, if one is wanted, and return 1. m->mu is released meanwhile. */
int timer_report(sqlock *m);
/* When the timer has something to do next. */
int64_t timer_due(sqlock *m);
/* There is something to do at that time (0: now). Wake the thread if it would sleep longer. An
 * awake thread looks at everything before it sleeps. m->mu is held. */
void timer_wake(sqlock *m, int64_t at);
void worker_wake(sqlock *m, int64_t at);

#endif
