/* MariaDB and MySQL: a row that somebody keeps locked, or guards, delays no other name and no
 * reaper; the reaper on MySQL before 8.0 waits for it, and finds the rest the next time. */
#include <mysql.h>

#include <sqlock/mysql.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_quirks.h"

/* One request may wait a second for a row, or almost two (it looks once a second). */
enum { AT_ONCE_MS = 900, WAITED_MS = 2500 };

static sqlock *m;
static bool skips; /* the server can step over locked rows */

/* `a` and `b` have rows: left by holders that died, or free since long ago. The application is
 * another client, that keeps one of them. */
static void make_rows(bool dead)
{
    app_exec(g.app, "DELETE FROM sqlock_lock",
             dead ? "INSERT INTO sqlock_lock (ns, name, owner, token, exp, since) VALUES "
                    "('', 'a', REPEAT('x', 16), 1, 1, 1), ('', 'b', REPEAT('x', 16), 1, 1, 1)"
                  : "INSERT INTO sqlock_lock (ns, name, token, idle_since) VALUES "
                    "('', 'a', 1, 1), ('', 'b', 1, 1)");
}

static void begin_dead_or_free(struct world *w, bool dead)
{
    begin_app(w);
    skips = my_skips_locked();
    m = open_manager(w, NULL);
    app_exec(g.app, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    make_rows(dead);
}

static void begin_dead(struct world *w)
{
    begin_dead_or_free(w, true);
}

static void begin_free(struct world *w)
{
    begin_dead_or_free(w, false);
}

static void keep_b(void)
{
    app_exec(g.app, "BEGIN", "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'b' FOR UPDATE");
}

static void guard_b(void)
{
    app_exec(
        g.app, "BEGIN",
        "SELECT 1 FROM sqlock_lock FORCE INDEX (nt) WHERE ns = '' AND name = 'b' AND token = 1 "
        "LOCK IN SHARE MODE");
}

static sqlock_reap_report reap(void)
{
    sqlock_reap_report r = {.size = sizeof r};

    assert_takes(0, patience_ms(skips ? AT_ONCE_MS : WAITED_MS),
                 ok(sqlock_reap(m, NULL, &r, &said)));
    return r;
}

/* A table of two rows is read whole if the server has its way, and each row of it locked. */
TEST_AFTER(begin_free, test_locked_row_delays_no_other_name)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    int64_t begun;

    once.wait_ms = 0;
    keep_b();
    begun = now_us();
    ok(sqlock_acquire(m, "a", &once, &lock, &said));
    ok(sqlock_renew(lock, &said));
    ok(sqlock_release(lock, &said));
    assert_between(0, now_us() - begun, patience_ms(AT_ONCE_MS) * INT64_C(1000));
    drop(lock);
    app_exec(g.app, "COMMIT");
}

/* Where nothing steps over a locked row each renewal is a statement of its own, and the one that
 * has to wait may take the batch's whole time. What was done before it stands, and what comes
 * behind it is asked for first the next time. */
TEST_AFTER(begin_free, test_P7_a_locked_row_ends_no_lease_but_its_own)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *locks[4];

    o.lease_ms = 3000;
    for (int kept = 0; kept < 2; kept++) {
        make_rows(false);
        for (int i = 0; i < 4; i++)
            ok(sqlock_acquire(m, ((const char *[]){"a", "b", "c", "d"})[i], &o, &locks[i], &said));
        app_exec(g.app, "BEGIN");
        app_exec(g.app, kept == 0
                            ? "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'a' FOR UPDATE"
                            : "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'b' FOR UPDATE");
        for (int64_t end_us = now_us() + 5 * INT64_C(1000000); now_us() < end_us; sleep_ms(50))
            for (int i = 0; i < 4; i++)
                assert_true(i == kept || sqlock_is_held(locks[i]));
        assert_state(SQLOCK_LOST, locks[kept]);
        app_exec(g.app, "COMMIT");
        for (int i = 0; i < 4; i++)
            drop(locks[i]);
    }
}

TEST_AFTER(begin_dead, test_reaper_steps_over_a_locked_row)
{
    keep_b();
    assert_int_equal(reap().cleared, skips ? 1 : 0);
    app_exec(g.app, "COMMIT");
    assert_int_equal(reap().cleared, skips ? 1 : 2);
}

TEST_AFTER(begin_free, test_pruner_steps_over_a_locked_and_a_guarded_row)
{
    for (int i = 0; i < 2; i++) {
        make_rows(false);
        if (i == 0)
            keep_b();
        else
            guard_b();
        assert_int_equal(reap().pruned, 1);
        app_exec(g.app, "COMMIT");
        assert_int_equal(reap().pruned, 1);
    }
}

/* It is freed, as by a release: nobody is granted it before the guard's transaction ends. */
TEST_AFTER(begin_dead, test_reaper_frees_a_guarded_row_and_the_guard_stands)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    once.wait_ms = 0;
    guard_b();
    assert_int_equal(reap().cleared, 2);
    /* 5.6 cannot step over the row: it waits for it several times, and shows no guards. */
    assert_takes(
        0, skips ? patience_ms(AT_ONCE_MS) : patience_ms(5000),
        says(skips ? SQLOCK_EGUARDED : SQLOCK_EBUSY, sqlock_acquire(m, "b", &once, &lock, &said)));
    app_exec(g.app, "COMMIT");
    ok(sqlock_acquire(m, "b", &once, &lock, &said));
    assert_true(sqlock_lock_token(lock) > 1);
    ok(sqlock_release(lock, &said));
    drop(lock);
}

/* By a transaction that is no guard: the lock is as good as held, nobody can tell by whom. */
TEST_AFTER(begin_free, test_try_on_a_row_that_stays_locked_is_busy)
{
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    once.wait_ms = 0;
    keep_b();
    says(SQLOCK_EBUSY, sqlock_acquire(m, "b", &once, &lock, &said));
    assert_null(lock);
    app_exec(g.app, "COMMIT");
}

TEST_MAIN_ON(mysql)
