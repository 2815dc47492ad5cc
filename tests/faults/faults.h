/* What the fault tests share: a database with a schema of its own, the driver with an eye on it,
 * and what a lock's callback was told. */
#ifndef SQLOCK_TESTS_FAULTS_H
#define SQLOCK_TESTS_FAULTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlock/driver.h>
#include <sqlock/import.h>

#include "tests/lib/db.h"
#include "tests/lib/pg.h"
#include "tests/lib/place.h"
#include "tests/lib/proxy.h"
#include "tests/lib/row.h"
#include "tests/lib/words.h"

#define MS INT64_C(1000) /* in microseconds */

/* ---- a database ------------------------------------------------------------------------------ */

enum { STAGE_MANAGERS = 8 };

/* The test's one. */
extern struct stage {
    const struct quirks *q;
    struct place at;
    struct proxy *proxy; /* PostgreSQL's, if asked for */
    sqlock *managers[STAGE_MANAGERS];
} stage;

/* A new database, migrated; skips the test where the driver or the server is missing. PostgreSQL
 * with a proxy before it, or a file of SQLite with a rollback journal, and its path. */
void stage_proxied(void);
void stage_sqlite(void);
const char *stage_file(void);
/* Closes the managers and removes the database, if there is one. */
int stage_teardown(void **state);

/* A manager on this database by the watched driver: directly, or stage_open_cut() by the proxy. */
sqlock *stage_open(void);
sqlock *stage_open_cut(void);
sqlock *stage_open_at(const char *url);

/* The database of a URL, for the driver that its scheme names; servers of tests/lib/servers.h have
 * such URLs. Skips the test where that driver is missing. */
struct db db_of(const char *url);

/* ---- locks ----------------------------------------------------------------------------------- */

/* Acquire with this lease and wait, and have the callbacks noted (or NULL). */
struct events;
int take(sqlock *m, const char *name, int32_t lease_ms, int32_t wait_ms, struct events *events,
         sqlock_lock **out, sqlock_error *err);
/* The same, which must succeed. */
sqlock_lock *held(sqlock *m, const char *name, int32_t lease_ms, struct events *events);
/* Wait until an automatic renewal moved the deadline: the next one is as far away as can be. */
void wait_renewed(sqlock_lock *lock);

/* What the callback was told, and how the world was then. Times are of sqlock_now_us(). */
struct events {
    atomic_llong risk_at, lost_at;
    atomic_int n_lost, why, state, talker_inside;
};
void note_event(sqlock_lock *lock, sqlock_state state, void *events);

/* ---- the watched driver ------------------------------------------------------------------------
 * It hands everything on to the real one. */

struct watch {
    atomic_int begun[SQLOCK_STMT_COUNT];    /* requests that were handed to the driver, */
    atomic_int answered[SQLOCK_STMT_COUNT]; /* and those it answered with success */
    atomic_int locks[SQLOCK_STMT_COUNT];    /* of the first, how many locks they spoke of */
    atomic_int renewing;                    /* renewals that are in the driver now */
    atomic_int stop_renewals;               /* they do not come back, whatever their deadline */
    atomic_int stop_answers;                /* they are done, but the library is not told */
};
extern struct watch watch;
/* The driver of the stage that was made last. */
const sqlock_driver *watched_driver(void);
/* Calls of the driver by this thread so far: a getter must not add to them. */
int driver_calls_here(void);

#endif
