/* What the database is asked for each acquire and release, counted where the statements arrive: in
 * PostgreSQL's own log, and by SQLite's trace. The proxy counts the same calls' round trips. */
#include "tests/faults/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/private.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#endif

static sqlock_error err;

enum { PAIRS = 20 };
#define NAME "nightly"

static sqlock *manager;

static int teardown(void **state)
{
    sqlock_close(manager);
    manager = NULL;
    return stage_teardown(state);
}

static void acquire_and_release(void)
{
    lock_draw(manager, NAME);
}

#ifdef TEST_HAVE_POSTGRES

#define SCHEMA "cost"
#define WHO    "counted"

/* The server writes a line for each parse, bind, execute and simple query of sessions called WHO.
 */
static void log_everything(void)
{
    private_set("log_min_messages", "log");
    private_set("log_line_prefix", "<%a> ");
    private_set("log_min_duration_statement", "0");
}

static void log_nothing(void)
{
    private_set("log_min_duration_statement", NULL);
    private_set("log_min_messages", "fatal");
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
    FILE *f = fopen(textf("%s/log", private_dir()), "r");
    struct counts n = {0};
    char *line = NULL;
    size_t size = 0;

    assert_non_null(f);
    assert_int_equal(fseek(f, from, SEEK_SET), 0);
    while (getline(&line, &size, f) > 0)
        count_line(line, &n);
    *end = ftell(f);
    free(line);
    fclose(f);
    return n;
}

static void counted_manager(unsigned flags)
{
    struct db db = db_with(private_new(SCHEMA), flags);

    log_everything();
    stage.proxy = proxy_start_url(private_url());
    db.url = textf("%s&application_name=" WHO, proxy_url(stage.proxy));
    manager = db_open(db);
}

TEST(test_acquire_and_release_are_one_prepared_statement_each_at_the_server)
{
    struct counts n;
    long end = 0;
    int requests, opened;

    counted_manager(0);
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
TEST(test_count_sees_what_is_parsed_each_time)
{
    struct counts n;
    long end = 0;

    counted_manager(SQLOCK_OPEN_UNPREPARED);
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

static int connect_traced(void *user, void **out_native, sqlock_error *out_err)
{
    sqlite3 *db = NULL;
    (void)out_err;

    if (sqlite3_open(user, &db) != SQLITE_OK)
        return SQLOCK_EUNREACH;
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
    sqlite3_set_authorizer(db, on_compile, NULL);
    *out_native = db;
    return 0;
}

static void assert_traced(int statements, int begins, int compiled)
{
    assert_int_equal(atomic_exchange(&traced.statements, 0), statements);
    assert_int_equal(atomic_exchange(&traced.begins, 0), begins);
    assert_int_equal(atomic_exchange(&traced.commits, 0), begins);
    assert_int_equal(atomic_exchange(&traced.compiled, 0), compiled);
}

static void forget_traced(void)
{
    memset(&traced, 0, sizeof traced);
}

static void traced_manager(void)
{
    struct db db = {.driver = sqlock_driver_sqlite(), .connect = connect_traced};

    stage_sqlite(&stage);
    db.connect_user = (void *)(uintptr_t)stage_file(&stage);
    manager = db_open(db);
}

/* SQLite is not asked over a network: what counts is the one transaction, whose commit is the cost.
 */
TEST(test_acquire_and_release_are_one_transaction_each_in_sqlite)
{
    sqlock_lock *lock;

    traced_manager();
    acquire_and_release();
    acquire_and_release();
    assert_true(atomic_load(&traced.compiled) > 0);
    forget_traced();
    for (int i = 0; i < PAIRS; i++) {
        lock = held(manager, NAME, 30000, NULL);
        /* look; begin, grant, answer, mode, commit: SQLite never keeps the mode compiled */
        assert_traced(6, 1, 1);
        lock_give(lock);
        assert_traced(5, 1, 1); /* begin, release, answer, mode, commit */
    }
}

TEST(test_busy_try_is_one_reading_statement_in_sqlite)
{
    sqlock_lock *lock, *none = NULL;

    traced_manager();
    lock = held(manager, NAME, 30000, NULL);
    take(manager, NAME, 30000, 0, NULL, &none, &err);
    forget_traced();
    for (int i = 0; i < PAIRS; i++)
        assert_code(SQLOCK_EBUSY, take(manager, NAME, 30000, 0, NULL, &none, &err), &err);
    assert_traced(PAIRS, 0, 0);
    lock_give(lock);
}

#endif

TEST_MAIN_EACH(NULL, teardown)
