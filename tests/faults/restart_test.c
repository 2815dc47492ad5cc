/* A PostgreSQL server that may forget commits (SQLOCK_OPEN_ACCEPT_WEAK) is killed under load and
 * comes back without some of the grants that it had confirmed. Tokens still only rise (P2): whoever
 * meets the server after its restart lifts them over all that it may have forgotten. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/private.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>

enum { WORKERS = 2, LEASE = 500, ENOUGH = 30 };
#define NAME   "nightly"
#define SCHEMA "weak"
#define JUMP   "4294967296"

/* What is known of the grants, in their order. */
struct tally {
    int grants;             /* since count_anew() */
    int64_t first, highest; /* tokens: of those grants, and of all */
    int fallen;             /* grants whose token was not above all before them */
};

/* The mutex is not the lock's business: a worker holds the lock when it takes it. */
static struct {
    pthread_mutex_t mutex;
    int stop;
    struct tally tally;
} book = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct worker {
    pthread_t thread;
    bool runs;
    sqlock *m;
} workers[WORKERS];

static int teardown(void **state)
{
    (void)state;
    pthread_mutex_lock(&book.mutex);
    book.stop = 1;
    pthread_mutex_unlock(&book.mutex);
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].runs)
            pthread_join(workers[i].thread, NULL);
        sqlock_close(workers[i].m);
    }
    memset(workers, 0, sizeof workers);
    return 0;
}

static sqlock_open_opts open_opts(unsigned flags)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;

    opts.schema = SCHEMA;
    opts.flags = SQLOCK_OPEN_ACCEPT_WEAK | flags;
    opts.request_ms = 1000;
    return opts;
}

/* ---- the load ----------------------------------------------------------------------------------
 */

/* token 0: no grant. Whether to stop. */
static int enter(int64_t token)
{
    struct tally *t = &book.tally;
    int stop;

    pthread_mutex_lock(&book.mutex);
    stop = book.stop;
    if (token > 0 && t->grants++ == 0)
        t->first = token;
    if (token > 0 && token <= t->highest)
        t->fallen++;
    t->highest = token > t->highest ? token : t->highest;
    pthread_mutex_unlock(&book.mutex);
    return stop;
}

static struct tally tally(void)
{
    struct tally t;

    pthread_mutex_lock(&book.mutex);
    t = book.tally;
    pthread_mutex_unlock(&book.mutex);
    return t;
}

/* The server has gone, and with it all answers; what comes from now on is another server's. */
static void count_anew(void)
{
    sleep_ms(100);
    pthread_mutex_lock(&book.mutex);
    book.tally.grants = 0;
    pthread_mutex_unlock(&book.mutex);
}

/* Whatever fails, fails because the server is gone: try again. */
static void *work(void *arg)
{
    struct worker *w = arg;

    for (int stop = 0; !stop;) {
        sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
        sqlock_lock *lock = NULL;

        opts.lease_ms = LEASE;
        opts.wait_ms = 2000;
        if (sqlock_acquire(w->m, NAME, &opts, &lock, NULL) == 0) {
            stop = enter(sqlock_lock_token(lock));
            sqlock_release(lock, NULL);
        } else {
            stop = enter(0);
        }
        sqlock_lock_free(lock);
        sched_yield();
    }
    return NULL;
}

static void start_load(const sqlock_driver *driver, unsigned flags)
{
    book.stop = 0;
    memset(&book.tally, 0, sizeof book.tally);
    for (int i = 0; i < WORKERS; i++) {
        sqlock_open_opts opts = open_opts(flags);
        sqlock_error err;

        assert_ok(sqlock_open(driver, private_url(), &opts, &workers[i].m, &err), &err);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        workers[i].runs = true;
    }
    assert_soon(tally().grants >= ENOUGH, patience_ms(10000));
}

/* ---- the server --------------------------------------------------------------------------------
 */

static void setting(const char *name, const char *value)
{
    private_exec("ALTER SYSTEM SET %s = '%s'", name, value);
}

/* A new schema on a server that syncs nothing. */
static void weak_server(void)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;

    private_exec("DROP SCHEMA IF EXISTS " SCHEMA " CASCADE; CREATE SCHEMA " SCHEMA);
    opts.schema = SCHEMA;
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), private_url(), &opts, NULL, &err), &err);
    setting("fsync", "off");
    setting("synchronous_commit", "off");
    setting("wal_writer_delay", "10s");
    setting("full_page_writes", "off");
    setting("autovacuum", "off");
    private_restart(0);
}

/* The server is met, and that is on its disk: were it forgotten too, the next server would be taken
 * for the first one. */
static void meet(const sqlock_driver *driver, unsigned flags)
{
    sqlock_open_opts opts = open_opts(flags);
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(sqlock_open(driver, private_url(), &opts, &m, &err), &err);
    sqlock_close(m);
    private_save();
}

/* ---- wrong: the restart lifts tokens by one ----------------------------------------------------
 */

static sqlock_driver short_driver;
static sqlock_dialect short_dialect;
static sqlock_script short_scripts[SQLOCK_STMT_COUNT];
static sqlock_step short_steps[SQLOCK_STMT_COUNT][8];
static char short_texts[SQLOCK_STMT_COUNT][8][8192];

static int shortened(char *out, size_t size, const char *sql)
{
    const char *at;
    size_t n = 0;
    int hits = 0;

    for (; (at = strstr(sql, JUMP)) != NULL; sql = at + strlen(JUMP), hits++)
        n += (size_t)snprintf(out + n, size - n, "%.*s1", (int)(at - sql), sql);
    snprintf(out + n, size - n, "%s", sql);
    return hits;
}

/* The driver with a jump of 1 in the place of 2^32. */
static const sqlock_driver *driver_with_a_short_jump(void)
{
    const sqlock_driver *ours = sqlock_driver_postgres();
    int hits = 0;

    short_driver = *ours;
    short_dialect = *ours->dialect;
    for (int s = 0; s < SQLOCK_STMT_COUNT; s++) {
        short_scripts[s] = ours->dialect->scripts[s];
        assert_true(short_scripts[s].n_steps <= 8);
        for (size_t i = 0; i < short_scripts[s].n_steps; i++) {
            short_steps[s][i] = short_scripts[s].steps[i];
            hits += shortened(short_texts[s][i], sizeof short_texts[s][i], short_steps[s][i].sql);
            short_steps[s][i].sql = short_texts[s][i];
        }
        short_scripts[s].steps = short_steps[s];
    }
    /* reincarnate; acquire's first step, which is its last too; what the reaper compares */
    assert_int_equal(hits, 5);
    short_dialect.scripts = short_scripts;
    short_driver.dialect = &short_dialect;
    return &short_driver;
}

/* ---- the restarts ------------------------------------------------------------------------------
 */

/* The grants go on after the server's end. Its disk is as it was before the load: all that it
 * confirmed since is forgotten. */
static void load_and_a_restored_disk(const sqlock_driver *driver)
{
    weak_server();
    meet(driver, 0);
    start_load(driver, 0);
    private_kill();
    count_anew();
    private_restore();
    private_start();
    assert_soon(tally().grants >= ENOUGH, patience_ms(20000));
}

static void test_tokens_rise_when_a_restart_forgot_all_grants(void **state)
{
    (void)state;
    load_and_a_restored_disk(sqlock_driver_postgres());
    assert_int_equal(tally().fallen, 0);
    teardown(state);
    /* Wrong: a jump of 1. What was granted before is granted again. */
    load_and_a_restored_disk(driver_with_a_short_jump());
    assert_true(tally().fallen > 0);
}

/* Nobody touches the disk: commits that were told before they were written die with the server. The
 * highest token before that; workers go on. */
static int64_t load_and_a_crash(const sqlock_driver *driver)
{
    int64_t highest;

    weak_server();
    meet(driver, SQLOCK_OPEN_UNPREPARED);
    start_load(driver, SQLOCK_OPEN_UNPREPARED); /* leaves synchronous_commit as it is: off */
    private_kill();
    count_anew();
    highest = tally().highest;
    private_start();
    assert_soon(tally().grants >= ENOUGH, patience_ms(20000));
    return highest;
}

/* The last commits are forgotten, if they did not happen to fill a page of the WAL. */
static void test_tokens_rise_when_a_crash_forgot_the_last_grants(void **state)
{
    const int64_t jump = INT64_C(4294967296);
    int64_t forgotten = 0;
    (void)state;

    for (int i = 0; forgotten <= 0; i++) {
        assert_true(i < 5);
        forgotten = load_and_a_crash(sqlock_driver_postgres());
        assert_int_equal(tally().fallen, 0);
        forgotten -= tally().first - jump - 1;
        teardown(state);
    }
    print_message("%lld grants were confirmed and forgotten\n", (long long)forgotten);
    for (int i = 0; i == 0 || tally().fallen == 0; i++) { /* wrong: a jump of 1 */
        assert_true(i < 5);
        load_and_a_crash(driver_with_a_short_jump());
        teardown(state);
    }
}

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

static const struct CMUnitTest tests[] = {
    T(tokens_rise_when_a_restart_forgot_all_grants),
    T(tokens_rise_when_a_crash_forgot_the_last_grants),
};

TEST_MAIN(tests)

#else

int main(void)
{
    print_message("SKIP: there is no PostgreSQL\n");
    return 0;
}

#endif
