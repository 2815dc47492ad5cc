#ifndef SQLOCK_TESTS_DRIVERS_FAKE_HOSTS_H
#define SQLOCK_TESTS_DRIVERS_FAKE_HOSTS_H

#ifdef TEST_HAVE_FAKE
#include <stdatomic.h>

#include "tests/drivers/suite.h"
#include "tests/lib/fake_quirks.h"

/* Several hosts in one URL. Each is a fake server of its own, behind a driver that may refuse, be
 * silent, or say that it is a replica. A world of hosts_quirks begins with primaries. */

enum { HOSTS = 3, VISITS = 64 };

enum mood { PRIMARY, REFUSES, SILENT, REPLICA, HALF_SILENT, DENIES, READ_ONLY, SLOW };

extern struct host {
    sqlock_fake *db, *own; /* another host's after a failover; its own, to be freed */
    atomic_int mood;
    atomic_int links; /* that are open */
} hosts[HOSTS];

extern struct hosts_net {
    uint32_t n;
    int64_t each_us;
    atomic_int visits; /* hosts that were connected to, in their order */
    atomic_int visited[VISITS];
    atomic_llong spent_us[VISITS]; /* what each was given */
    atomic_llong replica_ahead_us; /* of a replica's clock; 0: it does not tell its time */
} hosts_net;

extern const struct quirks hosts_quirks;

void host_is(int host, enum mood mood);
/* Its links are cut, and it stays as it is. */
void host_cut(int host);
/* Somebody else opens a manager on it: its floor is its clock, as of a server that was promoted. */
void host_promoted(int host);
int visits(void);
int visited(int i);
/* A manager for all of them. What try_hosts() opened is the caller's to close. */
sqlock *open_hosts(struct world *w, int32_t request_ms);
/* A grant that is not renewed, at the first try. */
sqlock_lock *grant(sqlock *m, const char *name);
long acquires(int host); /* that it has seen */
int try_hosts(struct world *w, int32_t request_ms, sqlock **out, sqlock_error *err);

#endif
#endif
