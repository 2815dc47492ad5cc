#ifndef SQLOCK_MODEL_LEASE_H
#define SQLOCK_MODEL_LEASE_H

#include <sqlock/sqlock.h>

/* A lease on its holder's side. All times are microseconds of one clock, the holder's. */
struct lease {
    sqlock_state state;
    sqlock_why why;
    int64_t ttl, every, margin; /* full length; between renewals; given up before the end */
    int64_t deadline;           /* believed in until then; 0: never held */
    int64_t renew_at;           /* next renewal */
    int64_t risk_at;            /* AT_RISK from then on */
    int64_t hold;               /* renewals end so long after the first grant; 0: never */
    int64_t hold_until;         /* ... which is then; INT64_MAX: never, or not granted yet */
    int jumped;                 /* the server's clock jump cut the deadline */
    int manual;                 /* the holder renews: that none came is no matter of hold_until */
    int releasing;              /* a release has been asked for: its answer alone tells */
    int64_t guarded; /* since then a transaction that keeps renewals out may guard it; 0 */
};

enum lease_event {
    LEASE_GRANTED,   /* arg: when the request was sent */
    LEASE_RENEWED,   /* arg: when the request was sent */
    LEASE_TICK,      /* time went on */
    LEASE_JUMPED,    /* arg: by how much the server's clock jumped forward */
    LEASE_MOVED,     /* the database is another server, which may not have it */
    LEASE_CONFIRMED, /* arg: there it ends then, and is not prolonged */
    LEASE_DENIED,    /* arg: sqlock_why: the database says that it is not ours */
    LEASE_RELEASING, /* a release is about to be sent */
    LEASE_RELEASED,  /* the database has confirmed it */
    LEASE_CLOSED,    /* the manager goes away */
    LEASE_EVENTS
};

/* What the caller has to do after a move. */
#define LEASE_TELL 0x1u /* tell the application the new state */
#define LEASE_ARM  0x2u /* the deadline has moved: set alarms anew */

/* A lease that was asked for: UNSURE until an answer comes. hold: 0 is for ever. */
void lease_init(struct lease *l, int64_t ttl, int64_t every, int64_t hold);
/* The one function that moves a lease. Returns LEASE_TELL, LEASE_ARM or 0. */
unsigned lease_apply(struct lease *l, enum lease_event event, int64_t now, int64_t arg);
/* A transaction that keeps all renewals out, and all grants, guards it from now on (P11). When its
 * end comes nobody tells; the next renewal that is answered shows that it is over. Until then the
 * lease is not lost at its deadline but UNSURE. */
void lease_guard(struct lease *l, int64_t now);
/* 1: it is UNSURE for that reason. */
int lease_is_pinned(const struct lease *l);
/* 1: ours now. Never after the deadline, whoever has been late to apply LEASE_TICK. */
int lease_is_held(const struct lease *l, int64_t now);
/* The next time at which LEASE_TICK has something to do; INT64_MAX: none. */
int64_t lease_next_tick(const struct lease *l);
/* How much of a lease the holder gives up for clocks that run apart. */
int64_t lease_margin(int64_t ttl);
/* Where a deadline would be for a request sent at that time. */
int64_t lease_deadline(const struct lease *l, int64_t sent);

/* The table of allowed moves, for tests and for the diagram in core/README.md. */
struct lease_edge {
    sqlock_state from;
    enum lease_event event;
    sqlock_state to;
    const char *why;
};
extern const struct lease_edge lease_edges[];
extern const size_t lease_n_edges;
const char *lease_event_name(enum lease_event event);

#endif
