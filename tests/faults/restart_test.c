/* A PostgreSQL server that may forget commits (SQLOCK_OPEN_ACCEPT_WEAK) is killed under load and
 * comes back without some of the grants that it had confirmed. Tokens still only rise (P2): whoever
 * meets the server after its restart raises their floor to the clock. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/private.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>

enum { WORKERS = 2, LEASE = 500, ENOUGH = 30 };
#define NAME   "nightly"
#define SCHEMA "weak"

/* What is known of the grants, in their order. */
struct tally {
    int grants;      /* since count_anew() */
    int64_t highest; /* token of all */
    int fallen;      /* grants whose token was not above all before them */
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

static void stop_load(void)
{
    pthread_mutex_lock(&book.mutex);
    book.stop = 1;
    pthread_mutex_unlock(&book.mutex);
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].runs)
            pthread_join(workers[i].thread, NULL);
        sqlock_close(workers[i].m);
    }
    memset(workers, 0, sizeof workers);
}

static int teardown(void **state)
{
    (void)state;
    stop_load();
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
    t->grants += token > 0;
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
            sqlock_scope_end(&lock);
        } else {
            stop = enter(0);
            sqlock_lock_free(lock);
        }
        sched_yield();
    }
    return NULL;
}

static void go_on(const sqlock_driver *driver, unsigned flags)
{
    book.stop = 0;
    for (int i = 0; i < WORKERS; i++) {
        sqlock_open_opts opts = open_opts(flags);
        sqlock_error err;

        assert_ok(sqlock_open(driver, private_url(), &opts, &workers[i].m, &err), &err);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        workers[i].runs = true;
    }
    assert_soon(tally().grants >= ENOUGH, patience_ms(20000));
}

static void start_load(const sqlock_driver *driver, unsigned flags)
{
    memset(&book.tally, 0, sizeof book.tally);
    go_on(driver, flags);
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
    opts.flags = SQLOCK_OPEN_ACCEPT_WEAK; /* a test before this one may have made it so */
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), private_url(), &opts, NULL, &err), &err);
    setting("fsync", "off");
    setting("synchronous_commit", "off");
    setting("wal_writer_delay", "10s");
    setting("full_page_writes", "off");
    setting("autovacuum", "off");
    private_restart(0);
}

/* The server is met, and that is on its disk. */
static void meet(const sqlock_driver *driver, unsigned flags)
{
    sqlock_open_opts opts = open_opts(flags);
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(sqlock_open(driver, private_url(), &opts, &m, &err), &err);
    sqlock_close(m);
    private_save();
}

/* ---- wrong: the restart raises the floor by one; grants leave the session's forgetfulness as it
 * is
 */

#define FLUSH "pg_catalog.set_config('synchronous_commit', 'on', true) OPERATOR(pg_catalog.=) 'on'"
enum { LOW_FLOOR = 1, FORGETFUL = 2 };

static sqlock_driver bad_driver;
static sqlock_dialect bad_dialect;
static sqlock_script bad_scripts[SQLOCK_STMT_COUNT];
static sqlock_step bad_steps[SQLOCK_STMT_COUNT][8];
static char bad_texts[SQLOCK_STMT_COUNT][8][8192];

/* Returns how often `from` was there. */
static int put(char *sql, size_t size, const char *from, const char *to)
{
    char *copy = strdup(sql), *at, *rest = copy;
    size_t n = 0;
    int hits = 0;

    assert_non_null(copy);
    for (; (at = strstr(rest, from)) != NULL; rest = at + strlen(from), hits++)
        n += (size_t)snprintf(sql + n, size - n, "%.*s%s", (int)(at - rest), rest, to);
    snprintf(sql + n, size - n, "%s", rest);
    free(copy);
    return hits;
}

/* The driver with a floor of one more in the place of the clock, or with grants that do not force
 * the flush. */
static const sqlock_driver *damaged(int how)
{
    const sqlock_driver *ours = sqlock_driver_postgres();
    int floors = 0, flushes = 0;

    bad_driver = *ours;
    bad_dialect = *ours->dialect;
    for (int s = 0; s < SQLOCK_STMT_COUNT; s++) {
        bad_scripts[s] = ours->dialect->scripts[s];
        assert_true(bad_scripts[s].n_steps <= 8);
        for (size_t i = 0; i < bad_scripts[s].n_steps; i++) {
            char *text = bad_texts[s][i];

            bad_steps[s][i] = bad_scripts[s].steps[i];
            snprintf(text, sizeof bad_texts[s][i], "%s", bad_steps[s][i].sql);
            if (how & LOW_FLOOR)
                floors += put(text, sizeof bad_texts[s][i], "THEN i.t ELSE",
                              "THEN i.above OPERATOR(pg_catalog.+) 1 ELSE");
            if (how & FORGETFUL)
                flushes += put(text, sizeof bad_texts[s][i], FLUSH, "true");
            bad_steps[s][i].sql = text;
        }
        bad_scripts[s].steps = bad_steps[s];
    }
    assert_int_equal(floors, how & LOW_FLOOR ? 1 : 0); /* reincarnate */
    /* and the longest lease; acquire's first step, which is its last too; a register that is
     * changed, or made */
    assert_int_equal(flushes, how & FORGETFUL ? 6 : 0);
    bad_dialect.scripts = bad_scripts;
    bad_driver.dialect = &bad_dialect;
    return &bad_driver;
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
    /* Wrong: what was granted before is granted again. */
    load_and_a_restored_disk(damaged(LOW_FLOOR));
    assert_true(tally().fallen > 0);
}

/* Nobody touches the disk. The session leaves synchronous_commit off. Returns how many of the
 * grants that were confirmed the next server knows nothing of; they are the last ones. */
static int64_t load_and_a_crash(const sqlock_driver *driver)
{
    int64_t forgotten;

    weak_server();
    meet(driver, SQLOCK_OPEN_UNPREPARED);
    start_load(driver, SQLOCK_OPEN_UNPREPARED);
    private_kill();
    stop_load();
    private_start();
    forgotten = tally().highest -
                private_number("SELECT token FROM " SCHEMA ".sqlock_lock WHERE name = '" NAME "'");
    count_anew();
    go_on(driver, SQLOCK_OPEN_UNPREPARED);
    return forgotten;
}

static void test_grants_are_on_the_disk_where_the_session_would_forget_them(void **state)
{
    (void)state;
    assert_true(load_and_a_crash(sqlock_driver_postgres()) <= 0);
    assert_int_equal(tally().fallen, 0);
}

/* Were they forgotten all the same (by a disk that lies), tokens rise: the floor of the restart is
 * above them. The last commits are forgotten, if they did not happen to fill a page of the WAL. */
static void test_tokens_rise_when_a_crash_forgot_the_last_grants(void **state)
{
    int64_t forgotten = 0;
    (void)state;

    for (int i = 0; forgotten <= 0; i++) {
        assert_true(i < 5);
        forgotten = load_and_a_crash(damaged(FORGETFUL));
        assert_int_equal(tally().fallen, 0);
        teardown(state);
    }
    print_message("%lld grants were confirmed and forgotten\n", (long long)forgotten);
    for (int i = 0; i == 0 || tally().fallen == 0; i++) { /* wrong: a floor that is too low */
        assert_true(i < 5);
        load_and_a_crash(damaged(FORGETFUL | LOW_FLOOR));
        teardown(state);
    }
}

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

static const struct CMUnitTest tests[] = {
    T(tokens_rise_when_a_restart_forgot_all_grants),
    T(grants_are_on_the_disk_where_the_session_would_forget_them),
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
