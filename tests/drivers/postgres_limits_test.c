/* P18: time limits that an administrator has set for a role. A connection of our own is not bound
 * by them; one of which nothing may be set, behind a pooler, tells them for what they are. */
#include <sqlock/postgres.h>
#include <sqlock/register.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_quirks.h"

#define SLEEPS "SELECT 0, 1 FROM pg_catalog.pg_sleep(0.3)"

static char role[64];
static void *own;

/* A connection of ours, by a role whose waits end after 50 ms, and statements after 150. */
static void connect_limited(unsigned flags)
{
    sqlock_conn_opts o = {.size = sizeof o, .flags = flags, .scripts = g.scripts, .wake_fd = -1};
    char url[600];

    snprintf(role, sizeof role, "%s_limited", g.w->place.schema);
    pg_exec("CREATE ROLE %s SUPERUSER LOGIN", role);
    pg_exec("ALTER ROLE %s SET lock_timeout = '50ms'", role);
    pg_exec("ALTER ROLE %s SET statement_timeout = '150ms'", role);
    snprintf(url, sizeof url, "%s%cuser=%s", pg_url(), strchr(pg_url(), '?') ? '&' : '?', role);
    o.url = url;
    ok(g.driver->open(&o, soon(), &own, &said));
}

static void disconnect_limited(void)
{
    g.driver->close(own);
    pg_exec("DROP ROLE %s", role);
}

/* A row that is locked for longer than the role may wait. */
static int run_meanwhile_locked(void)
{
    char sql[200];
    int rc;

    snprintf(sql, sizeof sql, "UPDATE %s.app_row SET n = n + 1 WHERE id = 1 RETURNING 0, 1",
             g.w->place.schema);
    app_exec(g.app, "BEGIN", "UPDATE app_row SET n = 11 WHERE id = 1");
    exec_later(400, g.app, "COMMIT");
    rc = run_own(own, sql);
    await_later();
    return rc;
}

TEST_AFTER(begin_app, test_limits_of_a_role_do_not_bind_our_connections)
{
    connect_limited(0);
    ok(run_meanwhile_locked());
    assert_int_equal(seen_by(g.app), 12);
    ok(run_own(own, SLEEPS));
    disconnect_limited();
}

/* The twin of both: nothing is set there, so that the limits rule. The one says that somebody has
 * the row, the other nothing of the kind. */
TEST_AFTER(begin_app, test_limits_where_nothing_may_be_set_are_reported)
{
    connect_limited(SQLOCK_OPEN_UNPREPARED);
    says(SQLOCK_EDB, run_meanwhile_locked());
    assert_string_equal(said.sqlstate, "55P03");
    assert_int_equal(said.flags, SQLOCK_RETRY);
    says(SQLOCK_EDB, run_own(own, SLEEPS));
    assert_string_equal(said.sqlstate, "57014");
    assert_int_equal(said.flags, SQLOCK_RETRY);
    disconnect_limited();
}

static int64_t waiting(void)
{
    return pg_number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                     " AND query LIKE '%%%s%%'",
                     g.w->place.schema);
}

/* Nobody hears what comes of them, and each is a session less for others. */
TEST_AFTER(begin_adopted, test_sessions_of_requests_that_were_given_up_do_not_wait_on)
{
    int64_t version;
    sqlock *m = open_with(g.w, with.request_ms = 500);

    ok(sqlock_register_set(m, "r", "x", 1, 0, &version, &said));
    app_exec(g.app, "BEGIN", "SELECT 1 FROM sqlock_register FOR UPDATE");
    for (int i = 0; i < 3; i++)
        assert_true(sqlock_register_set(m, "r", "y", 1, version, NULL, &said) < 0);
    assert_soon(waiting() == 0, patience_ms(6000));
    app_exec(g.app, "COMMIT");
    ok(sqlock_register_set(m, "r", "z", 1, version, &version, &said));
}

/* The server ends each of its requests in time, so no reply is lost. */
TEST_AFTER(begin_adopted, test_P5_wait_behind_a_row_that_others_have_locked_ends_sure)
{
    sqlock *m = open_manager(g.w, NULL), *other = open_manager(g.w, NULL);
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *held, *lock;

    ok(sqlock_acquire(m, "nightly", &o, &held, &said));
    app_exec(g.app, "BEGIN", "SELECT 1 FROM sqlock_lock FOR UPDATE");
    o.wait_ms = 1000;
    assert_takes(900, 1000 + patience_ms(500),
                 says(SQLOCK_EBUSY, sqlock_acquire(other, "nightly", &o, &lock, &said)));
    app_exec(g.app, "COMMIT");
    give(held);
}

TEST_MAIN_ON(postgres)
