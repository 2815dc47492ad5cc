/* MariaDB and MySQL: a row that somebody keeps locked, or guards, delays no other name and no
 * reaper; the reaper on MySQL before 8.0 waits for it, and finds the rest the next time. */
#include <mysql.h>

#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/undo.h"

/* One request may wait a second for a row, or almost two (InnoDB looks once a second): what took
 * less has not waited. */
enum { AT_ONCE_MS = 900, WAITED_MS = 2500 };

static struct {
    char *database;
    sqlock *m;
    MYSQL *other;
    bool skips; /* the server can step over locked rows */
} test;

/* A statement of another client's, on its one connection. */
static void other(const char *sql)
{
    if (mysql_query(test.other, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(test.other));
    mysql_free_result(mysql_store_result(test.other));
}

/* A database in which `a` and `b` have rows: left by holders that died, or free since long ago. */
static void begin(int dead)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    test.database = my_database_new();
    test.skips = my_skips_locked();
    o.schema = test.database;
    ok(sqlock_migrate(sqlock_driver_mysql(), my_url(), &o, NULL, &said));
    ok(sqlock_open(sqlock_driver_mysql(), my_url(), &o, &test.m, &said));
    assert_non_null(test.other = mysql_init(NULL));
    assert_non_null(
        mysql_real_connect(test.other, NULL, "root", "", test.database, 0, my_socket_path(), 0));
    other(dead ? "INSERT INTO sqlock_lock (ns, name, owner, token, exp, since) VALUES "
                 "('', 'a', REPEAT('x', 16), 1, 1, 1), ('', 'b', REPEAT('x', 16), 1, 1, 1)"
               : "INSERT INTO sqlock_lock (ns, name, token, idle_since) VALUES "
                 "('', 'a', 1, 1), ('', 'b', 1, 1)");
    other("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
}

static int end(void **state)
{
    (void)state;
    sqlock_close(test.m);
    mysql_close(test.other);
    if (test.database)
        undo_now(test.database);
    test.database = NULL;
    test.m = NULL;
    test.other = NULL;
    return 0;
}

static void keep_b(void)
{
    other("BEGIN");
    other("SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'b' FOR UPDATE");
}

static void guard_b(void)
{
    other("BEGIN");
    other("SELECT 1 FROM sqlock_lock FORCE INDEX (nt) WHERE ns = '' AND name = 'b' AND token = 1 "
          "LOCK IN SHARE MODE");
}

static sqlock_reap_report reap(void)
{
    sqlock_reap_report r = {.size = sizeof r};
    int64_t begun = now_us();

    ok(sqlock_reap(test.m, NULL, &r, &said));
    assert_between(0, now_us() - begun,
                   patience_ms(test.skips ? AT_ONCE_MS : WAITED_MS) * INT64_C(1000));
    return r;
}

/* A table of two rows is read whole if the server has its way, and each row of it locked. */
static void test_locked_row_delays_no_other_name(void **state)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    int64_t begun;

    (void)state;
    begin(0);
    once.wait_ms = 0;
    keep_b();
    begun = now_us();
    ok(sqlock_acquire(test.m, "a", &once, &lock, &said));
    ok(sqlock_renew(lock, &said));
    ok(sqlock_release(lock, &said));
    assert_between(0, now_us() - begun, patience_ms(AT_ONCE_MS) * INT64_C(1000));
    sqlock_lock_free(lock);
    other("COMMIT");
}

/* Where nothing steps over a locked row each renewal is a statement of its own, and the one that
 * has to wait may take the batch's whole time. What was done before it stands, and what comes
 * behind it is asked for first the next time. */
static void test_P7_a_locked_row_ends_no_lease_but_its_own(void **state)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *locks[4];

    o.lease_ms = 3000;
    for (int kept = 0; kept < 2; kept++) {
        begin(0);
        for (int i = 0; i < 4; i++)
            ok(sqlock_acquire(test.m, ((const char *[]){"a", "b", "c", "d"})[i], &o, &locks[i],
                              &said));
        other("BEGIN");
        other(kept == 0 ? "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'a' FOR UPDATE"
                        : "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'b' FOR UPDATE");
        for (int64_t end_us = now_us() + 5 * INT64_C(1000000); now_us() < end_us; sleep_ms(50))
            for (int i = 0; i < 4; i++)
                assert_true(i == kept || sqlock_is_held(locks[i]));
        assert_int_equal(sqlock_lock_state(locks[kept]), SQLOCK_LOST);
        other("COMMIT");
        for (int i = 0; i < 4; i++)
            sqlock_lock_free(locks[i]);
        end(state);
    }
}

static void test_reaper_steps_over_a_locked_row(void **state)
{
    (void)state;
    begin(1);
    keep_b();
    assert_int_equal(reap().cleared, test.skips ? 1 : 0);
    other("COMMIT");
    assert_int_equal(reap().cleared, test.skips ? 1 : 2);
}

static void test_pruner_steps_over_a_locked_and_a_guarded_row(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(0);
        if (i == 0)
            keep_b();
        else
            guard_b();
        assert_int_equal(reap().pruned, 1);
        other("COMMIT");
        assert_int_equal(reap().pruned, 1);
        end(state);
    }
}

/* It is freed, as by a release: nobody is granted it before the guard's transaction ends. */
static void test_reaper_frees_a_guarded_row_and_the_guard_stands(void **state)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    int64_t begun;

    (void)state;
    begin(1);
    once.wait_ms = 0;
    guard_b();
    assert_int_equal(reap().cleared, 2);
    begun = now_us();
    says(test.skips ? SQLOCK_EGUARDED : SQLOCK_EBUSY,
         sqlock_acquire(test.m, "b", &once, &lock, &said)); /* 5.6 does not show guards */
    assert_between(0, now_us() - begun,
                   patience_ms(test.skips ? AT_ONCE_MS : WAITED_MS) * INT64_C(1000));
    other("COMMIT");
    ok(sqlock_acquire(test.m, "b", &once, &lock, &said));
    assert_true(sqlock_lock_token(lock) > 1);
    ok(sqlock_release(lock, &said));
    sqlock_lock_free(lock);
}

/* By a transaction that is no guard: the lock is as good as held, nobody can tell by whom. */
static void test_try_on_a_row_that_stays_locked_is_busy(void **state)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    (void)state;
    begin(0);
    once.wait_ms = 0;
    keep_b();
    says(SQLOCK_EBUSY, sqlock_acquire(test.m, "b", &once, &lock, &said));
    assert_null(lock);
    other("COMMIT");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(test_locked_row_delays_no_other_name, end),
    cmocka_unit_test_teardown(test_P7_a_locked_row_ends_no_lease_but_its_own, end),
    cmocka_unit_test_teardown(test_reaper_steps_over_a_locked_row, end),
    cmocka_unit_test_teardown(test_pruner_steps_over_a_locked_and_a_guarded_row, end),
    cmocka_unit_test_teardown(test_try_on_a_row_that_stays_locked_is_busy, end),
    cmocka_unit_test_teardown(test_reaper_frees_a_guarded_row_and_the_guard_stands, end),
};

TEST_MAIN(tests)
