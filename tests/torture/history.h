/* The history of a cell: what each client asked and was told, with the times of both on the one
 * clock of the machine that deadlines are told in (sqlock_now_us). A client writes a line when it
 * asks and a line when it was answered, each with one write(), so that a client that is killed
 * leaves all that it had begun. A history is a folder: one file for each process, told apart by its
 * number.
 *
 * A line is words with one blank between: "I" or "R", and then the fields of struct event in their
 * order; of an "I" line what is only known later is 0. Names are "n0", "n1" ... and are told by
 * their number. */
#ifndef SQLOCK_TESTS_TORTURE_HISTORY_H
#define SQLOCK_TESTS_TORTURE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A verb, the word for it, and what its token, deadline and value mean. Where nothing is said they
 * are 0. `token` is the grant's, for all verbs that have one. */
#define HISTORY_VERBS(X)                                                                           \
    X(V_ACQUIRE, "acquire") /* deadline: of the grant. value: 0 try, 1 timed, 2 event loop,        \
                               3 by the command, whose span ends with its last BEAT. EBUSY: token  \
                               and deadline: of who has it, when it ends in the database at the    \
                               latest; 0: nobody said */                                           \
    X(V_SHARE, "share")     /* the same of a lock that others may share */                         \
    X(V_RENEW, "renew")     /* deadline: the new one */                                            \
    X(V_HELD, "held")       /* what state() and deadline_us() said without I/O: outcome 0 is held  \
                               or at risk until the deadline; ELOST with value sqlock_why */       \
    X(V_RELEASE, "release")                                                                        \
    X(V_SETTLE, "settle")     /* of an unsure acquire: outcome 0 is ours (token, deadline); ELOST  \
                                 with value sqlock_why. Of a release: value 11 is done. A thread   \
                                 settles, or gives back, the acquire that it asked for last */     \
    X(V_BREAK, "break")       /* of this token, by an operator */                                  \
    X(V_GUARDED, "guarded")   /* guard, write, commit: outcome 0 is committed. value: the row's    \
                                 counter that it wrote, 0: it did not come so far. Of this verb    \
                                  and the next two: EUNSURE is a commit of which nobody knows,     \
                                  any other outcome but 0 says that nothing was changed. deadline: \
                                  when the commit was about to be asked for, 0: not */             \
    X(V_ROW_LOCK, "row-lock") /* the row of a name, read, written and committed under FOR UPDATE.  \
                                 value: what it wrote */                                           \
    X(V_CAS, "cas")           /* one compare and set, committed. token: the version that was read  \
                                 before, and expected. value: the version it wrote */              \
    X(V_REAP, "reap")         /* value: rows cleared and pruned */                                 \
    X(V_BEAT, "beat")         /* the work under a grant is alive (and believes to be allowed) */   \
    X(V_PLACE, "place") /* no question: the acquire that this process had asked for at the time    \
                           `deadline` waits in the queue, at the place `value` */                  \
    X(V_LEASE,                                                                                     \
      "lease") /* no question: all leases that this process asks for are so long. value: ms */     \
    X(V_SLOTS, "slots") /* no question: so many may hold this name at a time. value: their         \
                           number */                                                               \
    X(V_SIDE, "side")   /* no question: this process reaches one server and no other. value:       \
                           which, of several that live at a time; whoever was promoted later       \
                           has the larger one */                                                   \
    X(V_RUN, "run") /* no question: a command that holds this name for what it runs, of which that \
                       tells itself (acquire, value 3) */                                          \
    X(V_FAULT, "fault") /* by the cell: name: number of the fault's kind. invoke: it begins,       \
                           return: it is healed. value: 1 the server itself was hurt, so that      \
                           it may lose or refuse anything; 2 its clock was stepped; 3 another      \
                           server took over that lacks the last commits; 4 the same, and clients   \
                           asked for a grace, so that nobody is granted what those granted; 0 else \
                           */

enum history_verb {
#define HISTORY_ENUM(verb, word) verb,
    HISTORY_VERBS(HISTORY_ENUM)
#undef HISTORY_ENUM
        V_COUNT
};

#define HISTORY_NOT_RETURNED INT64_C(-1) /* return_us of what was asked and never answered */

struct event {
    int64_t invoke_us; /* before it was asked */
    int64_t return_us; /* after it was answered */
    uint32_t process;  /* of the file */
    uint32_t thread;   /* of the process: asks one thing at a time */
    uint32_t op;       /* rises with each of the thread's: "I" and "R" of one op share it */
    uint32_t name;
    int verb;    /* enum history_verb */
    int outcome; /* 0, SQLOCK_E..., SQLOCK_CONFLICT, SQLOCK_ABSENT */
    int64_t token;
    int64_t deadline_us; /* of sqlock_lock_deadline_us() when it was answered */
    int64_t value;
};

/* ---- writing --------------------------------------------------------------------------------- */

/* A process's file in the history's folder: a descriptor for all threads, or -1 with errno. */
int history_open(const char *folder, uint32_t process);
/* Before it is asked: sets invoke_us to now, return_us to HISTORY_NOT_RETURNED, op to the next. */
void history_invoke(int fd, struct event *e);
/* What was answered: sets return_us to now. */
void history_return(int fd, struct event *e);

/* ---- reading --------------------------------------------------------------------------------- */

/* All events of a folder, in the order of their invocations; an "I" without its "R" has
 * HISTORY_NOT_RETURNED. Returns how many and sets *out (free() it), or -1 and says on stderr which
 * line is not one. */
int64_t history_read(const char *folder, struct event **out);
/* By invocation. The same events come in the same order, whatever qsort() does with equal times. */
void history_sort(struct event *events, int64_t n);
/* One event, as a line for people. */
void history_print(FILE *f, const struct event *e);
const char *history_verb_word(int verb);
int history_verb_of(const char *word); /* -1: none */
/* Whether it was answered, and with yes. */
static inline bool event_returned(const struct event *e)
{
    return e->return_us != HISTORY_NOT_RETURNED;
}

static inline bool event_ok(const struct event *e)
{
    return event_returned(e) && e->outcome == 0;
}

/* A question for a lock, exclusive or shared. */
static inline bool event_acquires(const struct event *e)
{
    return e->verb == V_ACQUIRE || e->verb == V_SHARE;
}

/* Below 0, 0 or above, for comparisons: order(...) ?: order(...) by one field, then by another. */
static inline int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

#endif
