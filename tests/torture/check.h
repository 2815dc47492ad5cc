/* Proves or refutes a history: that what clients were told, and what the rows hold, can be true of
 * locks, exclusive, shared or with slots, whose tokens rise. Time and memory are near linear in the
 * number of events.
 *
 * What an answer claims is taken at its word, and no further: a grant counts from its return to its
 * release's invocation, or to the last deadline that was confirmed to its holder, whether the
 * holder lives or not. A reply that was never seen claims nothing. */
#ifndef SQLOCK_TESTS_TORTURE_CHECK_H
#define SQLOCK_TESTS_TORTURE_CHECK_H

#include <stdint.h>
#include <stdio.h>

#include "tests/torture/history.h"

/* A rule, and what its breach is called. */
#define CHECK_RULES(X)                                                                             \
    X(RULE_HISTORY, "the history contradicts itself")                                              \
    X(RULE_OVERLAP, "two held a lock at the same time")                                            \
    X(RULE_SLOTS, "more held a lock at the same time than it has slots")                           \
    X(RULE_TOKEN, "tokens do not rise with the grants of a name")                                  \
    X(RULE_SIDE, "a new server's token is not above those of an old one that lives on")            \
    X(RULE_DEADLINE, "a deadline lies further ahead than a lease")                                 \
    X(RULE_STALE, "a grant that had ended was said to be held")                                    \
    X(RULE_GUARD, "a lock was granted to others while a transaction guarded it")                   \
    X(RULE_LOST, "a lock was said to be lost without a cause")                                     \
    X(RULE_BUSY, "a lock was said to be busy with a grant that was over")                          \
    X(RULE_GUARDED, "a lock was said to be guarded, and nobody guarded it")                        \
    X(RULE_UNKNOWN, "a lock was held by a grant that nobody can have been given")                  \
    X(RULE_ROW, "a lease ended in the database before its holder stopped believing")               \
    X(RULE_UPDATE, "an update of a row was lost, or came out of order")                            \
    X(RULE_CONFLICT, "a change was refused though nobody else had changed the row")                \
    X(RULE_FENCE, "a write under an older token came after one under a newer")                     \
    X(RULE_SUM, "a row does not hold what was committed")                                          \
    X(RULE_ORDER, "a newcomer was granted a lock before one that had a place in its queue")        \
    X(RULE_LIVENESS, "a name that was asked for was not granted after the last fault")             \
    X(RULE_LOAD, "too little was done to prove anything")

enum check_rule {
#define CHECK_ENUM(rule, text) rule,
    CHECK_RULES(CHECK_ENUM)
#undef CHECK_ENUM
        RULE_COUNT
};

#define CHECK_NOT_READ INT64_C(-1)

/* What the rows of a name hold when all is over. They began with 0 and rise by 1. */
struct check_row {
    int64_t guarded; /* writes under a guard; or CHECK_NOT_READ, as each of these */
    int64_t token;   /* of the last of them */
    int64_t row;     /* writes under a row lock */
    int64_t version; /* of the row that is compared and set */
    int64_t changes; /* and how often it was changed */
};

/* A client that was stopped and went on. */
struct check_freeze {
    uint32_t process;
    int64_t from_us, to_us;
};

struct check_rules {
    const char *folder;         /* for the report */
    const char *engine, *fault; /* for the report */
    uint64_t seed;
    int32_t lease_ms;             /* the longest lease that clients asked for */
    int32_t slack_ms;             /* of liveness: 2000 */
    int64_t min_rate;             /* grants each second before the first fault; 0: any */
    int64_t min_grants;           /* 1000 */
    int64_t min_faults;           /* 10; 0 in a cell without faults */
    const struct check_row *rows; /* of n0, n1 ...; NULL: not read */
    uint32_t n_rows;
    const struct check_freeze *freezes;
    int n_freezes;
};

/* What was proved, to be added up. */
struct check_verdict {
    int64_t violations; /* 0: the history is proved */
    int64_t found[RULE_COUNT];
    int64_t operations; /* that the database was asked for: no readings, no beats, no faults */
    int64_t grants;
    int64_t rate; /* grants each second before the first fault */
    int64_t faults;
    int64_t clock_steps;    /* faults that stepped the server's clock */
    int64_t clock_overlaps; /* spans that met across one of them, which is no violation */
    int64_t lost_overlaps;  /* and across the loss of commits, where a server took over */
    int64_t unsure;         /* acquires, releases and commits of which a reply was lost */
    int64_t settled;        /* of them: it was told later, or the rows tell, what became of it */
    int64_t guarded;        /* writes under a guard that were committed */
    int64_t late_refused;   /* and that were refused because the lock had been granted to others */
    int64_t frozen;         /* grants whose holder was stopped past their end */
    int64_t places;         /* in a queue, before the first fault, that were held to the end */
    int64_t judged;         /* names that were asked for after the last fault, and granted */
};

/* Check all events of a history, in the order of their invocations (history_read). Writes every
 * violation to say (up to some of each rule), and to *out what was found. Returns 0 if nothing was,
 * and 1 if there are violations. */
int check_history(const struct check_rules *rules, const struct event *events, int64_t n,
                  struct check_verdict *out, FILE *say);
/* The rule's breach as a sentence. */
const char *check_rule_text(int rule);
/* One line: what was proved, or how many violations there are. */
void check_print(const struct check_verdict *v, FILE *say);

/* Keep the rules beside the history, in the file "rules" of its folder, so that it can be checked
 * again. 0, or -1 with errno. */
int check_rules_save(const struct check_rules *rules);
/* `check FOLDER`: a history by the rules beside it. argv[0] is the word check. Returns the exit
 * status: 0, 1 for violations, 2 when nothing could be checked, which is told on stderr. */
int check_main(int argc, char **argv);

#endif
