/* P14: a guest behaves. The slots of SQLOCK_CAP_ADOPT by themselves, on a connection of an
 * application's: whatever the driver did there, the application finds its transaction, its answers
 * and its session as they were, or is told. What the application does is in adopt_app.h.
 *
 * The requests are the tests' own: a script of one step each, put where GUARDED is. */
#include "tests/drivers/adopt_app.h"

#include "core/engine/rows.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUR_WRITE "UPDATE app_row SET n = n + 100 WHERE id = 1"
#define OUR_READ  "SELECT 0, 1"
#define OUR_WRONG "SELECT 0, 1 FROM no_such_table"

/* One application's connection, adopted. */
static struct guest {
    const struct adopt_app *side;
    const sqlock_driver *driver;
    struct world *w;
    void *app;
    void *conn;
    sqlock_rows *rows;
    sqlock_step step;
    sqlock_script scripts[SQLOCK_STMT_COUNT];
    sqlock_error err;
} g;

static void *app_connect(void)
{
    void *app = g.side->connect(&g.w->place);

    assert_non_null(app);
    assert_in_range(g.w->n_apps, 0, WORLD_APPS - 1);
    g.w->apps[g.w->n_apps++] = app;
    return app;
}

static void app_exec(void *app, const char *sql)
{
    if (!g.side->exec(app, sql))
        fail_msg("the application's statement failed: %s", sql);
}

static int64_t app_number(void *app, const char *sql)
{
    char *text = g.side->ask(app, sql);
    int64_t number = text ? strtoll(text, NULL, 10) : -1;

    free(text);
    return number;
}

/* n of the first row, as this connection sees it. */
static int64_t seen_by(void *app)
{
    return app_number(app, "SELECT n FROM app_row WHERE id = 1");
}

static int adopt(void *app, void **out_conn)
{
    sqlock_adopt_opts o = {.size = sizeof o, .scripts = g.scripts};

    g.side->offer(app, &o);
    return g.driver->adopt(&o, out_conn, &g.err);
}

/* Nothing of the last test is left but memory that an assertion jumped over. */
static void free_guest(void)
{
    if (g.conn)
        g.driver->close(g.conn);
    rows_free(g.rows);
    memset(&g, 0, sizeof g);
}

/* An application with a table, and no transaction. Nothing is adopted yet. */
static void begin_app(void **state)
{
    free_guest();
    g.w = world(state);
    g.side = g.w->q->app;
    g.driver = g.w->q->driver();
    assert_non_null(g.rows = rows_new());
    g.app = app_connect();
    app_exec(g.app, "CREATE TABLE app_row (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)");
    app_exec(g.app, "INSERT INTO app_row VALUES (1, 10)");
}

static void begin_guest(void **state)
{
    begin_app(state);
    assert_ok(adopt(g.app, &g.conn), &g.err);
}

static void end_guest(void)
{
    g.driver->close(g.conn);
    g.conn = NULL;
}

/* Run this step as a request, until the deadline. */
static int run_until(const char *sql, int64_t deadline)
{
    int writes = strncmp(sql, "SELECT", 6) != 0;

    g.step = (sqlock_step){.sql = sql, .flags = writes ? SQLOCK_STEP_WRITE : 0};
    g.scripts[SQLOCK_STMT_GUARDED] =
        (sqlock_script){.name = "test", .params = "", .n_steps = 1, .steps = &g.step};
    rows_clear(g.rows);
    return g.driver->run(g.conn, SQLOCK_STMT_GUARDED, NULL, 1, deadline, g.rows, &g.err);
}

static int64_t soon(void)
{
    return sqlock_now_us() + patience_ms(10000) * INT64_C(1000);
}

static int run(const char *sql)
{
    return run_until(sql, soon());
}

/* Ask with a text of the application's tables. It is written with `?`, in the order of the values;
 * `$N` is put there where the dialect has it. */
static int ask(const char *sql, const sqlock_value *values, uint8_t n)
{
    char text[512];
    size_t len = 0;
    int number = 0;
    sqlock_script script = {.name = "asked", .n_params = n, .n_steps = 1, .steps = &g.step};

    for (; *sql; sql++) {
        assert_in_range(len, 0, sizeof text - 4);
        if (*sql == '?' && g.driver->dialect->placeholder == '$')
            len += (size_t)snprintf(text + len, sizeof text - len, "$%d", ++number);
        else
            text[len++] = *sql;
    }
    text[len] = '\0';
    g.step = (sqlock_step){.sql = text};
    rows_clear(g.rows);
    return g.driver->ask(g.conn, &script, values, soon(), g.rows, &g.err);
}

static int point(sqlock_savepoint what)
{
    return g.driver->savepoint(g.conn, what, soon(), &g.err);
}

static void point_ok(sqlock_savepoint what)
{
    assert_ok(point(what), &g.err);
    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_ACTIVE);
}

/* What the state is after a statement that failed, and the way out of it. */
static void undo_failed(void)
{
    assert_int_equal(g.err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), 0);
    assert_int_equal(g.driver->tx_state(g.conn),
                     g.side->fails_whole ? SQLOCK_TX_FAILED : SQLOCK_TX_ACTIVE);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
}

/* What core does around its statements: one that succeeds, one that fails. */
static void be_a_guest(void)
{
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_ok(run(OUR_READ), &g.err);
    assert_int_equal(rows_int(g.rows, 0, SQLOCK_COL_OUTCOME, -1), 1);
    assert_ok(run(OUR_WRITE), &g.err);
    point_ok(SQLOCK_SAVEPOINT_RELEASE);
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_true(run(OUR_WRONG) < 0);
    undo_failed();
}

/* ---- adopting -------------------------------------------------------------------------------- */

static void test_adopting_asks_for_the_callers_view_of_the_library(void **state)
{
    sqlock_adopt_opts o = {.size = sizeof o, .scripts = g.scripts}, other;
    void *conn = NULL;

    begin_app(state);
    g.side->offer(g.app, &o);
    other = o;
    other.library = (void (*)(void))abort;
    assert_code(SQLOCK_EREFUSED, g.driver->adopt(&other, &conn, &g.err), &g.err);
    other.library = NULL;
    assert_ok(g.driver->adopt(&other, &conn, &g.err), &g.err);
    g.driver->close(conn);
    if (o.native_size > 0) {
        other = o;
        other.native_size--;
        assert_code(SQLOCK_EREFUSED, g.driver->adopt(&other, &conn, &g.err), &g.err);
    }
    other = o;
    other.native = NULL;
    assert_code(SQLOCK_EINVAL, g.driver->adopt(&other, &conn, &g.err), &g.err);
}

static void test_adopted_connection_is_closed_after_the_applications_own(void **state)
{
    begin_guest(state);
    g.side->close(g.w->apps[--g.w->n_apps]);
    end_guest();
}

static void test_state_follows_the_application(void **state)
{
    begin_guest(state);
    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_IDLE);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_ACTIVE);
        seen_by(g.app);
        assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_ACTIVE);
        assert_false(g.side->exec(g.app, "SELECT n FROM no_such_table"));
        assert_int_equal(g.driver->tx_state(g.conn),
                         g.side->fails_whole ? SQLOCK_TX_FAILED : SQLOCK_TX_ACTIVE);
        app_exec(g.app, "ROLLBACK");
        assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_IDLE);
    }
    end_guest();
}

/* ---- the application's transaction ----------------------------------------------------------- */

static void test_requests_are_part_of_the_applications_transaction(void **state)
{
    int64_t n = 10;

    begin_guest(state);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        be_a_guest();
        assert_int_equal(seen_by(g.app), n + 100);
        app_exec(g.app, "ROLLBACK");
        assert_int_equal(seen_by(g.app), n);
        app_exec(g.app, *begin);
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1"); /* an old transaction */
        be_a_guest();
        app_exec(g.app, "COMMIT");
        assert_int_equal(seen_by(g.app), n += 101);
    }
    end_guest();
}

static void test_nothing_is_committed_before_the_application_commits(void **state)
{
    void *other;

    begin_guest(state);
    other = app_connect();
    app_exec(g.app, g.side->begins[0]);
    be_a_guest();
    assert_int_equal(seen_by(other), 10);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 110);
    end_guest();
}

static void test_undo_takes_back_only_what_was_done_since_the_savepoint(void **state)
{
    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_ok(run(OUR_WRITE), &g.err);
    assert_int_equal(seen_by(g.app), 111);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    assert_int_equal(seen_by(g.app), 11);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 11);
    end_guest();
}

static void test_savepoints_of_the_application_survive(void **state)
{
    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "SAVEPOINT a");
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    app_exec(g.app, "SAVEPOINT b");
    be_a_guest();
    assert_int_equal(seen_by(g.app), 111);
    app_exec(g.app, "ROLLBACK TO SAVEPOINT b"); /* reaches behind what we did */
    assert_int_equal(seen_by(g.app), 11);
    be_a_guest();
    app_exec(g.app, "RELEASE SAVEPOINT b");
    assert_int_equal(seen_by(g.app), 111);
    app_exec(g.app, "ROLLBACK TO SAVEPOINT a");
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
    end_guest();
}

/* Its name is ours by its beginning only: an application may have the same. */
static void test_no_savepoint_of_ours_is_left(void **state)
{
    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    be_a_guest();
    point_ok(SQLOCK_SAVEPOINT_SET);
    point_ok(SQLOCK_SAVEPOINT_RELEASE);
    assert_true(point(SQLOCK_SAVEPOINT_RELEASE) < 0);
    app_exec(g.app, "ROLLBACK");
    end_guest();
}

static sqlock_value number(int64_t i)
{
    return (sqlock_value){.type = SQLOCK_INT, .i = i};
}

static sqlock_value text(const char *s)
{
    return (sqlock_value){.type = SQLOCK_TEXT, .data = s, .len = strlen(s)};
}

static int64_t asked(void)
{
    assert_int_equal(sqlock_rows_count(g.rows), 1);
    return rows_int(g.rows, 0, SQLOCK_COL_TOKEN, -1);
}

static void test_values_are_fitted_to_the_columns_of_the_application(void **state)
{
    const unsigned char bytes[] = {0, 255, '\'', '\\'};
    const sqlock_value insert[] = {text("it's \\ \"a\""),
                                   number(-32768),
                                   number(INT64_MIN),
                                   {.type = SQLOCK_NULL},
                                   {.type = SQLOCK_BYTES, .data = bytes, .len = sizeof bytes}};
    const sqlock_value more = number(1000);

    begin_app(state);
    app_exec(g.app, g.side->table_of_types);
    assert_ok(adopt(g.app, &g.conn), &g.err);
    app_exec(g.app, g.side->begins[0]);
    assert_ok(ask("INSERT INTO app_types (t, s, b, n, o) VALUES (?, ?, ?, ?, ?)", insert, 5),
              &g.err);
    assert_int_equal(sqlock_rows_count(g.rows), 0);
    assert_ok(ask("SELECT 0, 1, s FROM app_types WHERE t = ?", insert, 1), &g.err);
    assert_int_equal(asked(), -32768);
    assert_ok(ask("SELECT 0, 1, b FROM app_types WHERE s = ? AND b = ?", insert + 1, 2), &g.err);
    assert_true(asked() == INT64_MIN);
    assert_ok(ask("SELECT 0, 1, 7 FROM app_types WHERE o = ? AND n IS NULL", insert + 4, 1),
              &g.err);
    assert_int_equal(asked(), 7);
    assert_ok(ask("UPDATE app_types SET b = s + ?", &more, 1), &g.err);
    app_exec(g.app, "COMMIT");
    assert_int_equal(app_number(g.app, "SELECT b FROM app_types"), 1000 - 32768);
    end_guest();
}

static void test_asking_in_a_transaction_leaves_it_as_running_does(void **state)
{
    const sqlock_value values[] = {number(5), number(1)};

    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_ok(ask("UPDATE app_row SET n = ? WHERE id = ?", values, 2), &g.err);
    assert_int_equal(seen_by(g.app), 5);
    assert_true(ask("UPDATE no_such_table SET n = ? WHERE id = ?", values, 2) < 0);
    undo_failed();
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 10);
    end_guest();
}

/* ---- what the application reads next --------------------------------------------------------- */

/* While an answer has not been read to its end there is no room for a request. */
static void test_half_read_answer_is_left_alone(void **state)
{
    void *conn = NULL;

    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    g.side->start_reading(g.app);
    if (g.side->one_answer) {
        assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
        assert_code(SQLOCK_ESTATE, run(OUR_READ), &g.err);
        assert_code(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET), &g.err);
        assert_code(SQLOCK_ESTATE, adopt(g.app, &conn), &g.err);
        assert_null(conn);
    } else {
        be_a_guest();
    }
    assert_int_equal(g.side->read_rest(g.app), APP_ROWS - 1);
    be_a_guest();
    app_exec(g.app, "COMMIT");
    end_guest();
}

static void test_settings_and_handlers_are_as_before(void **state)
{
    char *before, *within, *after;

    begin_app(state);
    app_exec(g.app, g.side->begins[0]);
    before = g.side->settings(g.app);
    assert_ok(adopt(g.app, &g.conn), &g.err);
    be_a_guest();
    within = g.side->settings(g.app);
    app_exec(g.app, "COMMIT");
    end_guest();
    app_exec(g.app, g.side->begins[0]);
    after = g.side->settings(g.app);
    assert_true(strlen(before) > 0);
    assert_string_equal(before, within);
    assert_string_equal(before, after);
    free(before);
    free(within);
    free(after);
}

static void test_prepared_statement_of_the_application_survives(void **state)
{
    begin_guest(state);
    g.side->prepare(g.app);
    app_exec(g.app, g.side->begins[0]);
    be_a_guest();
    assert_int_equal(g.side->run_prepared(g.app), 42);
    app_exec(g.app, "COMMIT");
    assert_int_equal(g.side->run_prepared(g.app), 42);
    end_guest();
}

static void test_what_is_told_of_the_last_statement_is_given_back(void **state)
{
    char *before, *after;

    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "INSERT INTO app_row VALUES (2, 20), (3, 30)");
    before = g.side->last(g.app);
    be_a_guest();
    after = g.side->last(g.app);
    assert_string_equal(before, after);
    app_exec(g.app, "COMMIT");
    free(before);
    free(after);
    end_guest();
}

/* ---- statements that are cut ----------------------------------------------------------------- */

/* The application goes on with what it had done before. */
static void goes_on(void)
{
    undo_failed();
    assert_int_equal(seen_by(g.app), 11);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 11);
}

static void test_statement_is_cut_at_the_deadline(void **state)
{
    int64_t begun;

    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    begun = sqlock_now_us();
    assert_code(SQLOCK_ETIMEOUT, run_until(g.side->slow, begun + 200000), &g.err);
    assert_between(200000, sqlock_now_us() - begun, patience_ms(3000) * INT64_C(1000));
    goes_on();
    end_guest();
}

static void test_nothing_is_sent_when_the_deadline_has_passed(void **state)
{
    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    assert_code(SQLOCK_ETIMEOUT, run_until(OUR_WRITE, sqlock_now_us() - 1), &g.err);
    assert_int_equal(g.err.flags & SQLOCK_RECONNECT, 0);
    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_ACTIVE);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
    end_guest();
}

static void *cancel_soon(void *conn)
{
    sleep_ms(200);
    g.driver->cancel(conn);
    return NULL;
}

static void test_statement_is_cut_by_cancel(void **state)
{
    int64_t begun = sqlock_now_us();
    pthread_t thread;
    int rc;

    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, g.conn), 0);
    rc = run(g.side->slow);
    pthread_join(thread, NULL);
    assert_code(SQLOCK_ECANCELLED, rc, &g.err);
    assert_between(0, sqlock_now_us() - begun, patience_ms(5000) * INT64_C(1000));
    goes_on();
    end_guest();
}

/* Savepoints are not cut: what was begun must be undone. */
static void test_cancel_cuts_the_next_run_and_no_other(void **state)
{
    begin_guest(state);
    app_exec(g.app, g.side->begins[0]);
    g.driver->cancel(g.conn);
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_code(SQLOCK_ECANCELLED, run(OUR_WRITE), &g.err);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    assert_ok(run(OUR_READ), &g.err);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
    end_guest();
}

/* Another client has locked what our statement needs. */
static void test_wait_for_a_row_ends_at_the_deadline(void **state)
{
    void *other;
    int64_t begun;

    begin_guest(state);
    other = app_connect();
    app_exec(other, g.side->begins[0]);
    app_exec(other, "UPDATE app_row SET n = 0 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    point_ok(SQLOCK_SAVEPOINT_SET);
    begun = sqlock_now_us();
    assert_true(run_until(OUR_WRITE, begun + 200000) < 0);
    assert_between(200000, sqlock_now_us() - begun, patience_ms(3000) * INT64_C(1000));
    undo_failed();
    assert_int_equal(seen_by(g.app), 10);
    app_exec(other, "ROLLBACK");
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 11);
    end_guest();
}

static void test_end_of_the_session_is_told(void **state)
{
    begin_guest(state);
    if (g.side->kill) {
        app_exec(g.app, g.side->begins[0]);
        point_ok(SQLOCK_SAVEPOINT_SET);
        g.side->kill(g.app);
        assert_true(run(OUR_WRITE) < 0);
        assert_int_equal(g.err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), SQLOCK_RECONNECT);
        assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
        assert_true(point(SQLOCK_SAVEPOINT_UNDO) < 0);
    }
    end_guest();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_adopting_asks_for_the_callers_view_of_the_library),
    cmocka_unit_test(test_adopted_connection_is_closed_after_the_applications_own),
    cmocka_unit_test(test_state_follows_the_application),
    cmocka_unit_test(test_requests_are_part_of_the_applications_transaction),
    cmocka_unit_test(test_nothing_is_committed_before_the_application_commits),
    cmocka_unit_test(test_undo_takes_back_only_what_was_done_since_the_savepoint),
    cmocka_unit_test(test_savepoints_of_the_application_survive),
    cmocka_unit_test(test_no_savepoint_of_ours_is_left),
    cmocka_unit_test(test_values_are_fitted_to_the_columns_of_the_application),
    cmocka_unit_test(test_asking_in_a_transaction_leaves_it_as_running_does),
    cmocka_unit_test(test_half_read_answer_is_left_alone),
    cmocka_unit_test(test_settings_and_handlers_are_as_before),
    cmocka_unit_test(test_prepared_statement_of_the_application_survives),
    cmocka_unit_test(test_what_is_told_of_the_last_statement_is_given_back),
    cmocka_unit_test(test_statement_is_cut_at_the_deadline),
    cmocka_unit_test(test_nothing_is_sent_when_the_deadline_has_passed),
    cmocka_unit_test(test_statement_is_cut_by_cancel),
    cmocka_unit_test(test_cancel_cuts_the_next_run_and_no_other),
    cmocka_unit_test(test_wait_for_a_row_ends_at_the_deadline),
    cmocka_unit_test(test_end_of_the_session_is_told),
};
PART(suite_adopt, tests);
