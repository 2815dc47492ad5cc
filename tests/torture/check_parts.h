/* What the parts of the checker share: the book of a history, and how a breach is told. */
#ifndef SQLOCK_TESTS_TORTURE_CHECK_PARTS_H
#define SQLOCK_TESTS_TORTURE_CHECK_PARTS_H

#include <stdbool.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check.h"

#define NEVER INT64_MAX /* a time */

/* A grant, and all that the history says of how it went on and ended. */
struct grant {
    const struct event *told; /* the acquire or settle that said so */
    uint32_t name;
    int32_t side; /* the server of its process; 0: nobody said */
    bool shared;
    int64_t token;
    int64_t sent_us;             /* invocation of the acquire */
    int64_t start_us;            /* held from here: when it was said */
    int64_t end_us;              /* to here: whichever came first of ... */
    int64_t deadline_us;         /* the last one that its holder was told; or its last beat */
    const struct event *release; /* the first that was asked for, or NULL */
    const struct event *broken;  /* the first break that may have been applied, or NULL */
    int64_t released_us;         /* it was said to be released, or NEVER */
    int64_t over_us;             /* it had ended for certain: released, broken or granted on */
    const struct event *over;    /* who said so, or NULL */
    const struct event *next;    /* of the grants with a larger token the one that was said first */
    const struct event *rival;   /* the first of those that cannot be held beside this one */
};

/* Who may hold a name at the same time: one; those who share it; or so many. */
struct name_kind {
    bool shared;   /* somebody asked to share it */
    int64_t slots; /* 0: nobody said */
};

/* Faults of some kinds by their begin; healed_us: the latest end of this and those before. */
struct faults {
    struct fault_time {
        int64_t begin_us, healed_us;
    } * times;
    int64_t n;
};

struct book {
    const struct check_rules *rules;
    const struct event *events; /* by invocation */
    int64_t n;
    const struct event **by_thread; /* by process, thread and invocation */
    struct grant *grants;           /* by name and token */
    int64_t n_grants;
    struct grant **grant_of; /* of each event; NULL: none that is known */
    struct process {         /* by its number */
        int32_t lease_ms, side;
    } * processes;
    int64_t n_processes;
    struct name_kind *kinds; /* by name */
    int64_t n_kinds;
    struct faults all, clock; /* clock: that stepped the server's clock */
    struct faults hurt;       /* the server, or its clock */
    struct faults lost;       /* that lost commits, by another server's taking over ... */
    struct faults regranted;  /* ... without a grace: so that locks may be granted again */
    struct check_verdict *out;
    FILE *say;
    void *made[32]; /* by book_new() */
    int n_made;
};

/* ---- check_book.c ---------------------------------------------------------------------------- */

void book_make(struct book *b);
void book_free(struct book *b);
/* Room for so many, and one, all 0, until book_free(). Without memory the process ends. */
void *book_new(struct book *b, int64_t n, size_t size);
/* The place of this name's first grant with this token or a larger one, or where it would be. */
int64_t book_at(const struct book *b, uint32_t name, int64_t token);
/* When all of these faults that began until this time were healed; INT64_MIN: there were none. */
int64_t faults_healed(const struct faults *f, int64_t until_us);
/* Whether one of them lay between (or at) two times. */
bool fault_between(const struct faults *f, int64_t from_us, int64_t to_us);
/* How long a process counts on a lease, from when it asks: less than the lease, by the margin that
 * the library keeps. 0: nobody said how long its leases are. */
int64_t lease_usable_us(const struct book *b, uint32_t process);

/* The server of a process; 0: nobody said. */
int32_t side_of(const struct book *b, uint32_t process);
/* What was told at that time may have been forgotten when the other was asked for. */
bool forgotten_between(const struct book *b, const struct event *told, int64_t sent_us);

/* A question for a lock that was told that somebody else has it. */
static inline bool event_refused(const struct event *e)
{
    return event_returned(e) && event_acquires(e) && e->outcome == SQLOCK_EBUSY;
}

/* A settle or a release has told what became of a request. */
bool event_settles(const struct event *e);

/* ---- check_shared.c -------------------------------------------------------------------------- */

/* What the history says of them. */
void kinds_make(struct book *b);
/* Of a name that nobody said anything about: one holder. */
struct name_kind kind_of(const struct book *b, uint32_t name);

/* ---- the rules ------------------------------------------------------------------------------- */

void check_threads(struct book *b);  /* check_answers.c: a thread asks one thing at a time */
void check_tokens(struct book *b);   /* check_spans.c */
void check_spans(struct book *b);    /* check_spans.c */
void check_claims(struct book *b);   /* check_claims.c: guarded, and never granted */
void check_slots(struct book *b);    /* check_shared.c */
void check_answers(struct book *b);  /* check_answers.c: yes and lost */
void check_rows(struct book *b);     /* check_rows.c */
void check_queue(struct book *b);    /* check_queue.c */
void check_liveness(struct book *b); /* check_load.c */
void check_load(struct book *b);     /* check_load.c */

/* ---- check_report.c -------------------------------------------------------------------------- */

/* A breach of a rule by two events (either may be NULL), told with all that happened to the first
 * one's name between them; of each rule the first few. The words go on after "n3: ". */
void breach(struct book *b, int rule, const struct event *first, const struct event *second,
            const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
