/* The suite's own means: worlds, the driver that counts, and small steps that most tests take. */
#include "tests/drivers/suite.h"
#include "tests/drivers/suite_process.h"

#include "tests/lib/adopt_app.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local sqlock_error said;

/* ---- the driver that counts ------------------------------------------------------------------ */

static const sqlock_driver *real;
static sqlock_driver spied;
static atomic_int lost_stmt, dead_stmt; /* + 1 */
static atomic_int dead_skip, denials;
static atomic_int failing_stmt; /* + 1 */
static atomic_llong failure_at;
static atomic_long opens, runs[SQLOCK_STMT_COUNT], requests[SQLOCK_STMT_COUNT];

static int count_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                      sqlock_error *err)
{
    int rc = real->open(opts, deadline, out_conn, err);

    atomic_fetch_add(&opens, 1); /* once it is over: a socket has been made close-on-exec by then */
    return rc;
}

/* An acquire that is on its way on a connection which its client has given up. */
static struct held_back {
    pthread_mutex_t mu;
    int on; /* 1: acquires do not arrive; 2: the first of them arrives before the next request */
    int n;
    sqlock_value values[8];
    unsigned char bytes[8][SQLOCK_LABEL_MAX + 1];
} held_back = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void hold_back(const sqlock_value *values)
{
    size_t n = real->dialect->scripts[SQLOCK_STMT_ACQUIRE].n_params;

    if (held_back.n++ > 0)
        return;
    memcpy(held_back.values, values, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (values[i].type == SQLOCK_BYTES && values[i].len > 0) {
            memcpy(held_back.bytes[i], values[i].data, values[i].len);
            held_back.values[i].data = held_back.bytes[i];
        }
}

/* 1: this request does not arrive. */
static int is_held_back(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                        sqlock_rows *rows, sqlock_error *err)
{
    int back;

    pthread_mutex_lock(&held_back.mu);
    back = held_back.on == 1 && stmt == SQLOCK_STMT_ACQUIRE;
    if (back)
        hold_back(values);
    if (held_back.on == 2) {
        size_t before = sqlock_rows_count(rows);

        held_back.on = 0;
        real->run(conn, SQLOCK_STMT_ACQUIRE, held_back.values, 1, deadline, rows, err);
        sqlock_rows_cut(rows, before);
    }
    pthread_mutex_unlock(&held_back.mu);
    return back;
}

void spy_hold_back_acquires(void)
{
    pthread_mutex_lock(&held_back.mu);
    held_back.on = 1;
    held_back.n = 0;
    pthread_mutex_unlock(&held_back.mu);
}

int spy_held_back(void)
{
    int n;

    pthread_mutex_lock(&held_back.mu);
    n = held_back.n;
    pthread_mutex_unlock(&held_back.mu);
    return n;
}

void spy_arrive(int arrive)
{
    pthread_mutex_lock(&held_back.mu);
    held_back.on = arrive ? 2 : 0;
    pthread_mutex_unlock(&held_back.mu);
}

/* As a statement answers that has seen a row as it was before somebody's change. */
static int deny(size_t n, sqlock_rows *rows)
{
    for (size_t i = 0; i < n; i++)
        if (sqlock_rows_add(rows, i) != 0 || sqlock_rows_put_int(rows, 0) != 0 ||
            sqlock_rows_put_int(rows, SQLOCK_OUT_TAKEN) != 0)
            return SQLOCK_ENOMEM;
    return 0;
}

static void sleep_until(int64_t at_us)
{
    while (sqlock_now_us() < at_us)
        sleep_ms(1);
}

static int count_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                     int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    atomic_fetch_add(&runs[stmt], 1);
    atomic_fetch_add(&requests[stmt], (long)n);
    int lost = (int)stmt + 1;

    if (atomic_load(&dead_stmt) == (int)stmt + 1 && atomic_fetch_sub(&dead_skip, 1) == 0)
        return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT, "the connection was dead");
    if (stmt == SQLOCK_STMT_RENEW && atomic_load(&denials) > 0) {
        atomic_fetch_sub(&denials, 1);
        return deny(n, rows);
    }
    if (is_held_back(conn, stmt, values, deadline, rows, err))
        return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT | SQLOCK_MAYBE, "held back");
    int rc = real->run(conn, stmt, values, n, deadline, rows, err);

    if (rc != 0 && atomic_load(&failing_stmt) == (int)stmt + 1)
        sleep_until(atomic_load(&failure_at));
    if (rc != 0 || !atomic_compare_exchange_strong(&lost_stmt, &lost, 0))
        return rc;
    return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT | SQLOCK_MAYBE, "the reply is lost");
}

void spy_deny_renewals(int n)
{
    atomic_store(&denials, n);
}

void spy_stop_failures(sqlock_stmt stmt, int64_t until_us)
{
    atomic_store(&failure_at, until_us);
    atomic_store(&failing_stmt, (int)stmt + 1);
}

void spy_find_dead(sqlock_stmt stmt, int skip)
{
    atomic_store(&dead_skip, skip);
    atomic_store(&dead_stmt, (int)stmt + 1);
}

void spy_lose_reply(sqlock_stmt stmt)
{
    atomic_store(&lost_stmt, (int)stmt + 1);
}

static void spy_start(const struct quirks *q)
{
    real = q->driver();
    spied = *real;
    spied.open = count_open;
    spied.run = count_run;
    atomic_store(&lost_stmt, 0);
    atomic_store(&dead_stmt, 0);
    atomic_store(&denials, 0);
    atomic_store(&failing_stmt, 0);
    held_back.on = held_back.n = 0;
    atomic_store(&opens, 0);
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        atomic_store(&runs[i], 0);
        atomic_store(&requests[i], 0);
    }
}

const sqlock_driver *spied_driver(void)
{
    return &spied;
}

static long sum(atomic_long *of, int stmt)
{
    long n = 0;

    for (int i = 0; i < SQLOCK_STMT_COUNT; i++)
        n += stmt == -1 || stmt == i ? atomic_load(&of[i]) : 0;
    return n;
}

long spy_opens(void)
{
    return atomic_load(&opens);
}

long spy_runs(int stmt)
{
    return sum(runs, stmt);
}

long spy_requests(int stmt)
{
    return sum(requests, stmt);
}

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
    for (size_t i = 0; i < w->n_apps; i++)
        w->q->app->close(w->apps[i]);
    for (size_t i = 0; i < w->n_managers; i++)
        sqlock_close(w->managers[i]);
    if (w->made)
        w->q->drop(&w->place);
    free(w);
    return 0;
}

struct world *world_bare(void **state)
{
    struct world *w = *state;

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
    return sqlock_open(&spied, w->place.url, &o, out_m, err);
}

int migrate_here(struct world *w, int *out_applied, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    return sqlock_migrate(&spied, w->place.url, &o, out_applied, err);
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
    /* Who forks comes first. libtsan maps 1.2 MB at each dlclose() and never unmaps them, the
     * driver for SQLite looks at every library when it connects, and a child of a process with more
     * in one piece than the machine's memory is refused. */
    const struct {
        const struct part *part;
        bool fits;
    } parts[] = {{&suite_names, true},
                 {&suite_fork, true},
                 {&suite_processes, q->between_processes},
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
                 {&suite_load, q->leave != NULL},
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
            if (parts[i].part->tests[j].setup_func == decided_in_core && !q->tries_core)
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
