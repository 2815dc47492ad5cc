/* The suite's own means: worlds, small steps that most tests take, what is run where. */
#include "tests/drivers/suite.h"
#include "tests/drivers/suite_process.h"

#include "tests/lib/adopt_app.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local sqlock_error said;

/* ---- worlds ---------------------------------------------------------------------------------- */

static int world_begin(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    if (!w)
        return -1;
    w->q = *state;
    *state = w;
    said = (sqlock_error){0};
    return 0;
}

static int world_end(void **state)
{
    struct world *w = *state;

    child_end_all(); /* first: they may hold row locks, as these do */
    while (w->n_ends > 0)
        w->ends[--w->n_ends]();
    for (size_t i = 0; i < w->n_apps; i++)
        w->q->app->close(w->apps[i]);
    for (size_t i = 0; i < w->n_managers; i++)
        sqlock_close(w->managers[i]);
    if (w->made)
        w->q->drop(&w->place);
    free(w);
    return 0;
}

void at_end(struct world *w, void (*end)(void))
{
    assert_in_range(w->n_ends, 0, WORLD_ENDS - 1);
    w->ends[w->n_ends++] = end;
}

struct world *world_bare(void **state)
{
    struct world *w = *state;

    late_begin();
    spy_start(w->q);
    w->q->make(&w->place);
    w->made = true;
    return w;
}

struct world *world(void **state)
{
    struct world *w = world_bare(state);
    sqlock_error err = {0};

    assert_ok(migrate_here(w, NULL, &err), &err);
    return w;
}

void place_opts(const struct world *w, sqlock_open_opts *opts)
{
    opts->connect = w->place.connect;
    opts->connect_user = w->place.connect_user;
    opts->schema = w->place.schema;
}

int open_here(struct world *w, const sqlock_open_opts *opts, sqlock **out_m, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    if (opts)
        o = *opts;
    place_opts(w, &o);
    return sqlock_open(spied_driver(), w->place.url, &o, out_m, err);
}

int migrate_here(struct world *w, int *out_applied, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    return sqlock_migrate(spied_driver(), w->place.url, &o, out_applied, err);
}

sqlock *open_manager(struct world *w, const sqlock_open_opts *opts)
{
    sqlock_error err = {0};
    sqlock *m = NULL;

    assert_in_range(w->n_managers, 0, WORLD_MANAGERS - 1);
    /* With a short request_ms an opening may take too long for it on a loaded machine. */
    for (int i = 0; i < 5 && open_here(w, opts, &m, &err) == SQLOCK_ETIMEOUT; i++)
        ;
    if (m == NULL)
        assert_ok(open_here(w, opts, &m, &err), &err);
    w->managers[w->n_managers++] = m;
    return m;
}

sqlock *manager(void **state)
{
    struct world *w = *state;

    return open_manager(w->made ? w : world(state), NULL);
}

void close_manager(struct world *w, sqlock *m)
{
    size_t i = 0;

    while (i < w->n_managers && w->managers[i] != m)
        i++;
    assert_in_range(i, 0, w->n_managers - 1);
    w->managers[i] = w->managers[--w->n_managers];
    sqlock_close(m);
}

enum { RUN_THREADS = 16 };

/* ---- small steps ----------------------------------------------------------------------------- */

sqlock_acquire_opts wait_opts(int32_t wait_ms, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    o.wait_ms = wait_ms;
    o.lease_ms = lease_ms;
    o.flags = flags;
    return o;
}

sqlock_lock *take_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts)
{
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    assert_ok(sqlock_acquire(m, name, opts, &lock, &err), &err);
    assert_non_null(lock);
    return lock;
}

sqlock_lock *take_for(sqlock *m, const char *name, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), lease_ms, flags);

    return take_with(m, name, &o);
}

sqlock_lock *take(sqlock *m, const char *name)
{
    return take_for(m, name, 0, 0);
}

void give(sqlock_lock *lock)
{
    sqlock_error err = {0};

    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

int try_once(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL;
    int rc = sqlock_acquire(m, name, &o, &lock, NULL);

    sqlock_scope_end(&lock);
    return rc;
}

bool is_free(sqlock *m, const char *name)
{
    return try_once(m, name) == SQLOCK_OK;
}

void await_loss(sqlock_lock *lock)
{
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(5000));
}

void run_threads(size_t n, void *array, size_t size, void *(*main)(void *element))
{
    pthread_t threads[RUN_THREADS];

    assert_in_range(n, 1, RUN_THREADS);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, main, (char *)array + i * size), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

int64_t margin_us(int32_t lease_ms)
{
    return lease_ms * INT64_C(100);
}

bool readable_within(int fd, int32_t ms)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, ms) == 1 && (p.revents & POLLIN) != 0;
}

/* ---- executed again -------------------------------------------------------------------------- */

#define ENV_NAME   "SQLOCK_SUITE_TRY" /* set: the program only tries to get this lock */
#define ENV_URL    "SQLOCK_SUITE_URL"
#define ENV_SCHEMA "SQLOCK_SUITE_SCHEMA"

void suite_execute(const struct world *w, const char *name)
{
    setenv(ENV_NAME, name, 1);
    setenv(ENV_URL, w->place.url, 1);
    if (w->place.schema)
        setenv(ENV_SCHEMA, w->place.schema, 1);
    execl("/proc/self/exe", w->q->name, (char *)NULL);
}

/* A new process is the only one whose client library does anything for the first time. */
static int run_executed(const struct quirks *q)
{
    static struct process_state before;
    struct world w = {.q = q};
    sqlock_error err = {0};
    const char *changed;
    sqlock *m = NULL;
    int rc;

    process_look(&before);
    w.place.url = getenv(ENV_URL);
    w.place.schema = getenv(ENV_SCHEMA);
    spy_start(q);
    if ((rc = open_here(&w, NULL, &m, &err)) != 0)
        fprintf(stderr, "%s\n", err.text);
    else
        rc = try_once(m, getenv(ENV_NAME));
    sqlock_close(m);
    if ((changed = process_changed(&before)) != NULL) {
        fprintf(stderr, "the process is not as it was: %s\n", changed);
        return SUITE_CHANGED;
    }
    return -rc;
}

/* ---- running --------------------------------------------------------------------------------- */

/* A mark, never called: each test of the suite has world_begin() in its place. */
int decided_in_core(void **state)
{
    (void)state;
    return -1;
}

int suite_run_tests(const struct quirks *q, const char *name, const struct CMUnitTest *tests,
                    size_t n)
{
    struct CMUnitTest *run;
    int failed, code = 0;

    if (q->missing && q->missing(&code))
        return code;
    if (!test_wants(q->name)) {
        printf("SKIP: %s is not among the drivers to test\n", q->name);
        return 0;
    }
    run = calloc(n, sizeof *run);
    for (size_t i = 0; run && i < n; i++) {
        run[i] = tests[i];
        run[i].setup_func = world_begin;
        run[i].teardown_func = world_end;
        run[i].initial_state = (void *)(uintptr_t)q;
    }
    failed = run ? _cmocka_run_group_tests(name, run, n, NULL, NULL) : 1;
    free(run);
    return failed == 0 ? 0 : 1;
}

static int run_suite(const struct quirks *q)
{
    bool one_writer = q->driver()->caps & SQLOCK_CAP_ONE_WRITER;
    bool asks = q->app != NULL && test_wants(q->name); /* who is left out may have no server */
    bool guards = asks && (q->guards == NULL || q->guards());
    /* In a hurry one database shows what core decides, and nothing waits for other processes. */
    bool quick = getenv("SQLOCK_TEST_QUICK") != NULL && !q->born_migrated;
    /* Who forks comes first. libtsan maps 1.2 MB at each dlclose() and never unmaps them, the
     * driver for SQLite looks at every library when it connects, and a child of a process with more
     * in one piece than the machine's memory is refused. */
    const struct {
        const struct part *part;
        bool fits;
    } parts[] = {{&suite_names, true},
                 {&suite_fork, true},
                 {&suite_processes, q->between_processes && !quick},
                 {&suite_executed, q->between_processes},
                 {&suite_child_opens, q->between_processes && q->opens_after_fork},
                 {&suite_child_refused, q->between_processes && !q->opens_after_fork},
                 {&suite_stale, guards && q->between_processes},
                 {&suite_stale_inside, guards && q->between_processes && !one_writer},
                 {&suite_lease, true},
                 {&suite_ended, true},
                 {&suite_unsure, true},
                 {&suite_import, true},
                 {&suite_loss, true},
                 {&suite_renewal, true},
                 {&suite_wait, true},
                 {&suite_arguments, true},
                 {&suite_threads, true},
                 {&suite_async, true},
                 {&suite_scope, true},
                 {&suite_list, true},
                 {&suite_schema, true},
                 {&suite_versions, true},
                 {&suite_reap, true},
                 {&suite_register, true},
                 {&suite_register_lost, true},
                 {&suite_migration, !q->born_migrated},
                 {&suite_sql, q->execute != NULL},
                 {&suite_reap_sql, q->execute != NULL},
                 {&suite_reap_locked, guards && !one_writer},
                 {&suite_load, q->leave != NULL && !quick},
                 {&suite_adopt, q->app != NULL},
                 {&suite_adopt_cut, q->app != NULL},
                 {&suite_adopt_slow, q->app != NULL && q->app->slow != NULL},
                 {&suite_guard, guards},
                 {&suite_guard_renewed, guards && !one_writer},
                 {&suite_guard_alone, guards && one_writer},
                 {&suite_guard_refused, q->app != NULL && !guards},
                 {&suite_rowlock, guards},
                 {&suite_rowlock_keys, guards},
                 {&suite_rowlock_wait, guards},
                 {&suite_rowlock_blockers, guards},
                 {&suite_rowlock_server, guards && q->app->kill != NULL},
                 {&suite_rowlock_deadlock, guards && q->app->kill != NULL},
                 {&suite_deadlock, guards && q->meets_deadlocks},
                 {&suite_matrix, guards},
                 {&suite_cas, q->app != NULL},
                 {&suite_cas_columns, q->app != NULL},
                 {&suite_cas_race, q->app != NULL},
                 {&suite_fence, q->app != NULL},
                 {&suite_retry, true},
                 {&suite_rowlock_refused, q->app != NULL},
                 {&suite_rowlock_race, q->app != NULL}};
    struct CMUnitTest tests[380];
    size_t n = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t j = 0; parts[i].fits && j < parts[i].part->n; j++) {
            if (parts[i].part->tests[j].setup_func == decided_in_core && (quick || !q->tries_core))
                continue;
            if (n == sizeof tests / sizeof *tests) {
                fprintf(stderr, "the suite has too many tests for its table\n");
                return 1;
            }
            tests[n++] = parts[i].part->tests[j];
        }
    return suite_run_tests(q, q->name, tests, n);
}

/* What asks the server what it can do is a use of the client library already. */
int suite_run(const struct quirks *q)
{
    int code = 0;

    if (q->missing && q->missing(&code))
        return code;
    return getenv(ENV_NAME) ? run_executed(q) : run_suite(q);
}
