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

static struct suite_test *all_tests;

void suite_add(struct suite_test *t)
{
    t->next = all_tests;
    all_tests = t;
}

/* What cmocka keeps for a test: what is run, and on what; then its world. */
struct run {
    const struct suite_test *test;
    const struct quirks *q;
    struct world w;
};

/* The test's, and its locks', which callbacks may drop. */
static struct world *here;
static pthread_mutex_t locks_mutex = PTHREAD_MUTEX_INITIALIZER;

static int world_begin(void **state)
{
    struct run *r = *state;

    r->w = (struct world){.q = r->q};
    here = &r->w;
    said = (sqlock_error){0};
    return 0;
}

/* In the test, not in its setup: cmocka takes a skip there for an error. */
static void world_run(void **state)
{
    struct run *r = *state;
    struct world *w = &r->w;

    late_begin();
    spy_start(w->q);
    w->driver = *spied_driver();
    w->q->make(&w->place);
    w->made = true;
    if (!(r->test->needs & BARE))
        ok(migrate_here(w, NULL, &said));
    if (r->test->stage)
        r->test->stage(w);
    r->test->run(w);
}

static int world_end(void **state)
{
    struct world *w = &((struct run *)*state)->w;

    child_end_all(); /* first: they may hold row locks, as these do */
    while (w->n_ends > 0)
        w->ends[--w->n_ends]();
    for (size_t i = 0; i < w->n_apps; i++)
        w->q->app->close(w->apps[i]);
    for (size_t i = 0; i < w->n_locks; i++)
        sqlock_lock_free(w->locks[i]);
    free(w->locks);
    for (size_t i = 0; i < w->n_managers; i++)
        sqlock_close(w->managers[i]);
    if (w->made)
        w->q->drop(&w->place);
    return 0;
}

void at_end(struct world *w, void (*end)(void))
{
    assert_in_range(w->n_ends, 0, WORLD_ENDS - 1);
    w->ends[w->n_ends++] = end;
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

sqlock *open_changed(struct world *w, int32_t request_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    o.request_ms = request_ms;
    place_opts(w, &o);
    ok(sqlock_open(&w->driver, w->place.url, &o, &m, &said));
    assert_in_range(w->n_managers, 0, WORLD_MANAGERS - 1);
    return w->managers[w->n_managers++] = m;
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

sqlock_lock *keep(sqlock_lock *lock)
{
    struct world *w = here;

    pthread_mutex_lock(&locks_mutex);
    w->locks = realloc(w->locks, (w->n_locks + 1) * sizeof *w->locks);
    w->locks[w->n_locks++] = lock;
    pthread_mutex_unlock(&locks_mutex);
    return lock;
}

sqlock_lock *forget(sqlock_lock *lock)
{
    struct world *w = here;
    size_t i = 0;

    pthread_mutex_lock(&locks_mutex);
    while (i < w->n_locks && w->locks[i] != lock)
        i++;
    if (i < w->n_locks)
        w->locks[i] = w->locks[--w->n_locks];
    pthread_mutex_unlock(&locks_mutex);
    return lock;
}

void drop(sqlock_lock *lock)
{
    sqlock_lock_free(forget(lock));
}

sqlock_lock *take_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts)
{
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    assert_ok(sqlock_acquire(m, name, opts, &lock, &err), &err);
    assert_non_null(lock);
    return keep(lock);
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
    drop(lock);
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

void check_state(sqlock_state expected, sqlock_lock *lock, const char *what, const char *file,
                 int line)
{
    sqlock_state state = sqlock_lock_state(lock);

    if (state == expected)
        return;
    print_error("%s is %s (%s), not %s\n", what, sqlock_state_name(state),
                sqlock_why_name(sqlock_lock_why(lock)), sqlock_state_name(expected));
    _fail(file, line);
}

void check_lost(sqlock_lock *lock, sqlock_why why, const char *what, const char *file, int line)
{
    check_state(SQLOCK_LOST, lock, what, file, line);
    if (sqlock_lock_why(lock) == why)
        return;
    print_error("%s is lost: %s, not: %s\n", what, sqlock_why_name(sqlock_lock_why(lock)),
                sqlock_why_name(why));
    _fail(file, line);
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

/* What there is. A server is asked for guards only if it is to be tested: else there may be none.
 */
static unsigned has(const struct quirks *q)
{
    const struct adopt_app *app = q->app;
    /* In a hurry one database shows what core decides, and nothing waits for other processes. */
    bool quick = getenv("SQLOCK_TEST_QUICK") != NULL && !q->born_migrated;
    bool guards = app && test_wants(q->name) && (!q->guards || q->guards());

    return (q->tries_core && !quick ? CORE_TRIED : 0) | (q->born_migrated ? 0 : EMPTY) |
           (q->execute ? SQL : 0) | (q->leave ? DEAD_ROWS : 0) |
           (q->between_processes ? PROCESSES : 0) |
           (q->opens_after_fork ? FORK_OPENS : FORK_REFUSED) |
           (q->driver()->caps & SQLOCK_CAP_ONE_WRITER ? ONE_WRITER : MANY_WRITERS) |
           (app ? ADOPTION : 0) | (guards ? GUARDS : NO_GUARDS) |
           (app && app->slow ? SLOW_STEP : 0) | (app && app->kill ? KILLS : 0) |
           (q->meets_deadlocks ? DEADLOCKS : 0) | (quick ? 0 : LEISURE) | BARE;
}

enum { TESTS_MOST = 400 };

static int by_line(const void *a, const void *b)
{
    const struct run *x = a, *y = b;

    return x->test->line - y->test->line;
}

/* Put the file's tests that fit behind the n that are there; how many there are then. */
static size_t add_file(const struct quirks *q, unsigned there, const char *file, struct run *runs,
                       size_t n)
{
    size_t begin = n;

    for (const struct suite_test *t = all_tests; t; t = t->next) {
        if (strcmp(t->file, file) != 0 || (t->needs & ~there))
            continue;
        if (n == TESTS_MOST) {
            fprintf(stderr, "there are too many tests for their table\n");
            exit(1);
        }
        runs[n++] = (struct run){.test = t, .q = q};
    }
    qsort(runs + begin, n - begin, sizeof *runs, by_line);
    return n;
}

static int run_all(const struct quirks *q, const char *name, struct run *runs, size_t n)
{
    struct CMUnitTest tests[TESTS_MOST];
    int code = 0;

    if (q->missing && q->missing(&code))
        return code;
    if (!test_wants(q->name)) {
        printf("SKIP: %s is not among the drivers to test\n", q->name);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        tests[i] =
            (struct CMUnitTest){runs[i].test->name, world_run, world_begin, world_end, &runs[i]};
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL) == 0 ? 0 : 1;
}

int suite_run_file(const struct quirks *q, const char *file)
{
    static struct run runs[TESTS_MOST];

    return run_all(q, file, runs, add_file(q, has(q), file, runs, 0));
}

#define SUITE(name) "tests/drivers/suite_" name ".c"

static int run_suite(const struct quirks *q)
{
    static struct run runs[TESTS_MOST];
    /* Who forks comes first. libtsan maps 1.2 MB at each dlclose() and never unmaps them, the
     * driver for SQLite looks at every library when it connects, and a child of a process with more
     * in one piece than the machine's memory is refused. */
    const struct {
        const char *file;
        unsigned needs;
    } files[] = {
        {SUITE("names"), 0},
        {SUITE("fork"), 0},
        {SUITE("processes"), PROCESSES | LEISURE},
        {SUITE("child"), PROCESSES},
        {SUITE("stale"), GUARDS | PROCESSES},
        {SUITE("lease"), 0},
        {SUITE("ended"), 0},
        {SUITE("unsure"), 0},
        {SUITE("import"), 0},
        {SUITE("loss"), 0},
        {SUITE("renewal"), 0},
        {SUITE("wait"), 0},
        {SUITE("arguments"), 0},
        {SUITE("threads"), 0},
        {SUITE("async"), 0},
        {SUITE("scope"), 0},
        {SUITE("list"), 0},
        {SUITE("schema"), 0},
        {SUITE("versions"), 0},
        {SUITE("reap"), 0},
        {SUITE("register"), 0},
        {SUITE("register_lost"), 0},
        {SUITE("reap_sql"), SQL},
        {SUITE("load"), DEAD_ROWS | LEISURE},
        {SUITE("adopt"), ADOPTION},
        {SUITE("adopt_cut"), ADOPTION},
        {SUITE("guard"), ADOPTION},
        {SUITE("rowlock"), GUARDS},
        {SUITE("rowlock_keys"), GUARDS},
        {SUITE("rowlock_wait"), ADOPTION},
        {SUITE("rowlock_blockers"), GUARDS},
        {SUITE("deadlock"), GUARDS | DEADLOCKS},
        {SUITE("matrix"), GUARDS},
        {SUITE("cas"), ADOPTION},
        {SUITE("cas_columns"), ADOPTION},
        {SUITE("cas_race"), ADOPTION},
        {SUITE("fence"), ADOPTION},
        {SUITE("retry"), 0},
        {SUITE("rowlock_race"), ADOPTION},
    };
    enum { FILES = sizeof files / sizeof *files };
    unsigned there = has(q);
    size_t n = 0;

    for (const struct suite_test *t = all_tests; t; t = t->next) {
        size_t i = 0;

        while (i < FILES && strcmp(t->file, files[i].file) != 0)
            i++;
        if (i == FILES && strncmp(t->file, SUITE(""), strlen("tests/drivers/suite_")) == 0) {
            fprintf(stderr, "%s is not in the suite's list\n", t->file);
            return 1;
        }
    }
    for (size_t i = 0; i < FILES; i++)
        if ((files[i].needs & ~there) == 0)
            n = add_file(q, there, files[i].file, runs, n);
    return run_all(q, q->name, runs, n);
}

/* What asks the server what it can do is a use of the client library already. */
int suite_run(const struct quirks *q)
{
    int code = 0;

    if (q->missing && q->missing(&code))
        return code;
    return getenv(ENV_NAME) ? run_executed(q) : run_suite(q);
}
