#ifndef SQLOCK_MODEL_LEASE_H
#define SQLOCK_MODEL_LEASE_H

#include <stdbool.h>

#include <sqlock/sqlock.h>

/* A lease on its holder's side. All times are microseconds of one clock, that of the holder. */
struct lease {
    sqlock_state state;
    sqlock_why why;
    int64_t ttl, every; /* full length; time between renewals */
    int64_t deadline;   /* the lease is believed until then; 0: never held */
    int64_t renew_at;   /* when the next renewal is due */
    int64_t risk_at;    /* in state AT_RISK from then on */
    int64_t hold;       /* renewals stop so long after the first grant; 0: never */
    int64_t hold_until; /* when they stop; INT64_MAX: never, or no grant yet */
    bool jumped;        /* a jump of the server's clock cut the deadline */
    bool manual;        /* the holder renews, so hold_until does not explain a loss */
    bool releasing;     /* a release was requested: only its answer decides */
    int64_t guarded; /* since when an open transaction may guard it and block renewals; 0: none */
};

enum lease_event {
    LEASE_GRANTED,   /* arg: when the request was sent */
    LEASE_RENEWED,   /* arg: when the request was sent */
    LEASE_TICK,      /* time has passed */
    LEASE_JUMPED,    /* arg: by how much the server's clock jumped forward */
    LEASE_MOVED,     /* the database is another server, which may lack the lease */
    LEASE_CONFIRMED, /* arg: its end on the new server, where the library does not renew it */
    LEASE_DENIED,    /* arg: sqlock_why: the database says that it is not ours */
    LEASE_RELEASING, /* a release is about to be sent */
    LEASE_RELEASED,  /* the database has confirmed the release */
    LEASE_CLOSED,    /* the manager is closed */
    LEASE_EVENTS
};

/* What the caller has to do after an event. */
#define LEASE_REPORT 0x1u /* report the new state to the application */
#define LEASE_ARM    0x2u /* the deadline has moved: set the alarms again */

/* A lease that was requested. It is UNSURE until an answer comes. hold: 0 is for ever. */
void lease_init(struct lease *l, int64_t ttl, int64_t every, int64_t hold);
/* The only function that changes a lease's state. Returns LEASE_REPORT, LEASE_ARM or 0. */
unsigned lease_apply(struct lease *l, enum lease_event event, int64_t now, int64_t arg);
/* From now on a transaction guards the lease (P11). It blocks all renewals and all grants. No event
 * says when it ends: the next renewal that is answered shows it. Until then the lease is UNSURE at
 * its deadline, not lost. */
void lease_guard(struct lease *l, int64_t now);
/* 1: the lease is UNSURE because a transaction may guard it. */
int lease_is_pinned(const struct lease *l);
/* 1: it may be ours. Otherwise it was not granted yet, or it is over, and nothing is due for it. */
int lease_is_live(const struct lease *l);
/* 1: the lease is ours now. Never after the deadline, even if LEASE_TICK was applied late. */
int lease_is_held(const struct lease *l, int64_t now);
/* The next time at which LEASE_TICK has something to do. INT64_MAX: there is none. */
int64_t lease_next_tick(const struct lease *l);
/* How much of a lease the holder gives up, for clocks that differ. */
int64_t lease_margin(int64_t ttl);
/* The deadline after a request that was sent at that time. */
int64_t lease_deadline(const struct lease *l, int64_t sent);

/* The table of allowed changes, for tests and for the diagram in core/README.md. */
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
