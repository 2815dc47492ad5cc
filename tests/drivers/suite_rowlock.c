/* P12: locks on rows that live and die with the application's transaction. */
#include <pthread.h>
#include <sqlock/rows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/drivers/suite_guest.h"

/* Two of the application's connections, and what the first one said. */
static struct stage {
    sqlock *m;
    void *other_app;
    sqlock_conn *conn, *other;
    bool one_writer;
    sqlock_error err;
} s;

static void set_stage(void **state)
{
    begin_app(state);
    s.m = open_manager(g.w, NULL);
    s.conn = adopted(s.m, g.app);
    s.other_app = app_connect();
    s.other = adopted(s.m, s.other_app);
    s.one_writer = (g.driver->caps & SQLOCK_CAP_ONE_WRITER) != 0;
    app_exec(g.app, "INSERT INTO app_row VALUES (2, 20)");
}

static void strike_stage(void)
{
    sqlock_conn_free(s.conn);
    sqlock_conn_free(s.other);
    end_guest();
}

static sqlock_row_opts row_opts(unsigned flags, int32_t wait_ms)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;

    o.flags = flags;
    o.wait_ms = wait_ms;
    return o;
}

/* Lock row number id of app_row. */
static int lock_with(sqlock_conn *conn, int64_t id, unsigned flags, int32_t wait_ms)
{
    sqlock_row_opts o = row_opts(flags, wait_ms);
    sqlock_column key[] = {{.name = "id", .value = sqlock_int(id)}};
    sqlock_row row = {sizeof row, NULL, "app_row", key, 1};

    return sqlock_row_lock(conn, &row, 1, &o, &s.err);
}

static int lock(sqlock_conn *conn, int64_t id)
{
    return lock_with(conn, id, 0, 0);
}

static int lock_by(const char *table, const char *column, sqlock_value value)
{
    sqlock_row_opts o = row_opts(0, 0);
    sqlock_column key[] = {{.name = column, .value = value}};
    sqlock_row row = {sizeof row, NULL, table, key, 1};

    return sqlock_row_lock(s.conn, &row, 1, &o, &s.err);
}

static int lock_name(sqlock_conn *conn, const char *name, int32_t wait_ms)
{
    sqlock_row_opts o = row_opts(0, wait_ms);

    return sqlock_name_lock(conn, name, SQLOCK_LEN_STRING, &o, &s.err);
}

static void begin_both(void)
{
    app_exec(g.app, g.side->begins[0]);
    app_exec(s.other_app, g.side->begins[0]);
}

static void end_both(const char *how)
{
    app_exec(g.app, how);
    app_exec(s.other_app, "ROLLBACK");
}

/* ---- what a lock is ---------------------------------------------------------------------------
 */

static void test_row_is_kept_from_others_until_the_transaction_ends(void **state)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};

    set_stage(state);
    for (const char *const *begin = g.side->begins; *begin; begin++)
        for (int i = 0; i < 2; i++) {
            if (strncmp(*begin, "SAVEPOINT", 9) == 0)
                continue; /* ended in another way */
            app_exec(g.app, *begin);
            assert_ok(lock(s.conn, 1), &s.err);
            assert_ok(lock(s.conn, 1), &s.err); /* it is ours */
            app_exec(s.other_app, g.side->begins[0]);
            assert_code(SQLOCK_EBUSY, lock(s.other, 1), &s.err);
            assert_int_equal(s.err.flags, SQLOCK_RETRY);
            app_exec(g.app, ends[i]);
            assert_ok(lock(s.other, 1), &s.err); /* in the transaction that was refused before */
            app_exec(s.other_app, "COMMIT");
        }
    strike_stage();
}

static void test_other_rows_are_free_but_where_there_is_one_writer(void **state)
{
    set_stage(state);
    begin_both();
    assert_ok(lock(s.conn, 1), &s.err);
    assert_int_equal(lock(s.other, 2), s.one_writer ? SQLOCK_EBUSY : 0);
    end_both("COMMIT");
    strike_stage();
}

static void test_bounded_wait_ends_on_time_and_spoils_nothing(void **state)
{
    int64_t began, took;

    set_stage(state);
    begin_both();
    assert_ok(lock(s.conn, 1), &s.err);
    app_exec(s.other_app, "SELECT 1");
    began = sqlock_now_us();
    assert_code(SQLOCK_EBUSY, lock_with(s.other, 1, 0, 300), &s.err);
    took = sqlock_now_us() - began;
    assert_in_range(took, 300000, 300000 + patience_ms(1500) * 1000);
    assert_int_equal(app_number(s.other_app, "SELECT n FROM app_row WHERE id = 2"), 20);
    app_exec(s.other_app, "ROLLBACK");
    app_exec(g.app, "COMMIT");
    app_exec(s.other_app, g.side->begins[0]);
    assert_ok(lock_with(s.other, 1, 0, 300), &s.err);
    app_exec(s.other_app, "ROLLBACK");
    strike_stage();
}

static void *commit_later(void *app)
{
    sleep_ms(300);
    return g.side->exec(app, "COMMIT") ? app : NULL;
}

static void wait_while_other_commits(int32_t wait_ms)
{
    pthread_t thread;
    void *result = NULL;
    int rc;

    begin_both();
    assert_ok(lock(s.other, 1), &s.err);
    assert_int_equal(pthread_create(&thread, NULL, commit_later, s.other_app), 0);
    rc = lock_with(s.conn, 1, 0, wait_ms);
    pthread_join(thread, &result);
    assert_ok(rc, &s.err);
    assert_non_null(result);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    app_exec(g.app, "COMMIT");
}

static void test_wait_ends_with_the_lock_when_it_is_given_up(void **state)
{
    set_stage(state);
    wait_while_other_commits(patience_ms(20000));
    wait_while_other_commits(SQLOCK_WAIT_FOREVER);
    assert_int_equal(seen_by(g.app), 12);
    strike_stage();
}

static void test_locked_rows_are_skipped_if_asked(void **state)
{
    int outcomes[3];
    sqlock_row_opts o = row_opts(SQLOCK_ROW_SKIP_LOCKED, 0);
    sqlock_column keys[] = {{.name = "id", .value = sqlock_int(2)},
                            {.name = "id", .value = sqlock_int(1)},
                            {.name = "id", .value = sqlock_int(9)}};
    sqlock_row rows[3];

    set_stage(state);
    for (int i = 0; i < 3; i++)
        rows[i] = (sqlock_row){sizeof *rows, NULL, "app_row", &keys[i], 1};
    begin_both();
    assert_ok(lock(s.conn, 1), &s.err);
    o.outcomes = outcomes;
    if (s.one_writer) {
        assert_int_equal(sqlock_row_lock(s.other, rows, 2, &o, &s.err), SQLOCK_CONFLICT);
        assert_int_equal(outcomes[0], SQLOCK_CONFLICT);
    } else {
        assert_int_equal(sqlock_row_lock(s.other, rows, 2, &o, &s.err), SQLOCK_CONFLICT);
        assert_int_equal(outcomes[0], 0);
        assert_int_equal(sqlock_row_lock(s.other, rows, 3, &o, &s.err), SQLOCK_ABSENT);
        assert_int_equal(outcomes[2], SQLOCK_ABSENT);
    }
    assert_int_equal(outcomes[1], SQLOCK_CONFLICT);
    end_both("COMMIT");
    strike_stage();
}

static void test_absent_row_is_told(void **state)
{
    set_stage(state);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        assert_int_equal(lock(s.conn, 7), SQLOCK_ABSENT);
        assert_int_equal(lock_with(s.conn, 7, 0, 100), SQLOCK_ABSENT);
        assert_int_equal(lock_with(s.conn, 7, SQLOCK_ROW_SKIP_LOCKED, 0), SQLOCK_ABSENT);
        app_exec(g.app, "ROLLBACK");
    }
    strike_stage();
}

/* Locked by us, then deleted by us: it is not there for us. And one that we have just made is. */
static void test_own_changes_count(void **state)
{
    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "INSERT INTO app_row VALUES (5, 50)");
    assert_ok(lock(s.conn, 5), &s.err);
    app_exec(g.app, "DELETE FROM app_row WHERE id = 5");
    assert_int_equal(lock(s.conn, 5), SQLOCK_ABSENT);
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

/* ---- races ------------------------------------------------------------------------------------
 */

enum { WORKERS = 3, ROUNDS = 15 };

struct worker {
    pthread_t thread;
    void *app;
    sqlock_conn *conn;
    bool locks, reversed;
    int number, code;
    sqlock_error err;
};

static int64_t number_of(void *app, const char *sql)
{
    char *text = g.side->ask(app, sql);
    int64_t n = text ? strtoll(text, NULL, 10) : -1;

    free(text);
    return n;
}

/* Read, think, write: what the lock is for. */
static int count_once(struct worker *w)
{
    sqlock_row_opts o = row_opts(0, SQLOCK_WAIT_FOREVER);
    sqlock_column key[] = {{.name = "id", .value = sqlock_int(1)}};
    sqlock_row row = {sizeof row, NULL, "app_row", key, 1};
    char update[96];
    int64_t n;

    if (!g.side->exec(w->app, g.side->begins[0]))
        return -100;
    if (w->locks && sqlock_row_lock(w->conn, &row, 1, &o, &w->err) != 0)
        return w->err.code;
    n = number_of(w->app, "SELECT n FROM app_row WHERE id = 1");
    sleep_ms(2);
    snprintf(update, sizeof update, "UPDATE app_row SET n = %lld WHERE id = 1", (long long)(n + 1));
    if (!g.side->exec(w->app, update)) {
        g.side->exec(w->app, "ROLLBACK");
        return 1;
    }
    return g.side->exec(w->app, "COMMIT") ? 0 : -101;
}

static void *count_up(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS && w->code >= 0; i++)
        w->code = count_once(w);
    return NULL;
}

static void run_workers(struct worker *workers, int n, void *(*body)(void *))
{
    void *apps[WORKERS] = {g.app, s.other_app, NULL};
    sqlock_conn *conns[WORKERS] = {s.conn, s.other, NULL};

    apps[2] = app_connect();
    conns[2] = adopted(s.m, apps[2]);
    for (int i = 0; i < n; i++) {
        workers[i].app = apps[i];
        workers[i].conn = conns[i];
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    sqlock_conn_free(conns[2]);
}

static void test_no_update_is_lost_under_the_lock(void **state)
{
    struct worker workers[WORKERS] = {{.locks = true}, {.locks = true}, {.locks = true}};

    set_stage(state);
    run_workers(workers, WORKERS, count_up);
    for (int i = 0; i < WORKERS; i++)
        assert_ok(workers[i].code, &workers[i].err);
    assert_int_equal(seen_by(g.app), 10 + WORKERS * ROUNDS);
    strike_stage();
}

/* The twin: it would not have been so by itself. */
static void test_updates_are_lost_or_refused_without_it(void **state)
{
    struct worker workers[WORKERS] = {{.locks = false}, {.locks = false}, {.locks = false}};

    set_stage(state);
    run_workers(workers, WORKERS, count_up);
    assert_true(seen_by(g.app) < 10 + WORKERS * ROUNDS);
    strike_stage();
}

/* Both rows in one call, in the order that the worker has; the twin locks them in two calls. */
static int lock_pair(struct worker *w)
{
    int64_t first = w->number % 2 ? 2 : 1;
    sqlock_row_opts o = row_opts(0, SQLOCK_WAIT_FOREVER);
    sqlock_column keys[] = {{.name = "id", .value = sqlock_int(first)},
                            {.name = "id", .value = sqlock_int(3 - first)}};
    sqlock_row rows[] = {{sizeof *rows, NULL, "app_row", &keys[0], 1},
                         {sizeof *rows, NULL, "app_row", &keys[1], 1}};
    int rc;

    if (!w->reversed)
        return sqlock_row_lock(w->conn, rows, 2, &o, &w->err);
    if ((rc = sqlock_row_lock(w->conn, &rows[0], 1, &o, &w->err)) != 0)
        return rc;
    sleep_ms(200);
    return sqlock_row_lock(w->conn, &rows[1], 1, &o, &w->err);
}

static void *lock_pairs(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < (w->reversed ? 1 : ROUNDS) && w->code == 0; i++) {
        if (!g.side->exec(w->app, g.side->begins[0])) {
            w->code = -100;
            break;
        }
        w->code = lock_pair(w);
        g.side->exec(w->app, "ROLLBACK");
    }
    return NULL;
}

static void test_many_rows_of_one_call_do_not_deadlock(void **state)
{
    struct worker workers[WORKERS] = {{.code = 0}};

    set_stage(state);
    run_workers(workers, WORKERS, lock_pairs);
    for (int i = 0; i < WORKERS; i++)
        assert_ok(workers[i].code, &workers[i].err);
    strike_stage();
}

/* The twin; and what a deadlock is told as, with the transaction as the code says. */
static void test_deadlock_is_told_with_what_is_left_of_the_transaction(void **state)
{
    struct worker workers[2] = {{.reversed = true}, {.reversed = true}};
    int told;

    set_stage(state);
    told = g.side->fails_whole ? SQLOCK_ETXRESTART : SQLOCK_ETXGONE;
    run_workers(workers, 2, lock_pairs);
    assert_true((workers[0].code == told && workers[1].code == 0) ||
                (workers[1].code == told && workers[0].code == 0));
    strike_stage();
}

/* ---- what is refused --------------------------------------------------------------------------
 */

static void check_refused(const char *table, const char *column, sqlock_value value)
{
    assert_code(SQLOCK_EREFUSED, lock_by(table, column, value), &s.err);
    assert_int_equal(seen_by(g.app), 10); /* and the transaction goes on */
}

static void test_key_without_a_unique_index_is_refused(void **state)
{
    set_stage(state);
    app_exec(g.app, "CREATE TABLE app_keys (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, "
                    "c INTEGER, UNIQUE (a, b))");
    app_exec(g.app, "CREATE INDEX app_keys_c ON app_keys (c)");
    app_exec(g.app, "CREATE VIEW app_view AS SELECT id FROM app_keys");
    app_exec(g.app, "INSERT INTO app_keys VALUES (1, 1, 1, 1)");
    app_exec(g.app, g.side->begins[0]);
    assert_ok(lock_by("app_keys", "id", sqlock_int(1)), &s.err);
    check_refused("app_keys", "a", sqlock_int(1)); /* a part of one */
    check_refused("app_keys", "c", sqlock_int(1)); /* not unique */
    check_refused("app_keys", "nothing", sqlock_int(1));
    check_refused("app_view", "id", sqlock_int(1));
    check_refused("no_table", "id", sqlock_int(1));
    assert_non_null(strstr(s.err.text, "no_table"));
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

static void test_key_of_two_columns_is_one_row(void **state)
{
    sqlock_row_opts o = row_opts(0, 0);
    sqlock_column key[] = {{.name = "b", .value = sqlock_int(1)},
                           {.name = "a", .value = sqlock_int(2)}};
    sqlock_row row = {sizeof row, NULL, "app_two", key, 2};

    set_stage(state);
    app_exec(g.app, "CREATE TABLE app_two (a INTEGER, b INTEGER, PRIMARY KEY (a, b))");
    app_exec(g.app, "INSERT INTO app_two VALUES (2, 1)");
    app_exec(g.app, "INSERT INTO app_two VALUES (1, 2)");
    begin_both();
    assert_ok(sqlock_row_lock(s.conn, &row, 1, &o, &s.err), &s.err);
    assert_code(SQLOCK_EBUSY, sqlock_row_lock(s.other, &row, 1, &o, &s.err), &s.err);
    key[0].value.i = 2, key[1].value.i = 1;
    assert_int_equal(sqlock_row_lock(s.other, &row, 1, &o, &s.err),
                     s.one_writer ? SQLOCK_EBUSY : 0);
    key[0].value.i = 1;
    assert_int_equal(sqlock_row_lock(s.conn, &row, 1, &o, &s.err), SQLOCK_ABSENT);
    end_both("ROLLBACK");
    strike_stage();
}

/* A table with one row, whose name and column are this. */
static void make_table_named(const char *name)
{
    char sql[512], quoted[160], q = g.driver->dialect->quote, *at = quoted;

    *at++ = q;
    for (const char *p = name; *p; p++) {
        *at++ = *p;
        if (*p == q)
            *at++ = q;
    }
    *at++ = q;
    *at = '\0';
    snprintf(sql, sizeof sql, "CREATE TABLE %s (%s INTEGER PRIMARY KEY)", quoted, quoted);
    app_exec(g.app, sql);
    snprintf(sql, sizeof sql, "INSERT INTO %s VALUES (1)", quoted);
    app_exec(g.app, sql);
}

/* All that a parser, ours or a server's, could stumble over. */
static void test_hostile_names_are_names(void **state)
{
    static const char *const names[] = {"order\"; DROP TABLE app_row; -- `?$1 {match} '\\ select",
                                        "/*each ,*/ ?/*end*/ {table} :name", "SELECT", "'", " x "};

    set_stage(state);
    for (size_t i = 0; i < sizeof names / sizeof *names - (g.driver->dialect->quote == '`'); i++) {
        make_table_named(names[i]);
        begin_both();
        assert_ok(lock_by(names[i], names[i], sqlock_int(1)), &s.err);
        assert_int_equal(lock_by(names[i], names[i], sqlock_int(2)), SQLOCK_ABSENT);
        end_both("ROLLBACK");
    }
    begin_both();
    check_refused("app_row; DROP TABLE app_row", "id", sqlock_int(1));
    check_refused("app_row", "id\" = 1 OR \"id", sqlock_int(1));
    check_refused("app_row", "id` = 1 OR `id", sqlock_int(1));
    check_refused("app_row", "select", sqlock_int(1));
    end_both("ROLLBACK");
    assert_int_equal(seen_by(g.app), 10);
    strike_stage();
}

static void test_names_that_are_none_are_refused_unsent(void **state)
{
    static char long_name[65537];

    set_stage(state);
    memset(long_name, 'a', sizeof long_name - 1);
    app_exec(g.app, g.side->begins[0]);
    assert_code(SQLOCK_EINVAL, lock_by("", "id", sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EINVAL, lock_by(NULL, "id", sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EINVAL, lock_by(long_name, "id", sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EINVAL, lock_by("app_row", long_name, sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EINVAL, lock_by("app_row", "\xC3\x28", sqlock_int(1)), &s.err);
    assert_code(SQLOCK_EINVAL, lock_by("app_row", "id", sqlock_null()), &s.err);
    long_name[200] = '\0'; /* too long for some servers, which would cut it */
    check_refused(long_name, "id", sqlock_int(1));
    long_name[200] = 'a';
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

/* A name of 63 bytes, and one that is cut to it. */
static void test_name_is_not_cut_to_another_tables(void **state)
{
    char name[66], sql[160];

    set_stage(state);
    memset(name, 'x', sizeof name - 1);
    name[63] = '\0';
    snprintf(sql, sizeof sql, "CREATE TABLE %s (id INTEGER PRIMARY KEY)", name);
    app_exec(g.app, sql);
    app_exec(g.app, g.side->begins[0]);
    assert_int_equal(lock_by(name, "id", sqlock_int(1)), SQLOCK_ABSENT);
    name[63] = 'x';
    name[65] = '\0';
    check_refused(name, "id", sqlock_int(1));
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

static void test_values_are_never_executed(void **state)
{
    static const char hostile[] = "a'; DROP TABLE app_row; -- \\";

    set_stage(state);
    app_exec(g.app, g.side->table_of_types);
    app_exec(g.app, "INSERT INTO app_types (t) VALUES ('a')");
    app_exec(g.app, g.side->begins[0]);
    assert_ok(lock_by("app_types", "t", sqlock_text("a")), &s.err);
    assert_int_equal(lock_by("app_types", "t", sqlock_text(hostile)), SQLOCK_ABSENT);
    assert_int_equal(lock_by("app_types", "t", sqlock_text("")), SQLOCK_ABSENT);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

static void test_arguments_are_checked(void **state)
{
    sqlock_column key[] = {{.name = "id", .value = sqlock_int(1)}};
    sqlock_row row = {sizeof row, NULL, "app_row", key, 1};
    sqlock_row_opts o = row_opts(0x80u, 0);

    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    assert_code(SQLOCK_EINVAL, sqlock_row_lock(s.conn, &row, 1, &o, &s.err), &s.err);
    o = row_opts(0, -2);
    assert_code(SQLOCK_EINVAL, sqlock_row_lock(s.conn, &row, 1, &o, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_row_lock(s.conn, &row, 0, NULL, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_row_lock(s.conn, NULL, 1, NULL, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_row_lock(s.conn, &row, SQLOCK_ROWS_MAX + 1, NULL, &s.err),
                &s.err);
    assert_code(SQLOCK_EINVAL, sqlock_row_lock(NULL, &row, 1, NULL, &s.err), &s.err);
    assert_code(SQLOCK_EINVAL, lock_name(s.conn, "", 0), &s.err);
    assert_code(SQLOCK_EINVAL, lock_name(s.conn, "\xFF", 0), &s.err);
    assert_ok(sqlock_row_lock(s.conn, &row, 1, NULL, NULL), &s.err);
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

/* ---- the transaction's state ------------------------------------------------------------------
 */

static void test_lock_wants_an_open_transaction_that_is_fit(void **state)
{
    set_stage(state);
    assert_code(SQLOCK_ESTATE, lock(s.conn, 1), &s.err);
    assert_code(SQLOCK_ESTATE, lock_name(s.conn, "job", 0), &s.err);
    app_exec(g.app, g.side->begins[0]);
    if (g.side->fails_whole) {
        assert_false(g.side->exec(g.app, OUR_WRONG));
        assert_code(SQLOCK_ESTATE, lock(s.conn, 1), &s.err);
        app_exec(g.app, "ROLLBACK");
        app_exec(g.app, g.side->begins[0]);
    }
    if (g.side->one_answer) {
        g.side->start_reading(g.app);
        assert_code(SQLOCK_ESTATE, lock(s.conn, 1), &s.err);
        assert_int_equal(g.side->read_rest(g.app), APP_ROWS - 1);
    }
    assert_ok(lock(s.conn, 1), &s.err);
    app_exec(g.app, "COMMIT");
    close_manager(g.w, s.m);
    app_exec(g.app, g.side->begins[0]);
    assert_code(SQLOCK_ESTATE, lock(s.conn, 1), &s.err);
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

static void test_lost_connection_is_told(void **state)
{
    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    g.side->kill(g.app);
    assert_code(SQLOCK_ETXGONE, lock(s.conn, 1), &s.err);
    assert_true((s.err.flags & SQLOCK_RECONNECT) != 0);
    strike_stage();
}

static void *kill_later(void *app)
{
    sleep_ms(300);
    g.side->kill(app);
    return NULL;
}

static void test_connection_that_is_lost_in_a_wait_is_told(void **state)
{
    pthread_t thread;
    int rc;

    set_stage(state);
    begin_both();
    assert_ok(lock(s.other, 1), &s.err);
    assert_int_equal(pthread_create(&thread, NULL, kill_later, g.app), 0);
    rc = lock_with(s.conn, 1, 0, SQLOCK_WAIT_FOREVER);
    pthread_join(thread, NULL);
    assert_code(SQLOCK_ETXGONE, rc, &s.err);
    assert_true((s.err.flags & SQLOCK_RECONNECT) != 0);
    app_exec(s.other_app, "UPDATE app_row SET n = 11 WHERE id = 1"); /* its own goes on */
    app_exec(s.other_app, "COMMIT");
    strike_stage();
}

/* What the transaction has seen is older than the row's newest version. Either only a restart
 * helps, or the lock is that of the newest. */
static void test_old_transaction_locks_the_newest_row_or_is_restarted(void **state)
{
    int64_t expected = 10;

    set_stage(state);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        int rc;

        if (strncmp(*begin, "SAVEPOINT", 9) == 0)
            continue;
        app_exec(g.app, *begin);
        seen_by(g.app);
        if (!g.side->exec(s.other_app, "UPDATE app_row SET n = n + 1 WHERE id = 1")) {
            app_exec(g.app, "ROLLBACK"); /* one writer, who has begun already */
            continue;
        }
        rc = lock(s.conn, 1);
        if (rc != 0)
            assert_code(SQLOCK_ETXRESTART, rc, &s.err);
        else
            app_exec(g.app, "UPDATE app_row SET n = n + 100 WHERE id = 1");
        app_exec(g.app, rc != 0 ? "ROLLBACK" : "COMMIT");
        expected += 1 + (rc == 0 ? 100 : 0);
        assert_int_equal(seen_by(s.other_app), expected);
    }
    strike_stage();
}

/* Our savepoint, if there is one, does not meet the application's. */
static void test_applications_savepoints_stay_as_they_are(void **state)
{
    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(g.app, "SAVEPOINT theirs");
    app_exec(g.app, "UPDATE app_row SET n = 12 WHERE id = 1");
    assert_ok(lock(s.conn, 2), &s.err);
    assert_int_equal(lock(s.conn, 9), SQLOCK_ABSENT);
    assert_code(SQLOCK_EREFUSED, lock_by("no_table", "id", sqlock_int(1)), &s.err);
    assert_int_equal(seen_by(g.app), 12);
    app_exec(g.app, "ROLLBACK TO SAVEPOINT theirs");
    assert_int_equal(seen_by(g.app), 11);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 11);
    strike_stage();
}

static void test_settings_and_last_answers_stay_as_they_were(void **state)
{
    char *before, *after;

    set_stage(state);
    app_exec(g.app, g.side->begins[0]);
    before = g.side->settings(g.app);
    assert_ok(lock(s.conn, 1), &s.err);
    assert_int_equal(lock(s.conn, 9), SQLOCK_ABSENT);
    after = g.side->settings(g.app);
    assert_string_equal(after, before);
    free(before);
    free(after);
    app_exec(g.app, "COMMIT");
    strike_stage();
}

/* ---- names ------------------------------------------------------------------------------------
 */

static void test_name_is_locked_and_its_row_made_when_missing(void **state)
{
    set_stage(state);
    for (int i = 0; i < 2; i++) {
        begin_both();
        assert_ok(lock_name(s.conn, "job", 0), &s.err);
        assert_ok(lock_name(s.conn, "job", 0), &s.err);
        assert_code(SQLOCK_EBUSY, lock_name(s.other, "job", 0), &s.err);
        assert_code(SQLOCK_EBUSY, lock_name(s.other, "job", 100), &s.err);
        assert_int_equal(lock_name(s.other, "JOB", 0), s.one_writer ? SQLOCK_EBUSY : 0);
        app_exec(g.app, i ? "COMMIT" : "ROLLBACK");
        assert_ok(lock_name(s.other, "job", 0), &s.err);
        app_exec(s.other_app, "COMMIT");
    }
    strike_stage();
}

static void test_name_may_be_made_beforehand(void **state)
{
    set_stage(state);
    assert_ok(sqlock_ensure(s.m, "a b'\"`\\", SQLOCK_LEN_STRING, &s.err), &s.err);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        assert_ok(lock_name(s.conn, "a b'\"`\\", 0), &s.err);
        app_exec(g.app, "ROLLBACK");
    }
    strike_stage();
}

static void test_new_name_in_an_old_snapshot_is_a_restart_or_locked(void **state)
{
    char name[16];
    int n = 0;

    set_stage(state);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        int rc;

        snprintf(name, sizeof name, "new %d", n++);
        app_exec(g.app, *begin);
        seen_by(g.app);
        if ((rc = lock_name(s.conn, name, 0)) != 0)
            assert_code(SQLOCK_ETXRESTART, rc, &s.err);
        app_exec(g.app, "ROLLBACK");
        app_exec(g.app, *begin);
        assert_ok(lock_name(s.conn, name, 0), &s.err);
        app_exec(g.app, "ROLLBACK");
    }
    strike_stage();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_row_is_kept_from_others_until_the_transaction_ends),
    cmocka_unit_test(test_other_rows_are_free_but_where_there_is_one_writer),
    cmocka_unit_test(test_bounded_wait_ends_on_time_and_spoils_nothing),
    cmocka_unit_test(test_wait_ends_with_the_lock_when_it_is_given_up),
    cmocka_unit_test(test_locked_rows_are_skipped_if_asked),
    cmocka_unit_test(test_absent_row_is_told),
    cmocka_unit_test(test_own_changes_count),
    cmocka_unit_test(test_key_without_a_unique_index_is_refused),
    cmocka_unit_test(test_key_of_two_columns_is_one_row),
    cmocka_unit_test(test_hostile_names_are_names),
    cmocka_unit_test(test_names_that_are_none_are_refused_unsent),
    cmocka_unit_test(test_name_is_not_cut_to_another_tables),
    cmocka_unit_test(test_values_are_never_executed),
    cmocka_unit_test(test_arguments_are_checked),
    cmocka_unit_test(test_lock_wants_an_open_transaction_that_is_fit),
    cmocka_unit_test(test_old_transaction_locks_the_newest_row_or_is_restarted),
    cmocka_unit_test(test_applications_savepoints_stay_as_they_are),
    cmocka_unit_test(test_settings_and_last_answers_stay_as_they_were),
    cmocka_unit_test(test_name_is_locked_and_its_row_made_when_missing),
    cmocka_unit_test(test_name_may_be_made_beforehand),
    cmocka_unit_test(test_new_name_in_an_old_snapshot_is_a_restart_or_locked),
};
PART(suite_rowlock, tests);

static const struct CMUnitTest on_servers[] = {
    cmocka_unit_test(test_deadlock_is_told_with_what_is_left_of_the_transaction),
    cmocka_unit_test(test_lost_connection_is_told),
    cmocka_unit_test(test_connection_that_is_lost_in_a_wait_is_told),
};
PART(suite_rowlock_server, on_servers);

/* A server that knows no NOWAIT can only wait. What it cannot do it is not asked to do. */
static void test_server_that_can_only_wait_does_and_refuses_the_rest(void **state)
{
    bool instant;

    set_stage(state);
    instant = g.w->q->guards == NULL || g.w->q->guards();
    app_exec(g.app, g.side->begins[0]);
    assert_ok(lock_with(s.conn, 1, 0, SQLOCK_WAIT_FOREVER), &s.err);
    assert_ok(lock_name(s.conn, "job", SQLOCK_WAIT_FOREVER), &s.err);
    assert_int_equal(lock_with(s.conn, 9, 0, SQLOCK_WAIT_FOREVER), SQLOCK_ABSENT);
    assert_int_equal(lock_with(s.conn, 1, 0, 0), instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(lock_with(s.conn, 1, 0, 100), instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(lock_with(s.conn, 1, SQLOCK_ROW_SKIP_LOCKED, SQLOCK_WAIT_FOREVER),
                     instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "ROLLBACK");
    strike_stage();
}

static const struct CMUnitTest slow[] = {
    cmocka_unit_test(test_server_that_can_only_wait_does_and_refuses_the_rest),
    cmocka_unit_test(test_no_update_is_lost_under_the_lock),
    cmocka_unit_test(test_updates_are_lost_or_refused_without_it),
    cmocka_unit_test(test_many_rows_of_one_call_do_not_deadlock),
};
PART(suite_rowlock_slow, slow);
