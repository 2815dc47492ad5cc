/* P12, P8: waits for rows, and how they end; many who want the same rows at once. */
#define SUITE_NEEDS ADOPTION
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

/* Rows (1,2) and (2,1), the key's columns the other way round: as said, the second comes first. */
static void lock_pair(void *arg)
{
    const sqlock_column first[] = {{.name = "b", .value = sqlock_int(2)},
                                   {.name = "a", .value = sqlock_int(1)}},
                        second[] = {{.name = "b", .value = sqlock_int(1)},
                                    {.name = "a", .value = sqlock_int(2)}};
    const sqlock_row rows[] = {{sizeof *rows, NULL, "app_pair", first, 2},
                               {sizeof *rows, NULL, "app_pair", second, 2}};
    sqlock_row_opts o = row_opts(0, patience_ms(20000));

    *(int *)arg = sqlock_row_lock(rs.conn, rows, 2, &o, NULL);
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
    int rc, theirs = -1;

    app_exec(g.app, "CREATE TABLE app_pair (b INTEGER, a INTEGER, PRIMARY KEY (a, b))");
    app_exec(g.app, "INSERT INTO app_pair (a, b) VALUES (1, 2)");
    app_exec(g.app, "INSERT INTO app_pair (a, b) VALUES (2, 1)");
    begin_both();
    ok(sqlock_row_lock(rs.other, &first, 1, &o, &said));
    do_later(0, lock_pair, &theirs);
    sleep_ms(patience_ms(300));
    rc = sqlock_row_lock(rs.other, &second, 1, &o, &said);
    app_exec(rs.other_app, "COMMIT");
    await_later();
    ok(rc);
    assert_int_equal(theirs, 0);
}

TEST_WITH(GUARDS | KILLS, set_row_stage, test_lost_connection_is_reported)
{
    app_exec(g.app, g.side->begins[0]);
    g.side->kill(g.app);
    says(SQLOCK_ETXGONE, lock_row(rs.conn, 1));
    assert_true((said.flags & SQLOCK_RECONNECT) != 0);
}

TEST_WITH(GUARDS | KILLS, set_row_stage, test_connection_that_is_lost_in_a_wait_is_reported)
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

static void fire(void *arg)
{
    struct firing *f = arg;

    sqlock_sleep_us(f->after_us);
    sqlock_cancel_fire(f->cancel);
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
    int rc;

    ok(sqlock_cancel_new(&f.cancel, &said));
    do_later(0, fire, &f);
    rc = lock_until_cancelled(f.cancel, id, wait_ms);
    await_later();
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

TEST_WITH(GUARDS, set_row_stage, test_cancel_of_a_name_s_wait_is_reported)
{
    sqlock_row_opts o = row_opts(0, SQLOCK_WAIT_FOREVER);
    struct firing f = {.after_us = 200000};
    int rc;

    ok(sqlock_cancel_new(&f.cancel, &said));
    o.cancel = f.cancel;
    begin_both();
    ok(lock_row_name(rs.other, "job", 0));
    do_later(0, fire, &f);
    rc = sqlock_name_lock(rs.conn, "job", &o, &said);
    await_later();
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

/* ---- many at once ---------------------------------------------------------------------------- */

enum { WORKERS = 3, ROUNDS = 15 };

struct worker {
    void *app;
    sqlock_conn *conn;
    bool reversed;
    int number, code;
    sqlock_error err;
};

/* Both rows in one call, in the order that the worker has; the twin locks them in two calls. */
static int lock_two(struct worker *w)
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

static void *lock_twos(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < (w->reversed ? 1 : ROUNDS) && w->code == 0; i++) {
        if (!g.side->exec(w->app, g.side->begins[0])) {
            w->code = -100;
            break;
        }
        w->code = lock_two(w);
        g.side->exec(w->app, "ROLLBACK");
    }
    return NULL;
}

static void run_workers(struct worker *workers, int n)
{
    void *apps[WORKERS] = {g.app, rs.other_app, NULL};
    sqlock_conn *conns[WORKERS] = {rs.conn, rs.other, NULL};

    apps[2] = app_connect();
    conns[2] = adopted(rs.m, apps[2]);
    for (int i = 0; i < n; i++) {
        workers[i].app = apps[i];
        workers[i].conn = conns[i];
        workers[i].number = i;
    }
    run_threads((size_t)n, workers, sizeof *workers, lock_twos);
}

TEST_AFTER(set_row_stage, test_many_rows_of_one_call_do_not_deadlock)
{
    struct worker workers[WORKERS] = {{.code = 0}};

    run_workers(workers, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        assert_ok(workers[i].code, &workers[i].err);
}

/* The twin; and what a deadlock is told as, with the transaction as the code says. */
TEST_WITH(GUARDS | KILLS, set_row_stage,
          test_deadlock_is_reported_with_what_is_left_of_the_transaction)
{
    struct worker workers[2] = {{.reversed = true}, {.reversed = true}};
    int told = g.side->fails_whole ? SQLOCK_ETXRESTART : SQLOCK_ETXGONE;

    run_workers(workers, 2);
    assert_true((workers[0].code == told && workers[1].code == 0) ||
                (workers[1].code == told && workers[0].code == 0));
}
