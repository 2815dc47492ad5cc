/* What a client was asked to do: its arguments, and how often it does what. */
#ifndef SQLOCK_TESTS_TORTURE_CLIENT_PLAN_H
#define SQLOCK_TESTS_TORTURE_CLIENT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

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

enum { CLIENT_THREADS_MAX = 64 };
enum { COMMAND_LEASE_LEAST_MS = 1000 }; /* a command takes its time to start */

struct plan {
    const char *folder, *url, *allow; /* words of sqlock_code_name(), with blanks between */
    int64_t process, names, threads, seed, lease_ms, seconds;
    int64_t grace_ms; /* of its managers */
    int64_t side;     /* the only server that it reaches; 0: it may reach any */
    int64_t open_flags, command;
    int64_t asked_us, work_ms; /* of `held` */
    int mix[PLAN_MIX];
};

/* False: it said on stderr which argument is wrong. The plan borrows argv. */
bool plan_read(struct plan *p, int argc, char **argv);
/* Whether a list of words with blanks between has the word. */
bool plan_lists(const char *list, const char *word);

#endif
