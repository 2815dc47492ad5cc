/* P14 on PostgreSQL: what only libpq has. Notices, notifications, modes of a connection, settings
 * that change what a text means, links and servers that fall silent. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/postgres.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite_guest.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/postgres_quirks.h"
#include "tests/lib/private.h"
#include "tests/lib/proxy.h"

#include <pthread.h>

/* What the driver's README says: so long it tries to end a statement. */
enum { CUT_MS = 2000 };

static PGconn *native(void *app)
{
    return ((struct postgres_app_conn *)app)->pg;
}

/* ---- notices --------------------------------------------------------------------------------- */

static int n_notices;
static char last_notice[256];

static void process_notice(void *arg, const char *message)
{
    assert_ptr_equal(arg, &n_notices);
    n_notices++;
    snprintf(last_notice, sizeof last_notice, "%s", message);
}

static void receive_notice(void *arg, const PGresult *res)
{
    process_notice(arg, PQresultErrorMessage(res));
}

/* An application whose transaction is open, and which can shout. */
static void begin_shouting(void **state)
{
    begin_guest(state);
    n_notices = 0;
    app_exec(g.app, "CREATE FUNCTION shout() RETURNS int LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE NOTICE 'hey'; RETURN 1; END $$");
    app_exec(g.app, "BEGIN");
}

static void test_notice_processor_of_the_application_hears_nothing_of_ours(void **state)
{
    begin_shouting(state);
    PQsetNoticeProcessor(native(g.app), process_notice, &n_notices);
    be_a_guest();
    assert_ok(run("SELECT 0, 1 FROM shout()"), &g.err);
    app_exec(g.app, "SET LOCAL client_min_messages = debug5");
    n_notices = 0;
    be_a_guest();
    assert_int_equal(n_notices, 0);
    app_exec(g.app, "SET LOCAL client_min_messages = notice");
    n_notices = 0;
    app_exec(g.app, "SELECT shout()");
    assert_int_equal(n_notices, 1);
    end_guest();
}

/* libpq does not tell its argument: once replaced it could not be put back. */
static void test_notice_receiver_of_the_application_stays_in_its_place(void **state)
{
    begin_shouting(state);
    PQsetNoticeReceiver(native(g.app), receive_notice, &n_notices);
    be_a_guest();
    assert_int_equal(n_notices, 0);
    assert_ok(run("SELECT 0, 1 FROM shout()"), &g.err);
    assert_int_equal(n_notices, 1); /* as the README says of triggers */
    app_exec(g.app, "SELECT shout()");
    assert_int_equal(n_notices, 2);
    end_guest();
}

/* They came while nothing of ours was under way, so they are the application's. */
static void test_last_words_of_the_server_are_handed_on(void **state)
{
    begin_shouting(state);
    PQsetNoticeProcessor(native(g.app), process_notice, &n_notices);
    g.side->kill(g.app);
    assert_true(run(OUR_READ) < 0);
    assert_int_equal(g.err.flags & SQLOCK_RECONNECT, SQLOCK_RECONNECT);
    assert_string_equal(g.err.sqlstate, "57P01");
    assert_int_equal(n_notices, 1);
    assert_non_null(strstr(last_notice, "terminating connection"));
    end_guest();
}

/* ---- notifications --------------------------------------------------------------------------- */

static bool notified(PGconn *pg)
{
    PGnotify *note = PQconsumeInput(pg) ? PQnotifies(pg) : NULL;
    bool came = note != NULL;

    PQfreemem(note);
    return came;
}

static void test_notifications_reach_the_application(void **state)
{
    PGconn *pg;
    char listen[80];

    begin_guest(state);
    pg = native(g.app);
    snprintf(listen, sizeof listen, "LISTEN %s", g.w->place.schema);
    app_exec(g.app, listen);
    pg_exec("NOTIFY %s", g.w->place.schema);
    assert_true(readable_within(PQsocket(pg), patience_ms(5000)));
    app_exec(g.app, "BEGIN"); /* now libpq has it, and the application has not looked */
    be_a_guest();
    assert_true(notified(pg));
    assert_false(notified(pg));
    pg_exec("NOTIFY %s", g.w->place.schema);
    be_a_guest();
    app_exec(g.app, "COMMIT");
    assert_soon(notified(pg), patience_ms(5000));
    end_guest();
}

/* ---- modes of a connection ------------------------------------------------------------------- */

static void test_mode_of_waiting_is_as_before(void **state)
{
    begin_guest(state);
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        assert_int_equal(PQsetnonblocking(native(g.app), nonblocking), 0);
        app_exec(g.app, "BEGIN");
        be_a_guest();
        assert_int_equal(PQisnonblocking(native(g.app)), nonblocking);
        point_ok(SQLOCK_SAVEPOINT_SET);
        assert_code(SQLOCK_ETIMEOUT, run_until(g.side->slow, sqlock_now_us() + 50000), &g.err);
        assert_int_equal(PQisnonblocking(native(g.app)), nonblocking);
        undo_failed();
        app_exec(g.app, "COMMIT");
    }
    end_guest();
}

static void refused_as_busy(void)
{
    void *conn = NULL;

    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
    assert_code(SQLOCK_ESTATE, run(OUR_READ), &g.err);
    assert_code(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET), &g.err);
    assert_code(SQLOCK_ESTATE, adopt(g.app, &conn), &g.err);
    assert_null(conn);
}

static void test_copy_in_progress_is_left_alone(void **state)
{
    PGresult *res;

    begin_guest(state);
    app_exec(g.app, "BEGIN");
    res = PQexec(native(g.app), "COPY app_row FROM STDIN");
    assert_int_equal(PQresultStatus(res), PGRES_COPY_IN);
    PQclear(res);
    refused_as_busy();
    assert_int_equal(PQputCopyData(native(g.app), "2\t20\n", 5), 1);
    refused_as_busy();
    assert_int_equal(PQputCopyEnd(native(g.app), NULL), 1);
    while ((res = PQgetResult(native(g.app))) != NULL) {
        assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
        PQclear(res);
    }
    be_a_guest();
    app_exec(g.app, "COMMIT");
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"), 20);
    end_guest();
}

static void test_statement_that_was_only_sent_is_left_alone(void **state)
{
    begin_guest(state);
    app_exec(g.app, "BEGIN");
    assert_true(PQsendQuery(native(g.app), "SELECT pg_catalog.generate_series(1, 3)"));
    refused_as_busy();
    assert_int_equal(g.side->read_rest(g.app), 0); /* three rows in one result */
    be_a_guest();
    end_guest();
}

#ifdef LIBPQ_HAS_PIPELINING
/* Also where nothing is in it: libpq takes no other statement there. */
static void test_pipeline_is_left_alone(void **state)
{
    begin_guest(state);
    app_exec(g.app, "BEGIN");
    assert_int_equal(PQenterPipelineMode(native(g.app)), 1);
    refused_as_busy();
    assert_int_equal(PQexitPipelineMode(native(g.app)), 1);
    be_a_guest();
    end_guest();
}
#endif

static void test_connection_that_is_not_connected_is_refused(void **state)
{
    struct postgres_app_conn app = {NULL, NULL};
    void *conn = NULL;

    begin_app(state);
    app.pg = PQconnectStart(g.w->place.url);
    assert_code(SQLOCK_ESTATE, adopt(&app, &conn), &g.err);
    PQfinish(app.pg);
    app.pg = PQconnectdb("host=/nonexistent");
    assert_code(SQLOCK_ESTATE, adopt(&app, &conn), &g.err);
    PQfinish(app.pg);
    assert_null(conn);
}

/* The unnamed one is the only one that a client which leaves nothing behind can use. None of ours
 * may be run in its place. */
static void test_unnamed_statement_is_gone_and_never_ours(void **state)
{
    PGresult *res;

    begin_guest(state);
    app_exec(g.app, "BEGIN");
    res = PQprepare(native(g.app), "", "SELECT 42", 0, NULL);
    assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
    PQclear(res);
    be_a_guest();
    res = PQexecPrepared(native(g.app), "", 0, NULL, NULL, NULL, 0);
    assert_string_equal(PQresultErrorField(res, PG_DIAG_SQLSTATE), "26000");
    PQclear(res);
    end_guest();
}

static void test_cursor_of_the_application_goes_on(void **state)
{
    begin_guest(state);
    app_exec(g.app, "BEGIN");
    app_exec(g.app, "DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 9)");
    for (int i = 1; i <= 9; i++) {
        assert_int_equal(app_number(g.app, "FETCH c"), i);
        be_a_guest();
    }
    app_exec(g.app, "COMMIT");
    end_guest();
}

/* ---- what a text means ----------------------------------------------------------------------- */

/* Whatever an application may have set for a session of its own. */
static const char *const session_settings[] = {
    "SET client_encoding = 'LATIN1'",
    "SET client_encoding = 'SJIS'",
    "SET client_encoding = 'SQL_ASCII'",
    "SET standard_conforming_strings = off; SET escape_string_warning = on",
    "SET bytea_output = 'escape'; SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kathmandu'",
    "SET transform_null_equals = on; SET array_nulls = off; SET quote_all_identifiers = on",
    "SET statement_timeout = '60s'; SET lock_timeout = '60s'",
    "SET enable_indexscan = off; SET enable_bitmapscan = off; SET jit_above_cost = 0",
    "SET plan_cache_mode = force_generic_plan; SET row_security = off",
    "SET default_transaction_isolation = 'serializable'; SET synchronous_commit = off",
    "SET client_min_messages = error",
    "SET client_min_messages = debug1",
    "SET search_path = ''",
};

static sqlock_conn *adopt_here(sqlock *m)
{
    sqlock_conn *conn = NULL;
    sqlock_error err = {0};

    assert_ok(sqlock_adopt_postgres(m, native(g.app), &conn, &err), &err);
    return conn;
}

static void test_guard_works_whatever_is_set_and_leaves_it_so(void **state)
{
    sqlock *m;
    sqlock_lock *lock;
    sqlock_conn *conn;
    sqlock_error err = {0};

    begin_app(state);
    m = open_manager(g.w, NULL);
    lock = take(m, "gr\xc3\xb6\xc3\x9f"
                   "e \\ ' \"");
    conn = adopt_here(m);
    PQsetNoticeProcessor(native(g.app), process_notice, &n_notices);
    for (size_t i = 0; i < sizeof session_settings / sizeof *session_settings; i++) {
        char *before, *after;

        app_exec(g.app, session_settings[i]);
        app_exec(g.app, "BEGIN");
        before = g.side->settings(g.app);
        n_notices = 0;
        assert_ok(sqlock_guard(lock, conn, &err), &err);
        assert_int_equal(n_notices, 0);
        after = g.side->settings(g.app);
        assert_string_equal(before, after);
        app_exec(g.app, "COMMIT");
        app_exec(g.app, "RESET ALL");
        free(before);
        free(after);
    }
    sqlock_conn_free(conn);
    give(lock);
}

/* Applications' tests put functions of their own before those of pg_catalog, to stop the clock. */
static void test_functions_before_those_of_pg_catalog_are_not_called(void **state)
{
    sqlock *m;
    sqlock_lock *lock;
    sqlock_conn *conn;
    sqlock_error err = {0};
    char sql[128];

    begin_app(state);
    m = open_manager(g.w, NULL);
    lock = take(m, "nightly");
    conn = adopt_here(m);
    app_exec(g.app, "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
                    "$$ SELECT '2100-01-01'::timestamptz $$");
    app_exec(g.app, "CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS "
                    "$$ SELECT 'serializable'::text $$");
    snprintf(sql, sizeof sql, "SET search_path = %s, pg_catalog", g.w->place.schema);
    app_exec(g.app, sql);
    assert_int_equal(app_number(g.app, "SELECT extract(year FROM clock_timestamp() AT TIME ZONE "
                                       "'UTC')"),
                     2100);
    app_exec(g.app, "BEGIN");
    assert_ok(sqlock_guard(lock, conn, &err), &err);
    app_exec(g.app, "COMMIT");
    sqlock_conn_free(conn);
    give(lock);
}

/* The server would read another name. */
static void test_name_that_the_encoding_would_change_is_refused(void **state)
{
    const char *sql = "SELECT 0, 1 FROM \"gr\xc3\xb6\xc3\x9f"
                      "e\"";

    begin_guest(state);
    app_exec(g.app, "CREATE TABLE \"gr\xc3\xb6\xc3\x9f"
                    "e\" AS SELECT 1 AS n");
    app_exec(g.app, "BEGIN");
    assert_ok(run(sql), &g.err);
    app_exec(g.app, "SET client_encoding = 'SQL_ASCII'");
    assert_ok(run(sql), &g.err);
    app_exec(g.app, "SET client_encoding = 'LATIN1'");
    assert_code(SQLOCK_EREFUSED, run(sql), &g.err);
    assert_non_null(strstr(g.err.text, "LATIN1"));
    be_a_guest();
    app_exec(g.app, "COMMIT");
    end_guest();
}

static void test_error_of_another_encoding_is_told_in_utf8(void **state)
{
    begin_guest(state);
    app_exec(g.app, "CREATE FUNCTION fail() RETURNS int LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE EXCEPTION 'gr\xc3\xb6\xc3\x9f"
                    "e'; END $$");
    app_exec(g.app, "BEGIN");
    for (int latin1 = 0; latin1 < 2; latin1++) {
        app_exec(g.app, latin1 ? "SET client_encoding = 'LATIN1'" : "SELECT 1");
        point_ok(SQLOCK_SAVEPOINT_SET);
        assert_true(run("SELECT 0, 1 FROM fail()") < 0);
        assert_string_equal(g.err.text, latin1 ? "gr??e"
                                               : "gr\xc3\xb6\xc3\x9f"
                                                 "e");
        undo_failed();
    }
    end_guest();
}

/* ---- statements that somebody else ends ------------------------------------------------------ */

static void test_timeouts_of_the_application_end_ours_and_not_its_transaction(void **state)
{
    void *other;

    begin_guest(state);
    other = app_connect();
    app_exec(other, "BEGIN");
    app_exec(other, "UPDATE app_row SET n = 0 WHERE id = 1");
    app_exec(g.app, "BEGIN");
    app_exec(g.app, "SET LOCAL statement_timeout = '100ms'");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_true(run(g.side->slow) < 0);
    assert_string_equal(g.err.sqlstate, "57014");
    undo_failed();
    app_exec(g.app, "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '100ms'");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_true(run(OUR_WRITE) < 0);
    assert_string_equal(g.err.sqlstate, "55P03");
    undo_failed();
    assert_int_equal(
        app_number(g.app, "SELECT setting FROM pg_settings WHERE name = 'lock_timeout'"), 100);
    app_exec(g.app, "COMMIT");
    end_guest();
}

static void *terminate_soon(void *app)
{
    char sql[64];
    PGconn *pg = PQconnectdb(pg_url());

    sleep_ms(200);
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d)", PQbackendPID(native(app)));
    PQclear(PQexec(pg, sql));
    PQfinish(pg);
    return NULL;
}

static void test_session_that_ends_during_a_statement_is_told(void **state)
{
    pthread_t thread;
    int rc;

    begin_guest(state);
    app_exec(g.app, "BEGIN");
    assert_int_equal(pthread_create(&thread, NULL, terminate_soon, g.app), 0);
    rc = run(g.side->slow);
    pthread_join(thread, NULL);
    assert_code(SQLOCK_EUNREACH, rc, &g.err);
    assert_string_equal(g.err.sqlstate, "57P01");
    assert_int_equal(g.err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), SQLOCK_RECONNECT);
    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
    assert_int_equal(PQstatus(native(g.app)), CONNECTION_BAD);
    end_guest();
}

/* ---- cancelling ------------------------------------------------------------------------------ */

/* The application's statements right behind statements that end by themselves before, while and
 * after they are cancelled, which takes some milliseconds. How many were cut. */
static int run_close_to_the_deadline(int times)
{
    int n_cut = 0;

    app_exec(g.app, "BEGIN");
    for (int i = 0; i < times; i++) {
        char sql[64];
        int rc;

        snprintf(sql, sizeof sql, "SELECT 0, 1 FROM pg_catalog.pg_sleep(0.%03d)", 1 + i % 40);
        point_ok(SQLOCK_SAVEPOINT_SET);
        rc = run_until(sql, sqlock_now_us() + 1000);
        if (rc != 0) {
            assert_code(SQLOCK_ETIMEOUT, rc, &g.err);
            assert_int_equal(g.err.flags & SQLOCK_RECONNECT, 0);
            n_cut += g.driver->tx_state(g.conn) == SQLOCK_TX_FAILED; /* else it was not sent */
        }
        point_ok(rc == 0 ? SQLOCK_SAVEPOINT_RELEASE : SQLOCK_SAVEPOINT_UNDO);
        app_exec(g.app, "SELECT pg_sleep(0.001)");
    }
    app_exec(g.app, "COMMIT");
    return n_cut;
}

static void *cancel_late(void *app)
{
    PGcancel *cancel = PQgetCancel(native(app));
    char why[256];

    sleep_ms(100);
    PQcancel(cancel, why, sizeof why);
    PQfreeCancel(cancel);
    return NULL;
}

static void test_cancel_never_hits_a_statement_of_the_application(void **state)
{
    enum { TIMES = 200 };
    pthread_t thread;
    bool survived;

    begin_guest(state);
    assert_between(1, run_close_to_the_deadline(TIMES), TIMES - 1);
    /* As a cancel would that is still on its way when the call returns. */
    assert_int_equal(pthread_create(&thread, NULL, cancel_late, g.app), 0);
    survived = g.side->exec(g.app, "SELECT pg_sleep(5)");
    pthread_join(thread, NULL);
    assert_false(survived);
    end_guest();
}

/* ---- silence --------------------------------------------------------------------------------- */

/* What is found after the link had to be cut. */
static void assert_severed(int rc, int64_t begun, int32_t wait_ms)
{
    assert_code(SQLOCK_ETIMEOUT, rc, &g.err);
    assert_between(wait_ms * INT64_C(1000), sqlock_now_us() - begun,
                   (wait_ms + CUT_MS + patience_ms(1500)) * INT64_C(1000));
    assert_int_equal(g.err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), SQLOCK_RECONNECT);
    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
    assert_int_equal(PQstatus(native(g.app)), CONNECTION_BAD);
}

/* An application behind the proxy, in a transaction, adopted in the place of the test's. */
static void begin_behind(struct proxy *proxy)
{
    g.w->place.url = proxy_url(proxy);
    g.app = app_connect();
    g.driver->close(g.conn);
    g.conn = NULL;
    assert_ok(adopt(g.app, &g.conn), &g.err);
    app_exec(g.app, "BEGIN");
}

/* Nothing of ours is read by the application when the network is back. */
static void test_link_that_is_silent_is_cut_and_no_answer_of_ours_is_left(void **state)
{
    const proxy_mode modes[] = {PROXY_HOLD_DOWN, PROXY_HOLD_UP, PROXY_HOLD};
    struct proxy *proxy = proxy_start_pg();

    begin_guest(state);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        int64_t begun;
        int rc;

        begin_behind(proxy);
        proxy_mode_set(proxy, modes[i]);
        begun = sqlock_now_us();
        rc = i < 2 ? run_until("SELECT 0, 1, 4711", begun + 100000)
                   : g.driver->savepoint(g.conn, SQLOCK_SAVEPOINT_SET, begun + 100000, &g.err);
        proxy_mode_set(proxy, PROXY_PASS);
        assert_severed(rc, begun, 100);
        assert_false(g.side->exec(g.app, "SELECT 1"));
        PQreset(native(g.app));
        assert_int_equal(PQisnonblocking(native(g.app)), 0);
        assert_int_equal(app_number(g.app, "SELECT 42"), 42);
    }
    end_guest();
    proxy_stop(proxy);
}

static void test_network_that_refuses_the_cancel_costs_the_link(void **state)
{
    struct proxy *proxy = proxy_start_pg();
    int64_t begun;
    int rc;

    begin_guest(state);
    begin_behind(proxy);
    proxy_refuse(proxy, 1);
    begun = sqlock_now_us();
    rc = run_until(g.side->slow, begun + 100000);
    proxy_refuse(proxy, 0);
    assert_severed(rc, begun, 100);
    end_guest();
    proxy_stop(proxy);
}

/* It ends by itself before it is given up. */
static void test_statement_that_ends_a_little_late_is_answered(void **state)
{
    struct proxy *proxy = proxy_start_pg();
    int rc;

    begin_guest(state);
    begin_behind(proxy);
    proxy_refuse(proxy, 1);
    rc = run_until("SELECT 0, 1 FROM pg_catalog.pg_sleep(1)", sqlock_now_us() + 100000);
    proxy_refuse(proxy, 0);
    assert_ok(rc, &g.err);
    assert_int_equal(rows_int(g.rows, 0, SQLOCK_COL_OUTCOME, -1), 1);
    assert_int_equal(g.driver->tx_state(g.conn), SQLOCK_TX_ACTIVE);
    end_guest();
    proxy_stop(proxy);
}

/* The kernel of a server whose processes are stopped goes on accepting connections. */
static void test_server_that_is_stopped_is_not_waited_for(void **state)
{
    pid_t postmaster =
        (pid_t)private_number("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int");
    pid_t backend;
    int64_t begun;
    int rc;

    begin_guest(state);
    g.w->place.url = private_url();
    private_exec("CREATE SCHEMA IF NOT EXISTS %s", g.w->place.schema);
    g.app = app_connect();
    end_guest();
    assert_ok(adopt(g.app, &g.conn), &g.err);
    for (int whole = 0; whole < 2; whole++) {
        backend = PQbackendPID(native(g.app));
        app_exec(g.app, "BEGIN");
        kill(backend, SIGSTOP);
        if (whole)
            kill(postmaster, SIGSTOP);
        begun = sqlock_now_us();
        rc = run_until(OUR_READ, begun + 100000);
        kill(postmaster, SIGCONT);
        kill(backend, SIGCONT);
        assert_severed(rc, begun, 100);
        PQreset(native(g.app));
        end_guest();
        assert_ok(adopt(g.app, &g.conn), &g.err);
    }
    end_guest();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_notice_processor_of_the_application_hears_nothing_of_ours),
    cmocka_unit_test(test_notice_receiver_of_the_application_stays_in_its_place),
    cmocka_unit_test(test_last_words_of_the_server_are_handed_on),
    cmocka_unit_test(test_notifications_reach_the_application),
    cmocka_unit_test(test_mode_of_waiting_is_as_before),
    cmocka_unit_test(test_copy_in_progress_is_left_alone),
    cmocka_unit_test(test_statement_that_was_only_sent_is_left_alone),
#ifdef LIBPQ_HAS_PIPELINING
    cmocka_unit_test(test_pipeline_is_left_alone),
#endif
    cmocka_unit_test(test_connection_that_is_not_connected_is_refused),
    cmocka_unit_test(test_unnamed_statement_is_gone_and_never_ours),
    cmocka_unit_test(test_cursor_of_the_application_goes_on),
    cmocka_unit_test(test_guard_works_whatever_is_set_and_leaves_it_so),
    cmocka_unit_test(test_functions_before_those_of_pg_catalog_are_not_called),
    cmocka_unit_test(test_name_that_the_encoding_would_change_is_refused),
    cmocka_unit_test(test_error_of_another_encoding_is_told_in_utf8),
    cmocka_unit_test(test_timeouts_of_the_application_end_ours_and_not_its_transaction),
    cmocka_unit_test(test_session_that_ends_during_a_statement_is_told),
    cmocka_unit_test(test_cancel_never_hits_a_statement_of_the_application),
    cmocka_unit_test(test_link_that_is_silent_is_cut_and_no_answer_of_ours_is_left),
    cmocka_unit_test(test_network_that_refuses_the_cancel_costs_the_link),
    cmocka_unit_test(test_statement_that_ends_a_little_late_is_answered),
    cmocka_unit_test(test_server_that_is_stopped_is_not_waited_for),
};

int main(void)
{
    int code = 0;

    return postgres_is_missing(&code) ? code
                                      : suite_run_tests(&postgres_quirks, "postgres_adopt", tests,
                                                        sizeof tests / sizeof *tests);
}
