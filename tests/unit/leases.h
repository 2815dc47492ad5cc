/* Leases in every state, which the tests of leases share. */
#ifndef SQLOCK_TESTS_UNIT_LEASES_H
#define SQLOCK_TESTS_UNIT_LEASES_H

#include "core/model/lease.h"
#include "tests/lib/check.h"

#define TTL    INT64_C(30000000)
#define EVERY  (TTL / 3)
#define START  INT64_C(1000000000)
#define MARGIN (TTL / 10)
#define END    (START + TTL - MARGIN) /* of a lease that was asked for at START */
#define RISK   (START + TTL / 3 * 2)

enum { N_STATES = 5 };
static const sqlock_state states[N_STATES] = {SQLOCK_UNSURE, SQLOCK_HELD, SQLOCK_AT_RISK,
                                              SQLOCK_LOST, SQLOCK_RELEASED};

static inline int is_believed(const struct lease *l)
{
    return l->state == SQLOCK_HELD || l->state == SQLOCK_AT_RISK;
}

static inline int is_final(sqlock_state state)
{
    return state == SQLOCK_LOST || state == SQLOCK_RELEASED;
}

/* One that was granted at START; below, one in any state. */
static inline struct lease held_lease(void)
{
    struct lease l;

    lease_init(&l, TTL, EVERY, 0);
    assert_int_equal(lease_apply(&l, LEASE_GRANTED, START + 1000, START), LEASE_ARM);
    assert_int_equal(l.state, SQLOCK_HELD);
    return l;
}

static inline struct lease lease_in(sqlock_state state)
{
    struct lease l = held_lease();

    if (state == SQLOCK_UNSURE)
        lease_init(&l, TTL, EVERY, 0);
    else if (state == SQLOCK_AT_RISK)
        lease_apply(&l, LEASE_TICK, RISK, 0);
    else if (state == SQLOCK_LOST)
        lease_apply(&l, LEASE_DENIED, START + 1000, SQLOCK_WHY_TAKEN);
    else if (state == SQLOCK_RELEASED) {
        lease_apply(&l, LEASE_RELEASING, START + 1000, 0);
        lease_apply(&l, LEASE_RELEASED, START + 2000, 0);
    }
    assert_int_equal(l.state, state);
    return l;
}

/* Held, at risk, and past the deadline of a lease that a transaction guards. */
static inline struct lease guarded_lease(sqlock_state state)
{
    struct lease l = lease_in(state == SQLOCK_AT_RISK ? state : SQLOCK_HELD);

    lease_guard(&l, START + 5000);
    if (state == SQLOCK_UNSURE)
        assert_int_equal(lease_apply(&l, LEASE_TICK, END, 0), LEASE_REPORT | LEASE_ARM);
    assert_int_equal(l.state, state);
    return l;
}

/* Whether the table has such an edge. */
static inline int has_edge(sqlock_state from, enum lease_event event, sqlock_state to)
{
    for (size_t i = 0; i < lease_n_edges; i++)
        if (lease_edges[i].from == from && lease_edges[i].event == event && lease_edges[i].to == to)
            return 1;
    return 0;
}

#endif
