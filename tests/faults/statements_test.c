/* What the database is asked for each acquire and release, counted where the statements arrive: in
 * PostgreSQL's own log, and by SQLite's trace. The proxy counts the same calls' round trips. */
#include "tests/faults/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/private.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#endif

enum { PAIRS = 20 };
#define NAME "nightly"

static sqlock *manager;
static struct stage stage;

static int teardown(void **state)
{
    (void)state;
    sqlock_close(manager);
    manager = NULL;
    stage_remove(&stage);
    return 0;
}

static void acquire_and_release(void)
{
    sqlock_lock *lock = held(manager, NAME, 30000, NULL);
    sqlock_error err;

    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

#ifdef TEST_HAVE_POSTGRES

#define SCHEMA "cost"
#define WHO    "counted"

/* The server writes a line for each parse, bind, execute and simple query of sessions called WHO.
 */
static void log_everything(void)
{
    private_exec("ALTER SYSTEM SET log_min_duration_statement = 0");
    private_exec("ALTER SYSTEM SET log_min_messages = log");
    private_exec("ALTER SYSTEM SET log_line_prefix = '<%%a> '");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(
        private_number("SELECT (current_setting('log_min_duration_statement') = '0')::int") == 1,
        patience_ms(5000));
}

static void log_nothing(void)
{
    private_exec("ALTER SYSTEM RESET log_min_duration_statement");
    private_exec("ALTER SYSTEM SET log_min_messages = fatal");
    private_exec("SELECT pg_reload_conf()");
}

/* What the log says of the sessions called WHO. A line reads
 * <counted> LOG:  duration: 0.1 ms  execute sqlock_acquire_1_00c0ffee_1: WITH ... */
struct counts {
    int parses, binds, executes, others; /* others: simple queries, unnamed ones, anything else */
    int acquires, releases;              /* of the executes */
};

static void count_line(const char *line, struct counts *n)
{
    static const char start[] = "<" WHO "> LOG:  duration: ";
    const char *what = strncmp(line, start, sizeof start - 1) == 0 ? strstr(line, " ms  ") : NULL;

    if (what == NULL)
        return; /* of another session, or the rest of a statement's text */
    what += strlen(" ms  ");
    if (strncmp(what, "parse sqlock_", 13) == 0)
        n->parses++;
    else if (strncmp(what, "bind sqlock_", 12) == 0)
        n->binds++;
    else if (strncmp(what, "execute sqlock_", 15) == 0)
        n->executes++;
    else
        n->others++;
    n->acquires += strncmp(what, "execute sqlock_acquire_1_", 25) == 0;
    n->releases += strncmp(what, "execute sqlock_release_1_", 25) == 0;
}

/* From a byte of the log to its end; the lines of a call are there when its answer is. */
static struct counts count_log(long from, long *end)
{
    char path[300], *line = NULL;
    struct counts n = {0};
    size_t size = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/log", private_dir());
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, from, SEEK_SET), 0);
    while (getline(&line, &size, f) > 0)
        count_line(line, &n);
    *end = ftell(f);
    free(line);
    fclose(f);
    return n;
}

static void counted_manager(void)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    char *url = NULL;

    private_exec("DROP SCHEMA IF EXISTS " SCHEMA " CASCADE; CREATE SCHEMA " SCHEMA);
    opts.schema = SCHEMA;
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), private_url(), &opts, NULL, &err), &err);
    log_everything();
    stage.proxy = proxy_start_url(private_url());
    assert_true(asprintf(&url, "%s&application_name=" WHO, proxy_url(stage.proxy)) > 0);
    assert_ok(sqlock_open(sqlock_driver_postgres(), url, &opts, &manager, &err), &err);
    free(url);
}

static void test_acquire_and_release_are_one_prepared_statement_each_at_the_server(void **state)
{
    struct counts n;
    long end = 0;
    int requests, opened;
    (void)state;

    counted_manager();
    n = count_log(0, &end);
    assert_true(n.others > 0); /* the first words on a connection are no prepared statements */
    acquire_and_release();     /* makes the row: the request's other steps are parsed too */
    acquire_and_release();
    n = count_log(end, &end);
    assert_int_equal(n.parses, 4); /* acquire in three steps, release */
    assert_true(n.others > 0);     /* the renewals' connection has been opened */
    requests = proxy_requests(stage.proxy);
    opened = proxy_accepted(stage.proxy);
    for (int i = 0; i < PAIRS; i++) {
        acquire_and_release();
        n = count_log(end, &end);
        assert_int_equal(n.parses, 0); /* known since the first time */
        assert_int_equal(n.binds, 2);
        assert_int_equal(n.executes, 2);
        assert_int_equal(n.acquires, 1);
        assert_int_equal(n.releases, 1);
        assert_int_equal(n.others, 0);
    }
    assert_int_equal(proxy_requests(stage.proxy) - requests, 2 * PAIRS);
    assert_int_equal(proxy_accepted(stage.proxy), opened);
    log_nothing();
}

/* Wrong: without prepared statements each request is parsed again. The count must see that. */
static void test_count_sees_what_is_parsed_each_time(void **state)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    struct counts n;
    char *url = NULL;
    long end = 0;
    (void)state;

    counted_manager();
    sqlock_close(manager);
    manager = NULL;
    opts.schema = SCHEMA;
    opts.flags = SQLOCK_OPEN_UNPREPARED;
    assert_true(asprintf(&url, "%s&application_name=" WHO, proxy_url(stage.proxy)) > 0);
    assert_ok(sqlock_open(sqlock_driver_postgres(), url, &opts, &manager, &err), &err);
    free(url);
    acquire_and_release();
    count_log(0, &end);
    acquire_and_release();
    n = count_log(end, &end);
    assert_int_equal(n.others, 2 * 3); /* parse, bind and execute of <unnamed> */
    assert_int_equal(n.executes, 0);
    log_nothing();
}

#endif

#ifdef TEST_HAVE_SQLITE

/* What the connections of a factory are asked, and what they compile. Each is used by one thread at
 * a time; the test looks when nobody is under way. */
static struct traced {
    atomic_int statements, begins, commits, compiled;
} traced;

static int on_statement(unsigned what, void *user, void *stmt, void *text)
{
    const char *sql = sqlite3_sql(stmt);
    (void)what;
    (void)user;
    (void)text;

    atomic_fetch_add(&traced.statements, 1);
    atomic_fetch_add(&traced.begins, strncmp(sql, "BEGIN IMMEDIATE", 15) == 0);
    atomic_fetch_add(&traced.commits, strncmp(sql, "COMMIT", 6) == 0);
    return 0;
}

/* Called for what a statement does while it is compiled, and not when it runs. */
static int on_compile(void *user, int what, const char *a, const char *b, const char *c,
                      const char *d)
{
    (void)user;
    (void)what;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    atomic_fetch_add(&traced.compiled, 1);
    return SQLITE_OK;
}

static int connect_traced(void *user, void **out_native, sqlock_error *err)
{
    sqlite3 *db = NULL;
    (void)err;

    if (sqlite3_open(user, &db) != SQLITE_OK)
        return SQLOCK_EUNREACH;
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
    sqlite3_set_authorizer(db, on_compile, NULL);
    *out_native = db;
    return 0;
}

static struct traced since(void)
{
    struct traced t;

    atomic_init(&t.statements, atomic_exchange(&traced.statements, 0));
    atomic_init(&t.begins, atomic_exchange(&traced.begins, 0));
    atomic_init(&t.commits, atomic_exchange(&traced.commits, 0));
    atomic_init(&t.compiled, atomic_exchange(&traced.compiled, 0));
    return t;
}

static void traced_manager(void)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;

    stage_sqlite(&stage);
    opts.connect = connect_traced;
    opts.connect_user = (void *)(uintptr_t)stage_file(&stage);
    assert_ok(sqlock_open(sqlock_driver_sqlite(), NULL, &opts, &manager, &err), &err);
}

/* SQLite is not asked over a network: what counts is the one transaction, whose commit is the cost.
 */
static void test_acquire_and_release_are_one_transaction_each_in_sqlite(void **state)
{
    sqlock_lock *lock;
    sqlock_error err;
    struct traced t;
    (void)state;

    traced_manager();
    acquire_and_release();
    acquire_and_release();
    t = since();
    assert_true(atomic_load(&t.compiled) > 0);
    for (int i = 0; i < PAIRS; i++) {
        lock = held(manager, NAME, 30000, NULL);
        t = since();
        assert_int_equal(atomic_load(&t.statements),
                         6); /* look; begin, grant, answer, mode, commit */
        assert_int_equal(atomic_load(&t.begins), 1);
        assert_int_equal(atomic_load(&t.commits), 1);
        assert_int_equal(atomic_load(&t.compiled), 1); /* the mode, which SQLite never keeps */
        assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
        t = since();
        assert_int_equal(atomic_load(&t.statements), 5); /* begin, release, answer, mode, commit */
        assert_int_equal(atomic_load(&t.begins), 1);
        assert_int_equal(atomic_load(&t.commits), 1);
        assert_int_equal(atomic_load(&t.compiled), 1);
    }
}

static void test_busy_try_is_one_reading_statement_in_sqlite(void **state)
{
    sqlock_lock *lock, *none = NULL;
    sqlock_error err;
    struct traced t;
    (void)state;

    traced_manager();
    lock = held(manager, NAME, 30000, NULL);
    take(manager, NAME, 30000, 0, NULL, &none, &err);
    since();
    for (int i = 0; i < PAIRS; i++)
        assert_code(SQLOCK_EBUSY, take(manager, NAME, 30000, 0, NULL, &none, &err), &err);
    t = since();
    assert_int_equal(atomic_load(&t.statements), PAIRS);
    assert_int_equal(atomic_load(&t.begins), 0);
    assert_int_equal(atomic_load(&t.compiled), 0);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

#endif

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

static const struct CMUnitTest tests[] = {
#ifdef TEST_HAVE_POSTGRES
    T(acquire_and_release_are_one_prepared_statement_each_at_the_server),
    T(count_sees_what_is_parsed_each_time),
#endif
#ifdef TEST_HAVE_SQLITE
    T(acquire_and_release_are_one_transaction_each_in_sqlite),
    T(busy_try_is_one_reading_statement_in_sqlite),
#endif
};

TEST_MAIN(tests)
