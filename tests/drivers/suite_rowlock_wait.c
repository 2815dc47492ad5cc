/* P12, P8: waits for rows, and how they end. */
#include <pthread.h>
#include <string.h>

#include "tests/drivers/suite_rowlock.h"

static void test_bounded_wait_ends_on_time_and_spoils_nothing(void **state)
{
    int64_t began, took;

    set_row_stage(state);
    begin_both();
    assert_ok(lock_row(rs.conn, 1), &rs.err);
    app_exec(rs.other_app, "SELECT 1");
    began = sqlock_now_us();
    assert_code(SQLOCK_EBUSY, lock_row_with(rs.other, 1, 0, 300), &rs.err);
    took = sqlock_now_us() - began;
    assert_in_range(took, 300000, 300000 + patience_ms(1500) * 1000);
    assert_int_equal(app_number(rs.other_app, "SELECT n FROM app_row WHERE id = 2"), 20);
    app_exec(rs.other_app, "ROLLBACK");
    app_exec(g.app, "COMMIT");
    app_exec(rs.other_app, g.side->begins[0]);
    assert_ok(lock_row_with(rs.other, 1, 0, 300), &rs.err);
    app_exec(rs.other_app, "ROLLBACK");
    strike_row_stage();
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
    assert_ok(lock_row(rs.other, 1), &rs.err);
    assert_int_equal(pthread_create(&thread, NULL, commit_later, rs.other_app), 0);
    rc = lock_row_with(rs.conn, 1, 0, wait_ms);
    pthread_join(thread, &result);
    assert_ok(rc, &rs.err);
    assert_non_null(result);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    app_exec(g.app, "COMMIT");
}

static void test_wait_ends_with_the_lock_when_it_is_given_up(void **state)
{
    set_row_stage(state);
    wait_while_other_commits(patience_ms(20000));
    wait_while_other_commits(SQLOCK_WAIT_FOREVER);
    assert_int_equal(seen_by(g.app), 12);
    strike_row_stage();
}

static void test_lost_connection_is_told(void **state)
{
    set_row_stage(state);
    app_exec(g.app, g.side->begins[0]);
    g.side->kill(g.app);
    assert_code(SQLOCK_ETXGONE, lock_row(rs.conn, 1), &rs.err);
    assert_true((rs.err.flags & SQLOCK_RECONNECT) != 0);
    strike_row_stage();
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

    set_row_stage(state);
    begin_both();
    assert_ok(lock_row(rs.other, 1), &rs.err);
    assert_int_equal(pthread_create(&thread, NULL, kill_later, g.app), 0);
    rc = lock_row_with(rs.conn, 1, 0, SQLOCK_WAIT_FOREVER);
    pthread_join(thread, NULL);
    assert_code(SQLOCK_ETXGONE, rc, &rs.err);
    assert_true((rs.err.flags & SQLOCK_RECONNECT) != 0);
    app_exec(rs.other_app, "UPDATE app_row SET n = 11 WHERE id = 1"); /* its own goes on */
    app_exec(rs.other_app, "COMMIT");
    strike_row_stage();
}

/* A server that knows no NOWAIT can only wait. What it cannot do it is not asked to do. */
static void test_server_that_can_only_wait_does_and_refuses_the_rest(void **state)
{
    bool instant;

    set_row_stage(state);
    instant = g.w->q->guards == NULL || g.w->q->guards();
    app_exec(g.app, g.side->begins[0]);
    assert_ok(lock_row_with(rs.conn, 1, 0, SQLOCK_WAIT_FOREVER), &rs.err);
    assert_ok(lock_row_name(rs.conn, "job", SQLOCK_WAIT_FOREVER), &rs.err);
    assert_int_equal(lock_row_with(rs.conn, 9, 0, SQLOCK_WAIT_FOREVER), SQLOCK_ABSENT);
    assert_int_equal(lock_row_with(rs.conn, 1, 0, 0), instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(lock_row_with(rs.conn, 1, 0, 100), instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(lock_row_with(rs.conn, 1, SQLOCK_ROW_SKIP_LOCKED, SQLOCK_WAIT_FOREVER),
                     instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "ROLLBACK");
    strike_row_stage();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_bounded_wait_ends_on_time_and_spoils_nothing),
    cmocka_unit_test(test_wait_ends_with_the_lock_when_it_is_given_up),
};
PART(suite_rowlock_wait, tests);

static const struct CMUnitTest on_servers[] = {
    cmocka_unit_test(test_lost_connection_is_told),
    cmocka_unit_test(test_connection_that_is_lost_in_a_wait_is_told),
};
PART(suite_rowlock_server, on_servers);

static const struct CMUnitTest everywhere[] = {
    cmocka_unit_test(test_server_that_can_only_wait_does_and_refuses_the_rest),
};
PART(suite_rowlock_refused, everywhere);
