/* One suite over the public API that every driver passes. What differs between drivers stands in a
 * struct quirks, never in an `if` of a test.
 *
 * A test works in a world of its own: an empty database, or schema, that nobody else sees. What it
 * opened there is closed and dropped when the test ends, also by an assertion. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_H
#define SQLOCK_TESTS_DRIVERS_SUITE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/place.h"

#include <sqlock/async.h>
#include <sqlock/driver.h>
#include <sqlock/import.h>
#include <sqlock/sqlock.h>

/* ---- worlds ---------------------------------------------------------------------------------- */

enum { WORLD_MANAGERS = 32, WORLD_APPS = 8, WORLD_ENDS = 4 };
enum { GRAIN_MS = 1 }; /* of servers' clocks */

struct world {
    const struct quirks *q;
    struct place place;
    sqlock_driver driver; /* a copy of the one that managers use, for a test to change */
    bool made;
    sqlock *managers[WORLD_MANAGERS];
    size_t n_managers;
    sqlock_lock **locks; /* what was taken: freed when the test ends */
    size_t n_locks;
    void *apps[WORLD_APPS]; /* the application's own connections (adopt_app.h) */
    size_t n_apps;
    void (*ends[WORLD_ENDS])(void);
    size_t n_ends;
};

/* ---- tests -------------------------------------------------------------------------------------
 * A test stands where it is written, and registers itself. It is run with w, its world, and with
 * one or two managers, if it names them:
 *
 *     TEST(test_one_holder_at_a_time, a, b)
 *     {
 *         sqlock_lock *lock = take(a, "nightly");
 *
 * The suite is the tests of all files suite_*.c. Those of another program, which ends with
 * TEST_MAIN_ON, are those of its file. */

/* What a test needs. A guard needs an application's connection that can be adopted, and a server
 * that can keep one. */
enum {
    CORE_TRIED = 1 << 0, /* quirks have tries_core */
    SQL = 1 << 2,        /* it can be run past the library */
    DEAD_ROWS = 1 << 3,  /* they can be made by the thousand */
    PROCESSES = 1 << 4,  /* they meet in one database */
    FORK_OPENS = 1 << 5, /* a child of a process with a manager may open one, or may not */
    FORK_REFUSED = 1 << 6,
    ONE_WRITER = 1 << 7, /* a transaction keeps everybody out, or only from its rows */
    MANY_WRITERS = 1 << 8,
    ADOPTION = 1 << 9,
    GUARDS = 1 << 10,
    NO_GUARDS = 1 << 11,
    SLOW_STEP = 1 << 12,       /* a statement that can be cut */
    KILLS = 1 << 13,           /* the server can end a session */
    DEADLOCKS = 1 << 14,       /* a request of ours can meet one */
    LEISURE = 1 << 15,         /* not in a hurry (make quick), but on the fake database */
    LIBRARY_THREADS = 1 << 18, /* managers have threads, which run callbacks */
    QUEUES = 1 << 23,          /* waiters stand in a queue of the database */
    CALLS = 1 << 25,           /* the database calls a waiter of another program */
    PASSES = 1 << 24,          /* a release passes the lock on to who waits in its manager alone */
    BATCHES = 1 << 22,         /* requests of several callers may go out together */
    BARE = 1 << 16,            /* no need: the world begins without a schema */
    FORKS = 1 << 17,           /* nor this: it is run before those that do not */
    REGISTERS = 1 << 19,       /* and rows that are locked by name */
    NOTES = 1 << 20,           /* of breaks: a row that others were granted shows them no more */
    LEASES_ONLY = 1 << 21      /* neither of the two */
};

/* What all tests of a file need; set before this header. */
#ifndef SUITE_NEEDS
#define SUITE_NEEDS 0
#endif

struct suite_test {
    const char *name, *file;
    int line;
    void (*run)(struct world *w);
    void (*stage)(struct world *w); /* called before the test; NULL: nothing */
    unsigned needs;
    struct suite_test *next;
};
void suite_add(struct suite_test *t);

/* In the place of check.h's, whose tests have no world. */
#undef TEST
#define TEST(...)              TEST_WITH(0, NULL, __VA_ARGS__)
#define TEST_IF(needs, ...)    TEST_WITH(needs, NULL, __VA_ARGS__)
#define TEST_AFTER(stage, ...) TEST_WITH(0, stage, __VA_ARGS__)
#define BARE_TEST(...)         TEST_WITH(BARE, NULL, __VA_ARGS__)
/* Of what core decides whatever the driver does: arguments, options, states, callbacks, loops. It
 * is run where quirks have tries_core; on servers it would only last longer. */
#define CORE_TEST(...) TEST_WITH(CORE_TRIED, NULL, __VA_ARGS__)

#define TEST_WITH(needs, stage, ...)                                                               \
    TEST_PICK(__VA_ARGS__, TEST_OF_TWO, TEST_OF_ONE, TEST_OF_NONE, )(needs, stage, __VA_ARGS__)
#define TEST_PICK(f, a, b, macro, ...) macro
#define TEST_OF_NONE(needs, stage, f)                                                              \
    static void f(struct world *w);                                                                \
    TEST_ADD(needs, stage, f, f)                                                                   \
    static void f(__attribute__((unused)) struct world *w)
#define TEST_OF_ONE(needs, stage, f, m)                                                            \
    static void f(struct world *w, sqlock *m);                                                     \
    static void f##_of_one(struct world *w)                                                        \
    {                                                                                              \
        f(w, open_manager(w, NULL));                                                               \
    }                                                                                              \
    TEST_ADD(needs, stage, f, f##_of_one)                                                          \
    static void f(__attribute__((unused)) struct world *w, sqlock *m)
#define TEST_OF_TWO(needs, stage, f, a, b)                                                         \
    static void f(struct world *w, sqlock *a, sqlock *b);                                          \
    static void f##_of_two(struct world *w)                                                        \
    {                                                                                              \
        sqlock *first = open_manager(w, NULL);                                                     \
        f(w, first, open_manager(w, NULL));                                                        \
    }                                                                                              \
    TEST_ADD(needs, stage, f, f##_of_two)                                                          \
    static void f(__attribute__((unused)) struct world *w, sqlock *a, sqlock *b)
#define TEST_ADD(needs, stage, f, run)                                                             \
    __attribute__((constructor)) static void f##_is_a_test(void)                                   \
    {                                                                                              \
        static struct suite_test t = {#f,  __FILE__, __LINE__, run, stage, (needs) | SUITE_NEEDS,  \
                                      NULL};                                                       \
        suite_add(&t);                                                                             \
    }

/* What main() returns: all tests of the suite that fit the driver, or those of files whose paths
 * begin so. */
int suite_run(const struct quirks *q);
int suite_run_files(const struct quirks *q, const char *prefix);
#define TEST_MAIN_OF_SUITE(server)                                                                 \
    int main(void)                                                                                 \
    {                                                                                              \
        return suite_run(&server##_quirks);                                                        \
    }
#define TEST_MAIN_OF_STEPPED_SUITE(server)                                                         \
    int main(void)                                                                                 \
    {                                                                                              \
        suite_stepped = true;                                                                      \
        return suite_run(&server##_quirks);                                                        \
    }
#define TEST_MAIN_ON(server)                                                                       \
    int main(void)                                                                                 \
    {                                                                                              \
        return suite_run_files(&server##_quirks, __FILE__);                                        \
    }

/* ---- what a call said ------------------------------------------------------------------------ */

/* The error of the test's calls. Each thread has its own, empty when a test begins. */
extern _Thread_local sqlock_error said;

/* The call, which was given it, succeeds; or says this code. */
#define ok(call)             check_code(SQLOCK_OK, (call), &said, #call, __FILE__, __LINE__)
#define says(expected, call) check_code((expected), (call), &said, #call, __FILE__, __LINE__)

/* The call takes from low to high milliseconds. */
#define assert_takes(low_ms, high_ms, call)                                                        \
    do {                                                                                           \
        int64_t takes_begun = now_us();                                                            \
        call;                                                                                      \
        check_between((low_ms)*INT64_C(1000), now_us() - takes_begun, (high_ms)*INT64_C(1000),     \
                      "the time of " #call, __FILE__, __LINE__);                                   \
    } while (0)

/* ---- steps ----------------------------------------------------------------------------------- */

/* Call this when the test ends, the last one first, before connections and managers are closed. */
void at_end(struct world *w, void (*end)(void));

/* Open a manager; opts may be NULL. Where it is comes from the world. It is closed when the test
 * ends, unless close_manager() did it before. */
sqlock *open_manager(struct world *w, const sqlock_open_opts *opts);
/* With these options: open_with(w, with.request_ms = 300, with.connections = 3). */
#define open_with(w, ...)                                                                          \
    ({                                                                                             \
        sqlock_open_opts with = SQLOCK_OPEN_OPTS_INIT;                                             \
        (void)(__VA_ARGS__);                                                                       \
        open_manager((w), &with);                                                                  \
    })
void close_manager(struct world *w, sqlock *m);
/* The same for whoever looks at the result, and need not close what failed. */
int open_here(struct world *w, const sqlock_open_opts *opts, sqlock **out_m, sqlock_error *err);
void close_here(sqlock *m);
/* Set by main(): managers of worlds have no threads, and an event loop of the test's steps them. */
extern bool suite_stepped;
/* sqlock_open(), or what does the same without threads. */
int open_by(const sqlock_driver *driver, const char *url, const sqlock_open_opts *o, sqlock **out_m,
            sqlock_error *err);
/* By way of w->driver, as the test has changed it. */
sqlock *open_changed(struct world *w, int32_t request_ms);
/* Its reserved connection, which is opened behind a grant that is to be renewed. */
void open_reserved(sqlock *m);
int migrate_here(struct world *w, int *out_applied, sqlock_error *err);
/* Where the world is, over what opts says of it. */
void place_opts(const struct world *w, sqlock_open_opts *opts);
/* The driver that all managers of worlds use: the real one, and counts what goes through it. */
const sqlock_driver *spied_driver(void);

/* Acquire, and fail the test if that fails; it may wait ten seconds. lease_ms 0: the default. The
 * handle is freed when the test ends, unless give() or drop() did it before. */
sqlock_lock *take(sqlock *m, const char *name);
sqlock_lock *take_for(sqlock *m, const char *name, int32_t lease_ms, unsigned flags);
sqlock_lock *take_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts);
sqlock_lock *forget(sqlock_lock *lock);    /* it is freed by someone else */
sqlock_lock *keep(sqlock_lock *lock);      /* one that was got in another way: the same for it */
void give(sqlock_lock *lock);              /* release and free */
void drop(sqlock_lock *lock);              /* free */
int try_once(sqlock *m, const char *name); /* the code of a try; what it got is given back */
bool is_free(sqlock *m, const char *name); /* a try gets it, and no refusal */
int64_t token_in_the_row(sqlock *m, const char *name); /* of its holder; 0: it has none */
void await_loss(sqlock_lock *lock); /* until the state is LOST, a few seconds at most */
/* Which state a lock is in; that it is lost, and why; that it will be, as await_loss() says. */
#define assert_state(state, lock) check_state((state), (lock), #lock, __FILE__, __LINE__)
#define assert_lost(lock, why)    check_lost((lock), (why), #lock, __FILE__, __LINE__)
#define await_lost(lock, why)     (await_loss(lock), assert_lost(lock, why))
void check_state(sqlock_state expected, sqlock_lock *lock, const char *what, const char *file,
                 int line);
void check_lost(sqlock_lock *lock, sqlock_why why, const char *what, const char *file, int line);
sqlock_acquire_opts wait_opts(int32_t wait_ms, int32_t lease_ms, unsigned flags);

/* Run SQL past the library: {lock} and so on are its tables. */
void run_past(const struct world *w, const char *sql);

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
/* An answer that has this outcome, and no more. 0, or SQLOCK_ENOMEM. */
int spy_answer(sqlock_rows *rows, size_t request, sqlock_outcome outcome);
/* The next n renewals are told that others were granted the lock, and are not asked for. */
void spy_deny_renewals(int n);
/* The next n acquires hear that their owner was released before. */
void spy_end_owners(int n);
/* From now on so many of these requests get no answer, and do not arrive. SQLOCK_STMT_COUNT: of
 * any, and they last until their deadlines. */
void spy_hold_back(sqlock_stmt stmt, int most);
#define spy_hold_back_acquires() spy_hold_back(SQLOCK_STMT_ACQUIRE, INT32_MAX)
int spy_held_back(void); /* how many that were */
/* No more of that; 1: the first of them arrives after all, before the next request that is made. */
void spy_arrive(int arrive);

/* Threads, one for each element of the array, which main gets; all at once, and to their end. */
void run_threads(size_t n, void *array, size_t size, void *(*main)(void *element));

/* What callbacks saw; they run on the library's thread, so nothing is asserted in them. Static,
 * since one may be called when the test has returned. */
struct told {
    atomic_int at_risk, held, lost; /* how often that was said */
    _Atomic int64_t lost_us;
    atomic_int why, is_held, fd;
    _Atomic int64_t deadline, token;
    atomic_int in_callback, hold_up_ms, stay; /* stay: it does not return */
};
/* For a lock whose callbacks are noted there, and which is not waited for. */
sqlock_acquire_opts reported_opts(struct told *t, int32_t lease_ms, unsigned flags);

/* An acquire on a thread of its own, which the test joins. */
struct waiter {
    sqlock *m;
    const char *name;
    sqlock_acquire_opts opts;
    bool gives_back; /* what it got */
    pthread_t thread;
    int code; /* and what comes of it */
    int64_t ended_us;
    atomic_int ended;
    sqlock_lock *lock;
    sqlock_error err;
};
void wait_start(struct waiter *t);

/* What a holder gives up of its lease, as sqlock_lock_deadline_us() says it: a tenth. */
int64_t margin_us(int32_t lease_ms);
void stays_held(sqlock_lock *lock, int64_t ms);
/* When fd becomes readable, at most so late: true. */
bool readable_within(int fd, int32_t ms);

#endif
