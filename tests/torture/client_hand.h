/* A client: its arguments, its threads and what they share. */
#ifndef SQLOCK_TESTS_TORTURE_CLIENT_HAND_H
#define SQLOCK_TESTS_TORTURE_CLIENT_HAND_H

#include <pthread.h>
#include <stdatomic.h>

#include <sqlock/async.h>
#include <sqlock/transaction.h>

#include "tests/lib/dice.h"
#include "tests/torture/client.h"
#include "tests/torture/client_app.h"
#include "tests/torture/text.h"

/* ---- client_plan.c: what it is to do, and how often ------------------------------------------ */

/* What a thread does next, by weight. */
#define CLIENT_STEPS(X)                                                                            \
    X(STEP_TRY, "try", 60)          /* a lease, one try */                                         \
    X(STEP_WAIT, "wait", 18)        /* a timed wait */                                             \
    X(STEP_LOOP, "loop", 12)        /* by an event loop */                                         \
    X(STEP_ROW_LOCK, "row-lock", 8) /* a transaction under a row lock */                           \
    X(STEP_CAS, "cas", 8)           /* compare and set */                                          \
    X(STEP_REAP, "reap", 1)

/* What happens to a lease, or to who finds it busy: so many in 1000. The slow ones keep one of the
 * few names from everybody for a lease or more. */
#define CLIENT_CHANCES(X)                                                                          \
    X(CHANCE_MANUAL, "manual", 400)   /* without automatic renewals */                             \
    X(CHANCE_HELD, "held", 400)       /* look whether it is still ours */                          \
    X(CHANCE_RENEW, "renew", 200)     /* renew by hand */                                          \
    X(CHANCE_GUARDED, "guarded", 350) /* a guarded write */                                        \
    X(CHANCE_LATE, "late", 2)         /* sleep past the lease, then a guarded write */             \
    X(CHANCE_STALE, "stale", 1)       /* sleep past the lease between guard and commit */          \
    X(CHANCE_EARLY, "early", 20)      /* release before the commit (SQLite: a tenth of that) */    \
    X(CHANCE_LONG, "long", 1)         /* renewed by itself, and held for longer than the lease */  \
    X(CHANCE_START, "start", 200)     /* release and renew by an event loop */                     \
    X(CHANCE_CANCEL, "cancel", 50)    /* cancel what an event loop waits for */                    \
    X(CHANCE_FORGET, "forget", 1)     /* free without release */                                   \
    X(CHANCE_SHARE, "share", 500)     /* take it shared, if it is a name for that */               \
    X(CHANCE_SLOT, "slot", 150)       /* take a slot, of the name that has some */                 \
    X(CHANCE_SWAP, "swap", 100)       /* give it back and take another one in one call */          \
    X(CHANCE_CHANGE, "change", 300)   /* change its mode, if it is a name for that */              \
    X(CHANCE_TWO, "two", 50)          /* take two names in one call, and give both back in one */  \
    X(CHANCE_GIVE_BACK, "give-back", 200) /* release what is unsure, in place of settling it */    \
    X(CHANCE_STRICT, "strict", 100)       /* a transaction of a stricter isolation level */        \
    X(CHANCE_BREAK, "break", 2)           /* break what was found busy */

/* Places in a plan's mix. */
enum client_mix {
#define PLAN_ENUM(id, word, number) id,
    CLIENT_STEPS(PLAN_ENUM) STEP_COUNT,
    STEP_LAST = STEP_COUNT - 1,
    CLIENT_CHANCES(PLAN_ENUM) PLAN_MIX
};
#undef PLAN_ENUM

enum { CLIENT_THREADS_MAX = 64, CLIENT_SLOTS = 2 };
enum { COMMAND_LEASE_LEAST_MS = 1000 }; /* a command takes its time to start */

struct plan {
    const char *folder, *url, *allow; /* words of sqlock_code_name(), with blanks between */
    int64_t process, names, threads, seed, lease_ms, seconds;
    int64_t grace_ms; /* of its managers */
    int64_t side;     /* the only server that it reaches; 0: it may reach any */
    int64_t open_flags, command;
    int64_t sent_us, work_ms; /* of `held` */
    int mix[PLAN_MIX];
};

/* False: it said on stderr which argument is wrong. The plan borrows argv. */
bool plan_read(struct plan *p, int argc, char **argv);
/* Whether a list of words with blanks between has the word. */
bool plan_lists(const char *list, const char *word);

/* ---- threads --------------------------------------------------------------------------------- */

struct crew {
    struct plan plan;
    struct left before; /* all this began */
    int64_t end_us;     /* of its time */
    const struct app *app;
    int history;
    sqlock_cancel *cancel; /* cuts waits when the time is up */
    atomic_bool over;
    atomic_bool failed;
    sqlock *managers[CLIENT_THREADS_MAX];
    int64_t n_managers;
};

struct hand {
    struct crew *crew;
    pthread_t thread;
    struct dice dice;
    sqlock *m;    /* maybe of several hands */
    void *native; /* its own; NULL: not connected now */
    sqlock_conn *conn;
    struct event now;    /* what it asks */
    struct event beside; /* and within that, as if another thread did */
    struct event *at;    /* one of these */
    bool shares;         /* the lock that it has */
};

/* ---- what is asked and answered -------------------------------------------------------------- */

void hand_fetch(struct hand *h, int verb, uint32_t name, int64_t token);
void hand_answer(struct hand *h, int outcome, int64_t deadline_us, int64_t value);
/* The same of a call of the library's, and whether it is explained. */
bool hand_done(struct hand *h, int rc, const sqlock_error *err, int64_t deadline_us, int64_t value);
/* An answer that nothing explains ends the client. True: it is explained. */
bool hand_explain(struct hand *h, int code, const sqlock_error *err, const char *what);

/* ---- choices --------------------------------------------------------------------------------- */

bool hand_dares(struct hand *h, enum client_mix chance);
/* One of the first hand_names(). If the plan has one name more, that has slots. */
uint32_t hand_name(struct hand *h);
uint32_t hand_names(const struct hand *h);
void hand_nap(int64_t ms);
/* A longer one, which ends with the client's time. */
void hand_sleep(struct hand *h, int64_t ms);
/* Long enough for a lease that is not renewed to run out. */
void hand_oversleep(struct hand *h);

/* ---- leases ---------------------------------------------------------------------------------- */

/* client_lease.c: get one, or another one in its place; then use that. */
void lease_take(struct hand *h, int way); /* the value of V_ACQUIRE */
void lease_swap(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual);
/* Whether the name is for that. Of the others, order in the queue is judged. */
bool lease_is_shared(uint32_t name);

/* client_use.c: do something with it, and give it back, mostly. Frees it. */
void lease_use(struct hand *h, sqlock_lock *lock, uint32_t name, bool manual);
void lease_read(struct hand *h, sqlock_lock *lock, uint32_t name);
void lease_release(struct hand *h, sqlock_lock *lock, uint32_t name);
/* Until it is known what became of a request, or for half a minute. True: it is ours. */
bool lease_settle(struct hand *h, sqlock_lock *lock, uint32_t name);
bool lease_tells(sqlock_lock *lock);
/* The end of an operation, as an event loop does it. */
int lease_finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err);
/* Release it in the middle of something else that is asked. */
void lease_release_beside(struct hand *h, sqlock_lock *lock, uint32_t name);

/* client_change.c: from exclusive to shared, or back. True: nothing is held. */
bool lease_change(struct hand *h, sqlock_lock **lock, uint32_t name);

/* ---- transactions of the application (client_rows.c) ----------------------------------------- */

/* How the guarded write is made: its commit may come after the lease, or its release. */
enum guarded_way { GUARDED_AT_ONCE, GUARDED_SLOWLY, GUARDED_RELEASED };
void rows_guarded(struct hand *h, sqlock_lock *lock, uint32_t name, enum guarded_way way);
void rows_row_lock(struct hand *h);
void rows_cas(struct hand *h);
/* Give up the application's connection; the next transaction makes another. */
void rows_disconnect(struct hand *h);

/* ---- the command (client_command.c) ---------------------------------------------------------- */

void command_step(struct hand *h);

#endif
