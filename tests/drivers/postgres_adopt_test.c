/* P14 on PostgreSQL: what only libpq has. Notices, notifications, modes of a connection, settings
 * that change what a text means. */
#include <sqlock/postgres.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/postgres_quirks.h"

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
static void begin_shouting(struct world *w)
{
    begin_adopted(w);
    n_notices = 0;
    app_exec(g.app, "CREATE FUNCTION shout() RETURNS int LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE NOTICE 'hey'; RETURN 1; END $$");
    app_exec(g.app, "BEGIN");
}

TEST_AFTER(begin_shouting, test_notice_processor_of_the_application_hears_nothing_of_ours)
{
    PQsetNoticeProcessor(native(g.app), process_notice, &n_notices);
    be_adopted();
    ok(run("SELECT 0, 1 FROM shout()"));
    app_exec(g.app, "SET LOCAL client_min_messages = debug5");
    n_notices = 0;
    be_adopted();
    assert_int_equal(n_notices, 0);
    app_exec(g.app, "SET LOCAL client_min_messages = notice");
    n_notices = 0;
    app_exec(g.app, "SELECT shout()");
    assert_int_equal(n_notices, 1);
}

/* libpq does not tell its argument: once replaced it could not be put back. */
TEST_AFTER(begin_shouting, test_notice_receiver_of_the_application_stays_in_its_place)
{
    PQsetNoticeReceiver(native(g.app), receive_notice, &n_notices);
    be_adopted();
    assert_int_equal(n_notices, 0);
    ok(run("SELECT 0, 1 FROM shout()"));
    assert_int_equal(n_notices, 1); /* as the README says of triggers */
    app_exec(g.app, "SELECT shout()");
    assert_int_equal(n_notices, 2);
}

/* They came while nothing of ours was under way, so they are the application's. */
TEST_AFTER(begin_shouting, test_last_words_of_the_server_are_handed_on)
{
    PQsetNoticeProcessor(native(g.app), process_notice, &n_notices);
    g.side->kill(g.app);
    assert_true(run(OUR_READ) < 0);
    assert_int_equal(said.flags & SQLOCK_RECONNECT, SQLOCK_RECONNECT);
    assert_string_equal(said.sqlstate, "57P01");
    assert_int_equal(n_notices, 1);
    assert_non_null(strstr(last_notice, "terminating connection"));
}

/* ---- notifications --------------------------------------------------------------------------- */

static bool notified(PGconn *pg)
{
    PGnotify *note = PQconsumeInput(pg) ? PQnotifies(pg) : NULL;
    bool came = note != NULL;

    PQfreemem(note);
    return came;
}

TEST_AFTER(begin_adopted, test_notifications_reach_the_application)
{
    char listen[80];
    PGconn *pg = native(g.app);

    snprintf(listen, sizeof listen, "LISTEN %s", g.w->place.schema);
    app_exec(g.app, listen);
    pg_exec("NOTIFY %s", g.w->place.schema);
    assert_true(readable_within(PQsocket(pg), patience_ms(5000)));
    app_exec(g.app, "BEGIN"); /* now libpq has it, and the application has not looked */
    be_adopted();
    assert_true(notified(pg));
    assert_false(notified(pg));
    pg_exec("NOTIFY %s", g.w->place.schema);
    be_adopted();
    app_exec(g.app, "COMMIT");
    assert_soon(notified(pg), patience_ms(5000));
}

/* ---- modes of a connection ------------------------------------------------------------------- */

TEST_AFTER(begin_adopted, test_mode_of_waiting_is_as_before)
{
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        assert_int_equal(PQsetnonblocking(native(g.app), nonblocking), 0);
        app_exec(g.app, "BEGIN");
        be_adopted();
        assert_int_equal(PQisnonblocking(native(g.app)), nonblocking);
        point_ok(SQLOCK_SAVEPOINT_SET);
        says(SQLOCK_ETIMEOUT, run_until(g.side->slow, sqlock_now_us() + 50000));
        assert_int_equal(PQisnonblocking(native(g.app)), nonblocking);
        undo_failed();
        app_exec(g.app, "COMMIT");
    }
}

/* Behind our savepoint they are ours for a moment; what it changed is kept when it is released. */
TEST_AFTER(begin_adopted, test_time_limits_of_the_application_are_put_back)
{
    static const char *const limits[] = {
        "SET LOCAL lock_timeout = '1ms'; SET LOCAL statement_timeout = '7s'",
        "SET lock_timeout = '3h'; SET statement_timeout = '2147483647ms'",
        "SET LOCAL statement_timeout = '90min'"};

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char *before;

        app_exec(g.app, "BEGIN", limits[i]);
        before = g.side->settings(g.app);
        be_adopted();
        still_says(before, g.side->settings);
        app_exec(g.app, "COMMIT");
        before = g.side->settings(g.app);
        assert_true(i != 1 || strstr(before, "lock_timeout=10800000"));
        free(before);
    }
}

TEST_AFTER(begin_in_transaction, test_copy_in_progress_is_left_alone)
{
    PGresult *res = PQexec(native(g.app), "COPY app_row FROM STDIN");

    assert_int_equal(PQresultStatus(res), PGRES_COPY_IN);
    PQclear(res);
    assert_in_the_middle();
    assert_int_equal(PQputCopyData(native(g.app), "2\t20\n", 5), 1);
    assert_in_the_middle();
    assert_int_equal(PQputCopyEnd(native(g.app), NULL), 1);
    while ((res = PQgetResult(native(g.app))) != NULL) {
        assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
        PQclear(res);
    }
    be_adopted();
    app_exec(g.app, "COMMIT");
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"), 20);
}

TEST_AFTER(begin_in_transaction, test_statement_that_was_only_sent_is_left_alone)
{
    assert_true(PQsendQuery(native(g.app), "SELECT pg_catalog.generate_series(1, 3)"));
    assert_in_the_middle();
    assert_int_equal(g.side->read_rest(g.app), 0); /* three rows in one result */
    be_adopted();
}

#ifdef LIBPQ_HAS_PIPELINING
/* Also where nothing is in it: libpq takes no other statement there. */
TEST_AFTER(begin_in_transaction, test_pipeline_is_left_alone)
{
    assert_int_equal(PQenterPipelineMode(native(g.app)), 1);
    assert_in_the_middle();
    assert_int_equal(PQexitPipelineMode(native(g.app)), 1);
    be_adopted();
}
#endif

TEST_AFTER(begin_app, test_connection_that_is_not_connected_is_refused)
{
    struct postgres_app_conn app = {NULL, NULL};
    void *conn = NULL;

    app.pg = PQconnectStart(g.w->place.url);
    says(SQLOCK_ESTATE, adopt(&app, &conn));
    PQfinish(app.pg);
    app.pg = PQconnectdb("host=/nonexistent");
    says(SQLOCK_ESTATE, adopt(&app, &conn));
    PQfinish(app.pg);
    assert_null(conn);
}

/* The unnamed one is the only one that a client which leaves nothing behind can use. None of ours
 * may be run in its place. */
TEST_AFTER(begin_in_transaction, test_unnamed_statement_is_gone_and_never_ours)
{
    PGresult *res = PQprepare(native(g.app), "", "SELECT 42", 0, NULL);

    assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
    PQclear(res);
    be_adopted();
    res = PQexecPrepared(native(g.app), "", 0, NULL, NULL, NULL, 0);
    assert_string_equal(PQresultErrorField(res, PG_DIAG_SQLSTATE), "26000");
    PQclear(res);
}

TEST_AFTER(begin_in_transaction, test_cursor_of_the_application_goes_on)
{
    app_exec(g.app, "DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 9)");
    for (int i = 1; i <= 9; i++) {
        assert_int_equal(app_number(g.app, "FETCH c"), i);
        be_adopted();
    }
    app_exec(g.app, "COMMIT");
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

    ok(sqlock_adopt_postgres(m, native(g.app), &conn, &said));
    return conn;
}

TEST_AFTER(begin_app, test_guard_works_whatever_is_set_and_leaves_it_so)
{
    sqlock_lock *lock;
    sqlock_conn *conn;
    sqlock *m = open_manager(g.w, NULL);

    lock = take(m, "gr\xc3\xb6\xc3\x9f"
                   "e \\ ' \"");
    conn = adopt_here(m);
    PQsetNoticeProcessor(native(g.app), process_notice, &n_notices);
    for (size_t i = 0; i < sizeof session_settings / sizeof *session_settings; i++) {
        char *before;

        app_exec(g.app, session_settings[i], "BEGIN");
        before = g.side->settings(g.app);
        n_notices = 0;
        ok(sqlock_guard(lock, conn, &said));
        assert_int_equal(n_notices, 0);
        still_says(before, g.side->settings);
        app_exec(g.app, "COMMIT", "RESET ALL");
    }
    sqlock_conn_free(conn);
    give(lock);
}

/* Applications' tests put functions of their own before those of pg_catalog, to stop the clock. */
TEST_AFTER(begin_app, test_functions_before_those_of_pg_catalog_are_not_called)
{
    char sql[128];
    sqlock *m = open_manager(g.w, NULL);
    sqlock_lock *lock = take(m, "nightly");
    sqlock_conn *conn = adopt_here(m);

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
    ok(sqlock_guard(lock, conn, &said));
    app_exec(g.app, "COMMIT");
    sqlock_conn_free(conn);
    give(lock);
}

/* The server would read another name. */
TEST_AFTER(begin_adopted, test_name_that_the_encoding_would_change_is_refused)
{
    const char *sql = "SELECT 0, 1 FROM \"gr\xc3\xb6\xc3\x9f"
                      "e\"";

    app_exec(g.app, "CREATE TABLE \"gr\xc3\xb6\xc3\x9f"
                    "e\" AS SELECT 1 AS n");
    app_exec(g.app, "BEGIN");
    ok(run(sql));
    app_exec(g.app, "SET client_encoding = 'SQL_ASCII'");
    ok(run(sql));
    app_exec(g.app, "SET client_encoding = 'LATIN1'");
    says(SQLOCK_EREFUSED, run(sql));
    assert_non_null(strstr(said.text, "LATIN1"));
    be_adopted();
    app_exec(g.app, "COMMIT");
}

TEST_AFTER(begin_adopted, test_error_of_another_encoding_is_reported_in_utf8)
{
    app_exec(g.app, "CREATE FUNCTION fail() RETURNS int LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE EXCEPTION 'gr\xc3\xb6\xc3\x9f"
                    "e'; END $$");
    app_exec(g.app, "BEGIN");
    for (int latin1 = 0; latin1 < 2; latin1++) {
        app_exec(g.app, latin1 ? "SET client_encoding = 'LATIN1'" : "SELECT 1");
        point_ok(SQLOCK_SAVEPOINT_SET);
        assert_true(run("SELECT 0, 1 FROM fail()") < 0);
        assert_string_equal(said.text, latin1 ? "gr??e"
                                              : "gr\xc3\xb6\xc3\x9f"
                                                "e");
        undo_failed();
    }
}

TEST_MAIN_ON(postgres)
