/* The suite's own means: worlds, and what is run where. */
#include "tests/drivers/suite.h"

#include "core/engine/batch.h"
#include "tests/lib/adopt_app.h"
#include "tests/lib/pump.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        close_here(w->managers[i]);
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

bool suite_stepped;

int open_by(const sqlock_driver *driver, const char *url, const sqlock_open_opts *o, sqlock **out_m,
            sqlock_error *err)
{
    return (suite_stepped && out_m != NULL ? pump_open : sqlock_open)(driver, url, o, out_m, err);
}

void close_here(sqlock *m)
{
    pump_stop(m);
    sqlock_close(m);
}

/* Each request goes out by itself, and each release waits for the disk: what can be turned off is
 * off. Set SQLOCK_TEST_APART=1 for that. */
static bool is_apart(void)
{
    return getenv("SQLOCK_TEST_APART") != NULL;
}

int open_here(struct world *w, const sqlock_open_opts *opts, sqlock **out_m, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    if (opts)
        o = *opts;
    if (is_apart())
        o.flags |= SQLOCK_OPEN_DURABLE_RELEASE;
    place_opts(w, &o);
    return open_by(spied_driver(), w->place.url, &o, out_m, err);
}

sqlock *open_changed(struct world *w, int32_t request_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    o.request_ms = request_ms;
    place_opts(w, &o);
    ok(open_by(&w->driver, w->place.url, &o, &m, &said));
    assert_in_range(w->n_managers, 0, WORLD_MANAGERS - 1);
    return w->managers[w->n_managers++] = m;
}

int migrate_here(struct world *w, int *out_applied, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    return sqlock_migrate(spied_driver(), w->place.url, &o, out_applied, err);
}

void run_past(const struct world *w, const char *sql)
{
    const char *schema = w->place.schema, *at;
    char text[1024];
    size_t used = 0;

    for (; (at = strchr(sql, '{')) != NULL; sql = strchr(at, '}') + 1)
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s%s%ssqlock_%.*s",
                                 (int)(at - sql), sql, schema ? schema : "", schema ? "." : "",
                                 (int)strcspn(at + 1, "}"), at + 1);
    snprintf(text + used, sizeof text - used, "%s", sql);
    w->q->execute(&w->place, text);
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
    close_here(m);
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

/* ---- running --------------------------------------------------------------------------------- */

/* Its requests of several callers travel together. */
static bool has_batches(const struct quirks *q)
{
    const sqlock_driver *d = q->driver();

    return !is_apart() && ((d->caps & SQLOCK_CAP_BATCH) ||
                           d->dialect->scripts[SQLOCK_STMT_ACQUIRE].n_array_steps > 0);
}

/* What there is. A server is asked for guards if it is to be tested: else there may be none. */
static unsigned has(const struct quirks *q)
{
    const struct adopt_app *app = q->app;
    /* In a hurry one database shows what core decides, and nothing waits for other processes. */
    bool quick = getenv("SQLOCK_TEST_QUICK") != NULL && !q->born_migrated;
    bool guards = app && test_wants(q->name) && (!q->guards || q->guards());

    return (suite_stepped ? 0 : LIBRARY_THREADS) | (has_batches(q) ? BATCHES : 0) |
           (q->tries_core && !quick ? CORE_TRIED : 0) | (q->execute ? SQL : 0) |
           (q->leave ? DEAD_ROWS : 0) | (q->between_processes ? PROCESSES : 0) |
           (q->opens_after_fork ? FORK_OPENS : FORK_REFUSED) |
           (q->driver()->caps & SQLOCK_CAP_ONE_WRITER ? ONE_WRITER : MANY_WRITERS) |
           (app ? ADOPTION : 0) | (guards ? GUARDS : NO_GUARDS) |
           (app && app->slow ? SLOW_STEP : 0) | (app && app->kill ? KILLS : 0) |
           (q->meets_deadlocks ? DEADLOCKS : 0) | (quick ? 0 : LEISURE) | BARE | FORKS |
           (q->driver()->dialect->scripts[SQLOCK_STMT_QUEUE].n_steps > 0 ? QUEUES : 0) |
           (q->driver()->hear != NULL ? CALLS : 0) |
           (q->driver()->dialect->scripts[SQLOCK_STMT_PASS].n_steps > 0 ? PASSES : 0) |
           (q->leases_only ? LEASES_ONLY : REGISTERS | NOTES);
}

enum { TESTS_MOST = 600 };

/* Who forks comes first. libtsan maps 1.2 MB at each dlclose() and never unmaps them, the driver
 * for SQLite looks at every library when it connects, and a child of a process with more in one
 * piece than the machine's memory is refused. */
static int by_place(const void *a, const void *b)
{
    const struct suite_test *x = ((const struct run *)a)->test, *y = ((const struct run *)b)->test;
    int forks = (y->needs & FORKS ? 1 : 0) - (x->needs & FORKS ? 1 : 0);
    int file = strcmp(x->file, y->file);

    return forks != 0 ? forks : file != 0 ? file : x->line - y->line;
}

/* SQLOCK_TEST_PART=2/3: the second of three parts, of one test in three. */
static size_t keep_part(struct run *runs, size_t n)
{
    const char *text = getenv("SQLOCK_TEST_PART");
    size_t part = 1, parts = 1, kept = 0;

    if (text != NULL && *text != '\0' && sscanf(text, "%zu/%zu", &part, &parts) != 2)
        fail_msg("SQLOCK_TEST_PART is %s, and not like 1/2", text);
    for (size_t i = 0; i < n; i++)
        if (i % parts == part - 1)
            runs[kept++] = runs[i];
    return kept;
}

int suite_run_files(const struct quirks *q, const char *prefix)
{
    static struct run runs[TESTS_MOST];
    struct CMUnitTest tests[TESTS_MOST];
    unsigned there;
    size_t n = 0;
    int code = 0;

    if (q->missing && q->missing(&code))
        return code;
    if (!test_wants(q->name)) {
        printf("SKIP: %s is not among the drivers to test\n", q->name);
        return 0;
    }
    batch_most = is_apart() ? 1 : batch_most;
    there = has(q);
    for (const struct suite_test *t = all_tests; t; t = t->next) {
        if (strncmp(t->file, prefix, strlen(prefix)) != 0 || (t->needs & ~there))
            continue;
        if (n == TESTS_MOST) {
            fprintf(stderr, "there are too many tests for their table\n");
            return 1;
        }
        runs[n++] = (struct run){.test = t, .q = q};
    }
    if (n == 0 && is_apart()) {
        printf("SKIP: SQLOCK_TEST_APART leaves nothing of %s\n", prefix);
        return 0;
    }
    qsort(runs, n, sizeof *runs, by_place);
    n = keep_part(runs, n);
    for (size_t i = 0; i < n; i++)
        tests[i] =
            (struct CMUnitTest){runs[i].test->name, world_run, world_begin, world_end, &runs[i]};
    return _cmocka_run_group_tests(q->name, tests, n, NULL, NULL) == 0 ? 0 : 1;
}
