/* P14 on PostgreSQL: what ends a statement on an adopted connection, and what is left then:
 * timeouts, cancels, sessions that end, links and servers that fall silent. */
#include <signal.h>

#include <sqlock/postgres.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/postgres_quirks.h"
#include "tests/lib/private.h"
#include "tests/lib/proxy.h"

/* What the driver's README says: so long it tries to end a statement. */
enum { CUT_MS = 2000 };

/* ---- statements that somebody else ends ------------------------------------------------------ */

TEST_AFTER(begin_adopted, test_timeouts_of_the_application_end_ours_and_not_its_transaction)
{
    void *other = app_connect();

    app_exec(other, "BEGIN", "UPDATE app_row SET n = 0 WHERE id = 1");
    app_exec(g.app, "BEGIN", "SET LOCAL statement_timeout = '100ms'");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_true(run(g.side->slow) < 0);
    assert_string_equal(said.sqlstate, "57014");
    undo_failed();
    app_exec(g.app, "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '100ms'");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_true(run(OUR_WRITE) < 0);
    assert_string_equal(said.sqlstate, "55P03");
    undo_failed();
    assert_int_equal(
        app_number(g.app, "SELECT setting FROM pg_settings WHERE name = 'lock_timeout'"), 100);
    app_exec(g.app, "COMMIT");
}

TEST_AFTER(begin_in_transaction, test_session_that_ends_during_a_statement_is_reported)
{
    int rc;

    do_later(200, g.side->kill, g.app);
    rc = run(g.side->slow);
    await_later();
    says(SQLOCK_EUNREACH, rc);
    assert_string_equal(said.sqlstate, "57P01");
    assert_int_equal(said.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), SQLOCK_RECONNECT);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
    assert_int_equal(PQstatus(native(g.app)), CONNECTION_BAD);
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
            says(SQLOCK_ETIMEOUT, rc);
            assert_int_equal(said.flags & SQLOCK_RECONNECT, 0);
            n_cut += g.adopter->tx_state(g.conn) == SQLOCK_TX_FAILED; /* else it was not sent */
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

TEST_AFTER(begin_adopted, test_cancel_never_hits_a_statement_of_the_application)
{
    enum { TIMES = 200 };
    pthread_t thread;
    bool survived;

    assert_between(1, run_close_to_the_deadline(TIMES), TIMES - 1);
    /* As a cancel would that is still on its way when the call returns. */
    assert_int_equal(pthread_create(&thread, NULL, cancel_late, g.app), 0);
    survived = g.side->exec(g.app, "SELECT pg_sleep(5)");
    pthread_join(thread, NULL);
    assert_false(survived);
}

/* ---- silence --------------------------------------------------------------------------------- */

/* What is found after the link had to be cut. */
static void assert_severed(int rc, int64_t begun, int32_t wait_ms)
{
    says(SQLOCK_ETIMEOUT, rc);
    assert_between(wait_ms * INT64_C(1000), sqlock_now_us() - begun,
                   (wait_ms + CUT_MS + patience_ms(1500)) * INT64_C(1000));
    assert_int_equal(said.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), SQLOCK_RECONNECT);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
    assert_int_equal(PQstatus(native(g.app)), CONNECTION_BAD);
}

/* Nothing of ours is read by the application when the network is back. */
TEST_AFTER(begin_adopted, test_link_that_is_silent_is_cut_and_no_answer_of_ours_is_left)
{
    const proxy_mode modes[] = {PROXY_HOLD_DOWN, PROXY_HOLD_UP, PROXY_HOLD};
    struct proxy *proxy = proxy_start_pg();

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        int64_t begun;
        int rc;

        begin_at(proxy_url(proxy));
        proxy_mode_set(proxy, modes[i]);
        begun = sqlock_now_us();
        rc = i < 2 ? run_until("SELECT 0, 1, 4711", begun + 100000)
                   : g.adopter->savepoint(g.conn, SQLOCK_SAVEPOINT_SET, begun + 100000, &said);
        proxy_mode_set(proxy, PROXY_PASS);
        assert_severed(rc, begun, 100);
        assert_false(g.side->exec(g.app, "SELECT 1"));
        PQreset(native(g.app));
        assert_int_equal(PQisnonblocking(native(g.app)), 0);
        assert_int_equal(app_number(g.app, "SELECT 42"), 42);
    }
    end_adopted();
    proxy_stop(proxy);
}

TEST_AFTER(begin_adopted, test_network_that_refuses_the_cancel_costs_the_link)
{
    struct proxy *proxy = proxy_start_pg();
    int64_t begun;
    int rc;

    begin_at(proxy_url(proxy));
    proxy_refuse(proxy, 1);
    begun = sqlock_now_us();
    rc = run_until(g.side->slow, begun + 100000);
    proxy_refuse(proxy, 0);
    assert_severed(rc, begun, 100);
    end_adopted();
    proxy_stop(proxy);
}

/* It ends by itself before it is given up. */
TEST_AFTER(begin_adopted, test_statement_that_ends_a_little_late_is_answered)
{
    struct proxy *proxy = proxy_start_pg();
    int rc;

    begin_at(proxy_url(proxy));
    proxy_refuse(proxy, 1);
    rc = run_until("SELECT 0, 1 FROM pg_catalog.pg_sleep(1)", sqlock_now_us() + 100000);
    proxy_refuse(proxy, 0);
    ok(rc);
    assert_int_equal(rows_int(g.rows, 0, SQLOCK_COL_OUTCOME, -1), 1);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
    end_adopted();
    proxy_stop(proxy);
}

/* The kernel of a server whose processes are stopped goes on accepting connections. */
TEST_AFTER(begin_adopted, test_server_that_is_stopped_is_not_waited_for)
{
    pid_t postmaster =
        (pid_t)private_number("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int");
    pid_t backend;
    int64_t begun;
    int rc;

    private_exec("CREATE SCHEMA IF NOT EXISTS %s", g.w->place.schema);
    begin_at(private_url());
    for (int whole = 0; whole < 2; whole++) {
        backend = PQbackendPID(native(g.app));
        kill(backend, SIGSTOP);
        if (whole)
            kill(postmaster, SIGSTOP);
        begun = sqlock_now_us();
        rc = run_until(OUR_READ, begun + 100000);
        kill(postmaster, SIGCONT);
        kill(backend, SIGCONT);
        assert_severed(rc, begun, 100);
        if (!whole)
            begin_at(private_url());
    }
}

TEST_MAIN_ON(postgres)
