/* One suite over the public API that every driver passes. What differs between drivers stands in a
 * struct quirks, never in an `if` of a test.
 *
 * A test works in a world of its own: an empty database, or schema, that nobody else sees. What it
 * opened there is closed and dropped when the test ends, also when an assertion jumped out of it.
 */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_H
#define SQLOCK_TESTS_DRIVERS_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/check.h"
#include "tests/lib/place.h"

#include <sqlock/driver.h>
#include <sqlock/import.h>
#include <sqlock/sqlock.h>

/* ---- running -----------------------------------------------------------------------------------
 */

/* All tests that fit the driver, or those given. Returns what main() returns. */
int suite_run(const struct quirks *q);
int suite_run_tests(const struct quirks *q, const char *name, const struct CMUnitTest *tests,
                    size_t n);
/* The main() of a program with tests on one database: fake, sqlite, or another one with quirks. */
#define TEST_MAIN_ON(server, tests)                                                                \
    int main(void)                                                                                 \
    {                                                                                              \
        return suite_run_tests(&server##_quirks, __FILE__, tests, sizeof tests / sizeof *tests);   \
    }

/* ---- what a call said -------------------------------------------------------------------------
 */

/* The error of the test's calls. Each thread has its own, empty when a test begins. */
extern _Thread_local sqlock_error said;

/* The call, which was given it, succeeds; or says this code. */
#define ok(call)             check_code(SQLOCK_OK, (call), &said, #call, __FILE__, __LINE__)
#define says(expected, call) check_code((expected), (call), &said, #call, __FILE__, __LINE__)

/* ---- worlds ---------------------------------------------------------------------------------- */

enum { WORLD_MANAGERS = 32, WORLD_APPS = 8, WORLD_ENDS = 4 };

struct world {
    const struct quirks *q;
    struct place place;
    bool made;
    sqlock *managers[WORLD_MANAGERS];
    size_t n_managers;
    void *apps[WORLD_APPS]; /* the application's own connections (adopt_app.h) */
    size_t n_apps;
    void (*ends[WORLD_ENDS])(void);
    size_t n_ends;
};

/* The test's world with its schema, and without. First line of every test. */
struct world *world(void **state);
struct world *world_bare(void **state);

/* Call this when the test ends, however it does: the last one first, before connections and
 * managers are closed. */
void at_end(struct world *w, void (*end)(void));

/* Open a manager; opts may be NULL. Where it is comes from the world. It is closed when the test
 * ends, unless close_manager() did it before. */
sqlock *open_manager(struct world *w, const sqlock_open_opts *opts);
void close_manager(struct world *w, sqlock *m);
/* One in the test's world, which is made if this is the first. */
sqlock *manager(void **state);
/* The same for whoever looks at the result, and need not close what failed. */
int open_here(struct world *w, const sqlock_open_opts *opts, sqlock **out_m, sqlock_error *err);
int migrate_here(struct world *w, int *out_applied, sqlock_error *err);
/* Where the world is, over what opts says of it. */
void place_opts(const struct world *w, sqlock_open_opts *opts);
/* The driver that all managers of worlds use: the real one, and counts what goes through it. */
const sqlock_driver *spied_driver(void);

/* Acquire, and fail the test if that fails; it may wait ten seconds. lease_ms 0: the default. */
sqlock_lock *take(sqlock *m, const char *name);
sqlock_lock *take_for(sqlock *m, const char *name, int32_t lease_ms, unsigned flags);
sqlock_lock *take_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts);
void give(sqlock_lock *lock);              /* release and free */
int try_once(sqlock *m, const char *name); /* the code of a try; what it got is given back */
bool is_free(sqlock *m, const char *name); /* a try gets it, and no refusal */
void await_loss(sqlock_lock *lock);        /* until the state is LOST, a few seconds at most */
sqlock_acquire_opts wait_opts(int32_t wait_ms, int32_t lease_ms, unsigned flags);

/* exec this program again, in the place of this process: it tries to get the lock in w's place and
 * ends with the code of that, without its sign; or with SUITE_CHANGED, if that changed what is the
 * whole process's. Returns if it cannot. */
enum { SUITE_CHANGED = 98 };
void suite_execute(const struct world *w, const char *name);

/* Of a test that begins, or a program that was executed. */
void spy_start(const struct quirks *q);
/* What went through the driver since the test began. */
long spy_opens(void);
long spy_runs(int stmt);     /* calls with this request; -1: all */
long spy_requests(int stmt); /* requests, of which a call may carry many */
/* The next such request is applied, and its reply is lost with the connection. */
void spy_lose_reply(sqlock_stmt stmt);
/* Behind so many such requests, the next one finds its connection dead, and is not sent. */
void spy_find_dead(sqlock_stmt stmt, int skip);
/* From now on the client of such a request that failed is stopped before it hears of it, and goes
 * on at this time. */
void spy_stop_failures(sqlock_stmt stmt, int64_t until_us);
/* The next n renewals are told that others were granted the lock, and are not asked for. */
void spy_deny_renewals(int n);
/* From now on acquires get no answer, and do not arrive. */
void spy_hold_back_acquires(void);
int spy_held_back(void); /* how many that were */
/* No more of that; 1: the first of them arrives after all, before the next request that is made. */
void spy_arrive(int arrive);

/* Threads, one for each element of the array, all at once: main is given the element. They have
 * ended when this returns. */
void run_threads(size_t n, void *array, size_t size, void *(*main)(void *element));

/* What a holder gives up of its lease, as sqlock_lock_deadline_us() says it: a tenth. */
int64_t margin_us(int32_t lease_ms);
/* When fd becomes readable, at most so late: true. */
bool readable_within(int fd, int32_t ms);

/* ---- the suite's parts ----------------------------------------------------------------------- */

struct part {
    const struct CMUnitTest *tests;
    size_t n;
};

extern const struct part suite_lease, suite_ended, suite_unsure, suite_import, suite_loss,
    suite_renewal, suite_wait, suite_names, suite_arguments, suite_fork, suite_threads, suite_async,
    suite_scope, suite_list, suite_schema, suite_versions, suite_reap, suite_register,
    suite_register_lost;
/* Where processes meet in one database; then those where a child of a process with a manager may
 * open one, and where it may not. */
extern const struct part suite_processes, suite_executed, suite_child_opens, suite_child_refused;
extern const struct part suite_migration; /* where an empty database has no schema */
extern const struct part suite_sql, suite_reap_sql,
    suite_reap_locked;               /* where SQL can be run past the library */
extern const struct part suite_load; /* where rows can be made by the thousand */
/* Where an application's connection can be adopted; then where a statement on it can be cut, and
 * whether renewals go on beside its transactions, or they keep everybody out. */
extern const struct part suite_adopt, suite_adopt_cut, suite_adopt_slow, suite_guard;
extern const struct part suite_matrix, suite_cas, suite_cas_columns, suite_cas_race, suite_fence,
    suite_retry;
extern const struct part suite_guard_renewed, suite_guard_alone, suite_stale, suite_stale_inside;
extern const struct part suite_guard_refused; /* where the server cannot keep one */
extern const struct part suite_rowlock, suite_rowlock_keys, suite_rowlock_wait,
    suite_rowlock_blockers;
extern const struct part suite_rowlock_server, suite_rowlock_deadlock;
extern const struct part suite_deadlock; /* the same, of a request of ours; MySQL */
/* Also where a server knows no NOWAIT. */
extern const struct part suite_rowlock_race, suite_rowlock_refused;

/* A test of what core decides whatever the driver does: arguments, options, states, callbacks,
 * loops. It is run where quirks have tries_core; on servers it would only last longer. */
#define core_test(f) cmocka_unit_test_setup(f, decided_in_core)
int decided_in_core(void **state);

#define PART(name, array) const struct part name = {array, sizeof(array) / sizeof(*(array))}

#endif
