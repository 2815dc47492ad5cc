/* P22: a waiter is called while its manager is busy with other things. */
#define SUITE_NEEDS QUEUES
#include "tests/drivers/suite.h"

#include <stdio.h>

#include <sqlock/async.h>
#include <sqlock/register.h>

/* LENT_MS: a release waits for so long before it borrows the connection. */
enum { LENT_MS = 100, BUSY_MS = 600, CALLED_MS = 120 };

enum busy { ASKED, IN_USE, MAY_END };
static atomic_int busy_is;

/* In use until the test says so, as long as a release that comes late may take to begin. A manager
 * without threads does nothing else meanwhile. */
static int run_get_slowly(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                          const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                          sqlock_error *err)
{
    if (stmt == SQLOCK_STMT_REGISTER_GET) {
        atomic_store(&busy_is, IN_USE);
        for (int64_t end = now_us() + BUSY_MS * 1000; now_us() < end;)
            if (atomic_load(&busy_is) == MAY_END)
                break;
            else
                sleep_ms(1);
    }
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

/* One connection for calls, and the reserved one, which listens. */
static sqlock *open_narrow(struct world *w)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    w->driver.run = run_get_slowly;
    o.connections = 2;
    place_opts(w, &o);
    ok(open_by(&w->driver, w->place.url, &o, &m, &said));
    w->managers[w->n_managers++] = m;
    return m;
}

static void *get_slowly(void *m)
{
    size_t len = 0;
    int64_t version = 0;

    return sqlock_register_get(m, "r", NULL, 0, &len, &version, NULL) == 0 ? m : NULL;
}

/* A release borrows the connection that listens, because all others have been in use for a while.
 */
TEST(test_P22_waiter_is_called_though_its_connection_was_lent, b)
{
    sqlock *a = open_narrow(w);
    sqlock_lock *lock = take(b, "nightly"), *other = take(a, "other"), *granted = NULL;
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_op *op = NULL;
    pthread_t busy;

    ok(sqlock_acquire_start(a, "nightly", &o, &op, &said));
    assert_soon(sqlock_op_place(op) == 1, patience_ms(5000));
    sleep_ms(200); /* it listens */
    atomic_store(&busy_is, ASKED);
    assert_int_equal(pthread_create(&busy, NULL, get_slowly, a), 0);
    assert_soon(atomic_load(&busy_is) == IN_USE, patience_ms(5000));
    late_begin();
    assert_takes(LENT_MS - 10, late_ms(BUSY_MS + LENT_MS), give(other));
    atomic_store(&busy_is, MAY_END);
    assert_takes(0, late_ms(CALLED_MS), give(lock); ok(sqlock_op_finish(op, &granted, &said)));
    give(granted);
    pthread_join(busy, NULL);
}

enum { CROWD = 4 };

static struct crowd {
    sqlock *m;
    atomic_int ends;
} crowd;

/* The worker drives these, one after the other. */
static void *keep_worker_busy(void *name)
{
    sqlock_error err;

    while (!atomic_load(&crowd.ends)) {
        sqlock_lock *lock = NULL;
        sqlock_op *op = NULL;

        if (sqlock_acquire_start(crowd.m, name, NULL, &op, &err) != 0 ||
            sqlock_op_finish(op, &lock, &err) != 0 || sqlock_release_start(lock, &op, &err) != 0 ||
            sqlock_op_finish(op, NULL, &err) != 0)
            return NULL;
        sqlock_lock_free(lock);
    }
    return crowd.m;
}

TEST(test_P22_waiter_is_called_while_others_keep_its_worker_busy, a, b)
{
    static char names[CROWD][8];
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    pthread_t threads[CROWD];
    void *all_well;

    crowd.m = b;
    atomic_store(&crowd.ends, 0);
    for (int i = 0; i < CROWD; i++) {
        snprintf(names[i], sizeof names[i], "busy %d", i);
        assert_int_equal(pthread_create(&threads[i], NULL, keep_worker_busy, names[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        sqlock_lock *lock = take(a, "nightly"), *granted = NULL;
        sqlock_op *op = NULL;

        ok(sqlock_acquire_start(b, "nightly", &o, &op, &said));
        assert_soon(sqlock_op_place(op) == 1, patience_ms(5000));
        sleep_ms(100); /* of the second until the next beat */
        late_begin();
        assert_takes(0, late_ms(CALLED_MS), give(lock); ok(sqlock_op_finish(op, &granted, &said)));
        give(granted);
    }
    atomic_store(&crowd.ends, 1);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(threads[i], &all_well);
        assert_non_null(all_well);
    }
}

static atomic_int tried;

static int listen_too_late_at_first(void *conn, const unsigned char client[SQLOCK_OWNER_SIZE],
                                    int64_t deadline, sqlock_error *err)
{
    if (atomic_fetch_add(&tried, 1) == 0)
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, 0, "no time left to send the request");
    return spied_driver()->listen(conn, client, deadline, err);
}

/* As if its process had been stopped while it began to listen. Else it would look for the rest of
 * its life, as a manager does whose database notifies no one. */
TEST(test_P22_manager_that_had_no_time_to_listen_listens_later, a)
{
    const int tries = spied_driver()->caps & SQLOCK_CAP_HEARS ? 2 : 0;
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *granted = NULL;
    sqlock_op *op = NULL;
    sqlock *b;

    atomic_store(&tried, 0);
    w->driver.listen = listen_too_late_at_first;
    b = open_changed(w, 10000);
    ok(sqlock_acquire_start(b, "nightly", &o, &op, &said));
    assert_soon(atomic_load(&tried) >= tries, patience_ms(5000));
    give(lock);
    ok(sqlock_op_finish(op, &granted, &said));
    give(granted);
}

static atomic_int opened;

static int open_but_one(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                        sqlock_error *err)
{
    if (atomic_fetch_add(&opened, 1) > 0)
        return sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RETRY, "too many clients");
    return spied_driver()->open(opts, deadline, out_conn, err);
}

/* The server has no connection left to listen on. Its waiters look, and each look gave the
 * connection back that it had used, as if that were the one to listen on. */
TEST(test_P22_manager_that_finds_no_connection_to_listen_on_does_not_ask_for_one_at_each_look, a)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *granted = NULL;
    sqlock_op *op = NULL;
    sqlock *b;

    atomic_store(&opened, 0);
    w->driver.open = open_but_one;
    b = open_changed(w, 10000);
    ok(sqlock_acquire_start(b, "nightly", &o, &op, &said));
    assert_soon(sqlock_op_place(op) == 1, patience_ms(5000));
    sleep_ms(1500);
    assert_between(0, atomic_load(&opened), 10);
    give(lock);
    ok(sqlock_op_finish(op, &granted, &said));
    give(granted);
}
