/* P12, P8: waits for rows, and how they end. */
#include "tests/drivers/suite_rowlock.h"

TEST_WITH(GUARDS, set_row_stage, test_bounded_wait_ends_on_time_and_spoils_nothing)
{
    int64_t began, took;

    begin_both();
    ok(lock_row(rs.conn, 1));
    app_exec(rs.other_app, "SELECT 1");
    began = sqlock_now_us();
    says(SQLOCK_EBUSY, lock_row_with(rs.other, 1, 0, 300));
    took = sqlock_now_us() - began;
    assert_in_range(took, 300000, 300000 + patience_ms(1500) * 1000);
    assert_int_equal(app_number(rs.other_app, "SELECT n FROM app_row WHERE id = 2"), 20);
    app_exec(rs.other_app, "ROLLBACK");
    app_exec(g.app, "COMMIT");
    app_exec(rs.other_app, g.side->begins[0]);
    ok(lock_row_with(rs.other, 1, 0, 300));
}

static void wait_while_other_commits(int32_t wait_ms)
{
    int rc;

    begin_behind_other();
    exec_later(300, rs.other_app, "COMMIT");
    rc = lock_row_with(rs.conn, 1, 0, wait_ms);
    await_later();
    ok(rc);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1", "COMMIT");
}

TEST_WITH(GUARDS, set_row_stage, test_wait_ends_with_the_lock_when_it_is_given_up)
{
    wait_while_other_commits(patience_ms(20000));
    wait_while_other_commits(SQLOCK_WAIT_FOREVER);
    assert_int_equal(seen_by(g.app), 12);
}

/* Rows (1,2) and (2,1), the key's columns the other way round: their values as said would put the
 * second one first. */
static void *lock_pair(void *arg)
{
    const sqlock_column first[] = {{.name = "b", .value = sqlock_int(2)},
                                   {.name = "a", .value = sqlock_int(1)}},
                        second[] = {{.name = "b", .value = sqlock_int(1)},
                                    {.name = "a", .value = sqlock_int(2)}};
    const sqlock_row rows[] = {{sizeof *rows, NULL, "app_pair", first, 2},
                               {sizeof *rows, NULL, "app_pair", second, 2}};
    sqlock_row_opts o = row_opts(0, patience_ms(20000));

    *(int *)arg = sqlock_row_lock(rs.conn, rows, 2, &o, NULL);
    return NULL;
}

/* One call has waited for the first row, so nobody else has the second one. Else a call that names
 * the columns as the table does would meet it in a deadlock. */
TEST_WITH(GUARDS | KILLS, set_row_stage,
          test_many_rows_are_locked_in_one_order_however_their_columns_are)
{
    const sqlock_column a[] = {{.name = "a", .value = sqlock_int(1)},
                               {.name = "b", .value = sqlock_int(2)}},
                        b[] = {{.name = "a", .value = sqlock_int(2)},
                               {.name = "b", .value = sqlock_int(1)}};
    const sqlock_row first = {sizeof first, NULL, "app_pair", a, 2},
                     second = {sizeof second, NULL, "app_pair", b, 2};
    sqlock_row_opts o = row_opts(0, 0);
    pthread_t thread;
    int rc, theirs = -1;

    app_exec(g.app, "CREATE TABLE app_pair (b INTEGER, a INTEGER, PRIMARY KEY (a, b))");
    app_exec(g.app, "INSERT INTO app_pair (a, b) VALUES (1, 2)");
    app_exec(g.app, "INSERT INTO app_pair (a, b) VALUES (2, 1)");
    begin_both();
    ok(sqlock_row_lock(rs.other, &first, 1, &o, &said));
    assert_int_equal(pthread_create(&thread, NULL, lock_pair, &theirs), 0);
    sleep_ms(patience_ms(300));
    rc = sqlock_row_lock(rs.other, &second, 1, &o, &said);
    app_exec(rs.other_app, "COMMIT");
    pthread_join(thread, NULL);
    ok(rc);
    assert_int_equal(theirs, 0);
}

TEST_WITH(GUARDS | KILLS, set_row_stage, test_lost_connection_is_told)
{
    app_exec(g.app, g.side->begins[0]);
    g.side->kill(g.app);
    says(SQLOCK_ETXGONE, lock_row(rs.conn, 1));
    assert_true((said.flags & SQLOCK_RECONNECT) != 0);
}

TEST_WITH(GUARDS | KILLS, set_row_stage, test_connection_that_is_lost_in_a_wait_is_told)
{
    int rc;

    begin_behind_other();
    do_later(300, g.side->kill, g.app);
    rc = lock_row_with(rs.conn, 1, 0, SQLOCK_WAIT_FOREVER);
    await_later();
    says(SQLOCK_ETXGONE, rc);
    assert_true((said.flags & SQLOCK_RECONNECT) != 0);
    app_exec(rs.other_app, "UPDATE app_row SET n = 11 WHERE id = 1"); /* its own goes on */
    app_exec(rs.other_app, "COMMIT");
}

/* A server that knows no NOWAIT can only wait. What it cannot do it is not asked to do. */
TEST_AFTER(set_row_stage, test_server_that_can_only_wait_does_and_refuses_the_rest)
{
    bool instant = g.w->q->guards == NULL || g.w->q->guards();

    app_exec(g.app, g.side->begins[0]);
    ok(lock_row_with(rs.conn, 1, 0, SQLOCK_WAIT_FOREVER));
    ok(lock_row_name(rs.conn, "job", SQLOCK_WAIT_FOREVER));
    assert_int_equal(lock_row_with(rs.conn, 9, 0, SQLOCK_WAIT_FOREVER), SQLOCK_ABSENT);
    assert_int_equal(lock_row_with(rs.conn, 1, 0, 0), instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(lock_row_with(rs.conn, 1, 0, 100), instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(lock_row_with(rs.conn, 1, SQLOCK_ROW_SKIP_LOCKED, SQLOCK_WAIT_FOREVER),
                     instant ? 0 : SQLOCK_EREFUSED);
    assert_int_equal(seen_by(g.app), 10);
}

/* ---- cancels --------------------------------------------------------------------------------- */

struct firing {
    sqlock_cancel *cancel;
    int64_t after_us;
};

static void *fire_later(void *arg)
{
    struct firing *f = arg;

    sqlock_sleep_us(f->after_us);
    sqlock_cancel_fire(f->cancel);
    return NULL;
}

static int lock_until_cancelled(sqlock_cancel *cancel, int64_t id, int32_t wait_ms)
{
    sqlock_row_opts o = row_opts(0, wait_ms);

    o.cancel = cancel;
    return lock_row_opts(rs.conn, id, &o);
}

/* Lock row id, and let the cancel be fired so much later. */
static int lock_and_cancel(int64_t after_us, int64_t id, int32_t wait_ms)
{
    struct firing f = {.after_us = after_us};
    pthread_t thread;
    int rc;

    ok(sqlock_cancel_new(&f.cancel, &said));
    assert_int_equal(pthread_create(&thread, NULL, fire_later, &f), 0);
    rc = lock_until_cancelled(f.cancel, id, wait_ms);
    pthread_join(thread, NULL);
    sqlock_cancel_free(f.cancel);
    return rc;
}

TEST_WITH(GUARDS, set_row_stage, test_wait_that_is_cancelled_leaves_the_transaction_usable)
{
    be_impatient(g.app);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        if (strncmp(*begin, "SAVEPOINT", 9) == 0)
            continue; /* ended in another way */
        app_exec(rs.other_app, g.side->begins[0]);
        ok(lock_row(rs.other, 1));
        if (!g.side->exec(g.app, *begin)) {
            app_exec(rs.other_app, "ROLLBACK"); /* one writer, and it has the lock */
            continue;
        }
        if (!rs.one_writer)
            app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 2");
        assert_takes(300, 900 + patience_ms(1500),
                     says(SQLOCK_ECANCELLED, lock_and_cancel(300000, 1, SQLOCK_WAIT_FOREVER)));
        assert_int_equal(said.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), 0);
        app_exec(rs.other_app, "ROLLBACK");
        ok(lock_row_with(rs.conn, 1, 0, 1000)); /* in the same transaction */
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1", "COMMIT");
    }
    assert_true(seen_by(g.app) > 10);
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"),
                     rs.one_writer ? 20 : 20 + (int)(seen_by(g.app) - 10));
}

TEST_WITH(GUARDS, set_row_stage, test_cancel_of_a_name_s_wait_is_told)
{
    sqlock_row_opts o = row_opts(0, SQLOCK_WAIT_FOREVER);
    struct firing f = {.after_us = 200000};
    pthread_t thread;
    int rc;

    ok(sqlock_cancel_new(&f.cancel, &said));
    o.cancel = f.cancel;
    begin_both();
    ok(lock_row_name(rs.other, "job", 0));
    assert_int_equal(pthread_create(&thread, NULL, fire_later, &f), 0);
    rc = sqlock_name_lock(rs.conn, "job", &o, &said);
    pthread_join(thread, NULL);
    says(SQLOCK_ECANCELLED, rc);
    /* once it has been fired, nothing is asked, as elsewhere */
    says(SQLOCK_ECANCELLED, sqlock_name_lock(rs.conn, "free", &o, &said));
    says(SQLOCK_ECANCELLED, lock_until_cancelled(f.cancel, 2, 0));
    assert_int_equal(seen_by(g.app), 10);
    end_both("COMMIT");
    sqlock_cancel_free(f.cancel);
}

/* Cancels that come before, at and after the end of a call. The application's next statement, and
 * the library's next, know nothing of them. */
TEST_WITH(GUARDS, set_row_stage, test_cancel_that_comes_late_hits_nothing)
{
    enum { CANCELS = 60 };
    int cut = 0;

    app_exec(rs.other_app, g.side->begins[0]);
    if (!rs.one_writer)
        ok(lock_row(rs.other, 1));
    else
        app_exec(rs.other_app, "ROLLBACK");
    app_exec(g.app, g.side->begins[0]);
    for (int i = 0; i < CANCELS; i++) {
        int busy = !rs.one_writer && i % 2;
        int rc = lock_and_cancel(sqlock_random_below(busy ? 12000 : 1000), busy ? 1 : 2, 5);

        if (rc != SQLOCK_ECANCELLED)
            says(busy ? SQLOCK_EBUSY : 0, rc);
        cut += rc == SQLOCK_ECANCELLED;
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 2");
        ok(lock_row(rs.conn, 2));
        assert_int_equal(lock_row(rs.conn, 9), SQLOCK_ABSENT);
    }
    app_exec(g.app, "COMMIT");
    assert_in_range(cut, rs.one_writer ? 0 : 1, CANCELS - 1);
    assert_int_equal(app_number(g.app, "SELECT n FROM app_row WHERE id = 2"), 20 + CANCELS);
    app_exec(rs.other_app, rs.one_writer ? "SELECT 1" : "ROLLBACK");
}
