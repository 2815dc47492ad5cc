/* Leases in every state, which the tests of leases share. */
#ifndef SQLOCK_TESTS_UNIT_LEASES_H
#define SQLOCK_TESTS_UNIT_LEASES_H

#include "core/model/lease.h"

#define TTL    INT64_C(30000000)
#define EVERY  (TTL / 3)
#define START  INT64_C(1000000000)
#define MARGIN (TTL / 10)
#define END    (START + TTL - MARGIN) /* of a lease that was asked for at START */
#define RISK   (START + TTL / 3 * 2)

enum { N_STATES = 5 };
extern const sqlock_state states[N_STATES];

int is_believed(const struct lease *l);
int is_final(sqlock_state state);
/* Whether the table has such an edge. */
int has_edge(sqlock_state from, enum lease_event event, sqlock_state to);

/* One that was granted at START; one in this state; the same that a transaction guards. */
struct lease held_lease(void);
struct lease lease_in(sqlock_state state);
struct lease guarded_lease(sqlock_state state);

#endif
