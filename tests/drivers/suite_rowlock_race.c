/* P12: many who want the same rows at once. */
#include "tests/drivers/suite_rowlock.h"

enum { WORKERS = 3, ROUNDS = 15 };

struct worker {
    void *app;
    sqlock_conn *conn;
    bool locks, reversed;
    int number, code;
    sqlock_error err;
};

/* Read, think, write: what the lock is for. */
static int count_once(struct worker *w)
{
    sqlock_row_opts o = row_opts(0, SQLOCK_WAIT_FOREVER);
    char update[96];
    int64_t n;

    if (!g.side->exec(w->app, g.side->begins[0]))
        return -100;
    if (w->locks && sqlock_row_lock(w->conn, ROW("app_row", 1), 1, &o, &w->err) != 0)
        return w->err.code;
    n = app_number(w->app, "SELECT n FROM app_row WHERE id = 1");
    sleep_ms(2);
    snprintf(update, sizeof update, "UPDATE app_row SET n = %lld WHERE id = 1", (long long)(n + 1));
    if (!g.side->exec(w->app, update)) {
        g.side->exec(w->app, "ROLLBACK");
        return 1;
    }
    return g.side->exec(w->app, "COMMIT") ? 0 : -101;
}

static void *count_up(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS && w->code >= 0; i++)
        w->code = count_once(w);
    return NULL;
}

static void run_workers(struct worker *workers, int n, void *(*body)(void *))
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
    run_threads((size_t)n, workers, sizeof *workers, body);
}

TEST_AFTER(set_row_stage, test_no_update_is_lost_under_the_lock)
{
    struct worker workers[WORKERS] = {{.locks = true}, {.locks = true}, {.locks = true}};

    run_workers(workers, WORKERS, count_up);
    for (int i = 0; i < WORKERS; i++)
        assert_ok(workers[i].code, &workers[i].err);
    assert_int_equal(seen_by(g.app), 10 + WORKERS * ROUNDS);
}

/* The twin: it would not have been so by itself. */
TEST_AFTER(set_row_stage, test_updates_are_lost_or_refused_without_it)
{
    struct worker workers[WORKERS] = {{.locks = false}, {.locks = false}, {.locks = false}};

    run_workers(workers, WORKERS, count_up);
    assert_true(seen_by(g.app) < 10 + WORKERS * ROUNDS);
}

/* Both rows in one call, in the order that the worker has; the twin locks them in two calls. */
static int lock_pair(struct worker *w)
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

static void *lock_pairs(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < (w->reversed ? 1 : ROUNDS) && w->code == 0; i++) {
        if (!g.side->exec(w->app, g.side->begins[0])) {
            w->code = -100;
            break;
        }
        w->code = lock_pair(w);
        g.side->exec(w->app, "ROLLBACK");
    }
    return NULL;
}

TEST_AFTER(set_row_stage, test_many_rows_of_one_call_do_not_deadlock)
{
    struct worker workers[WORKERS] = {{.code = 0}};

    run_workers(workers, WORKERS, lock_pairs);
    for (int i = 0; i < WORKERS; i++)
        assert_ok(workers[i].code, &workers[i].err);
}

/* The twin; and what a deadlock is told as, with the transaction as the code says. */
TEST_WITH(GUARDS | KILLS, set_row_stage, test_deadlock_is_told_with_what_is_left_of_the_transaction)
{
    struct worker workers[2] = {{.reversed = true}, {.reversed = true}};
    int told = g.side->fails_whole ? SQLOCK_ETXRESTART : SQLOCK_ETXGONE;

    run_workers(workers, 2, lock_pairs);
    assert_true((workers[0].code == told && workers[1].code == 0) ||
                (workers[1].code == told && workers[0].code == 0));
}
