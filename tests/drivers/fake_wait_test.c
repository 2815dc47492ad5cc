/* P8 on the fake driver: how a wait ends for a lock that is simply held. */
#include "tests/drivers/fake_network.h"

#include "core/engine/manager.h"

/* P8: the room that is left for the last try is that of the answers as they are now. */
TEST(test_one_slow_answer_does_not_end_a_wait_early, a, b)
{
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_acquire_opts o = wait_opts(2000, 0, SQLOCK_NO_RENEW);
    int64_t begun = now_us();

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 1, 700);
    says(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &said));
    assert_between(1950000, now_us() - begun, INT64_MAX);
    give(lock);
}

/* Each answer takes a tenth of a second. The wait ends when its time is over, and has been told of
 * the holder: a try that would be answered later than that is not made. */
TEST(test_try_that_cannot_be_answered_in_time_is_not_made, a, b)
{
    sqlock_holder h = {.size = sizeof h};
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, ALWAYS, 100);
    o.holder = &h;
    for (o.wait_ms = 200; o.wait_ms < 500; o.wait_ms += 50) {
        int64_t begun = now_us();

        h.token = 0;
        says(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &said));
        assert_between((o.wait_ms - 2) * INT64_C(1000), now_us() - begun,
                       (o.wait_ms + late_ms(100)) * INT64_C(1000));
        assert_int_equal(h.token, sqlock_lock_token(lock));
    }
    give(lock);
}

/* The driver, with rows that some transaction has locked: acquires step over them. */
static int32_t locked_ms; /* that each answer takes */

static int run_locked(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                      const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                      sqlock_error *err)
{
    if (stmt != SQLOCK_STMT_ACQUIRE && stmt != SQLOCK_STMT_GUARDED)
        return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    sleep_ms(locked_ms);
    return spy_answer(rows, 0, SQLOCK_OUT_SKIPPED);
}

/* By whom nobody can see; but also that is an answer when time is up. */
TEST(test_wait_for_a_row_that_is_locked_ends_as_busy)
{
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock_lock *none = NULL;
    sqlock *m;

    w->driver.run = run_locked;
    m = open_changed(w, 5000);
    for (locked_ms = 0; locked_ms <= 20; locked_ms += 10)
        for (o.wait_ms = 25; o.wait_ms < 150; o.wait_ms += 9)
            says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &none, &said));
}

static bool rows_are_locked;

static int run_waits_too_long(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                              const sqlock_value *values, size_t n, int64_t deadline,
                              sqlock_rows *rows, sqlock_error *err)
{
    if (!rows_are_locked || (stmt != SQLOCK_STMT_ACQUIRE && stmt != SQLOCK_STMT_RELEASE))
        return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    return sqlock_error_db(err, "55P03", 1205, 0, "waited too long for a row");
}

/* On a server that is no guard. Whoever wants something else than the lock learns that nothing was
 * done. */
TEST(test_lock_whose_row_is_locked_too_long_is_busy_and_not_guarded)
{
    sqlock_acquire_opts o = wait_opts(40, 0, SQLOCK_NO_RENEW);
    sqlock_lock *held, *none = NULL;
    sqlock_holder holder = {.size = sizeof holder, .token = 7};
    sqlock *m;

    w->driver.run = run_waits_too_long;
    m = open_changed(w, 200);
    held = take_for(m, "held", 0, SQLOCK_NO_RENEW);
    o.holder = &holder;
    rows_are_locked = true;
    says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &none, &said));
    assert_int_equal(holder.token, 0);
    assert_string_equal(said.sqlstate, "55P03");
    says(SQLOCK_ETIMEOUT, sqlock_release(held, &said));
    assert_string_equal(said.sqlstate, "55P03");
    rows_are_locked = false;
    give(held);
}

/* The driver, with a failure that it got over: a statement waited too long for a row, and the next
 * one found out that the request is late. */
static int run_late(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                    const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                    sqlock_error *err)
{
    if (stmt != SQLOCK_STMT_ACQUIRE)
        return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    sleep_ms(1);
    sqlock_error_db(err, "55P03", 1205, 0, "waited too long for a row");
    return spy_answer(rows, 0, SQLOCK_OUT_LATE);
}

/* P18: that is not why the wait ended. */
TEST(test_failure_that_the_driver_got_over_is_not_reported)
{
    sqlock_acquire_opts o = wait_opts(50, 0, SQLOCK_NO_RENEW);
    sqlock_lock *none = NULL;
    sqlock *m;

    w->driver.run = run_late;
    m = open_changed(w, 5000);
    says(SQLOCK_ETIMEOUT, sqlock_acquire(m, "nightly", &o, &none, &said));
}

/* The one connection of the calls is kept by a request that the server does not answer. That the
 * others hear nothing is not the database's silence. */
TEST(test_who_gets_no_connection_in_time_learns_it, m)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;
    sqlock_op *stuck = NULL;
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    ok(sqlock_acquire_start(m, "stuck", &o, &stuck, &said));
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > runs, patience_ms(3000));
    for (o.wait_ms = 5; o.wait_ms < 200; o.wait_ms += 60) {
        says(SQLOCK_ETIMEOUT, sqlock_acquire(m, "nightly", &o, &lock, &said));
        assert_non_null(strstr(said.text, "in use (the option connections)"));
        assert_int_equal(said.flags, SQLOCK_RETRY);
    }
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), runs + 1);
    sqlock_op_cancel(stuck);
    says(SQLOCK_EUNSURE, sqlock_op_finish(stuck, &lock, &said));
    drop(lock);
}

/* The same for one who has been told of a holder before: that stands. */
TEST(test_who_gets_no_connection_for_another_try_learns_of_the_holder, a, m)
{
    sqlock_lock *held = take(a, "nightly"), *other = take_for(m, "other", 0, SQLOCK_NO_RENEW);
    struct waiter t = {.m = m, .name = "nightly", .opts = wait_opts(400, 0, SQLOCK_NO_RENEW)};
    sqlock_op *stuck = NULL;
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    wait_start(&t);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > runs, patience_ms(3000));
    stall(w, SQLOCK_STMT_RENEW, 1, 20000);
    ok(sqlock_renew_start(other, &stuck, &said));
    pthread_join(t.thread, NULL);
    assert_code(SQLOCK_EBUSY, t.code, &t.err);
    sqlock_op_cancel(stuck);
    assert_int_not_equal(sqlock_op_finish(stuck, NULL, NULL), 0);
    give(other);
    give(held);
}

/* The driver, with openings that take all of the time they have. */
static int slow_openings; /* so many of them */

static int open_slowly(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                       sqlock_error *err)
{
    int rc = spied_driver()->open(opts, deadline, out_conn, err);

    while (slow_openings > 0 && sqlock_now_us() < deadline)
        sleep_ms(1);
    slow_openings -= slow_openings > 0;
    return rc;
}

/* An attempt ends with request_ms, and the wait makes another one. */
TEST(test_opening_that_takes_an_attempts_time_does_not_end_the_wait)
{
    sqlock *m;

    w->driver.open = open_slowly;
    m = open_changed(w, 100);
    cut_links(w);
    slow_openings = 2;
    give(take(m, "nightly"));
    assert_int_equal(slow_openings, 0);
}

/* Its place is still to be taken out of the queue, behind another one. */
TEST(test_P1_owner_that_comes_back_before_it_has_left_keeps_its_grant, m, other)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    sqlock_acquire_opts again = wait_opts(10000, 0, SQLOCK_NO_RENEW), waits = wait_opts(60, 0, 0);
    sqlock_lock *first = take(other, "busy"), *lock = take(other, "nightly"), *mine = NULL;
    static struct waiter back; /* on a thread of its own: the worker is busy with the first */
    long queued;

    fault(w, SQLOCK_STMT_LEAVE, SQLOCK_FAULT_SLOW, 1, 300);
    says(SQLOCK_EBUSY, sqlock_acquire(m, "busy", &waits, &mine, &said));
    again.owner = waits.owner = owner;
    says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &waits, &mine, &said));
    queued = spy_runs(SQLOCK_STMT_QUEUE);
    back = (struct waiter){.m = m, .name = "nightly", .opts = again};
    wait_start(&back);
    assert_soon(spy_runs(SQLOCK_STMT_QUEUE) > queued, patience_ms(5000));
    sleep_ms(20);
    give(lock);
    pthread_join(back.thread, NULL);
    assert_ok(back.code, &back.err);
    sleep_ms(400);
    says(SQLOCK_EBUSY, try_once(other, "nightly"));
    give(keep(back.lock));
    give(first);
}

/* Its next wait is shorter than the time that this takes. */
TEST(test_P8_owner_that_comes_back_before_it_has_left_waits_no_longer_than_it_may, m, other)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    sqlock_acquire_opts waits = wait_opts(60, 0, 0);
    sqlock_lock *lock = take(other, "nightly"), *mine = NULL;

    waits.owner = owner;
    fault(w, SQLOCK_STMT_LEAVE, SQLOCK_FAULT_SLOW, 1, 400);
    says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &waits, &mine, &said));
    sleep_ms(20);
    assert_takes(50, patience_ms(400),
                 says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &waits, &mine, &said)));
    give(lock);
}

/* The request that takes its place out of the queue is lost, and so is the next one. The server
 * runs both later. Until their time is up, the owner's next wait has no place. If they come in
 * time, they take only the old one out. */
TEST(test_P1_leave_that_comes_late_does_not_end_the_owners_next_grant, m, other)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    sqlock_acquire_opts again = wait_opts(10000, 0, SQLOCK_NO_RENEW), waits = wait_opts(150, 0, 0);
    const int late_ms[] = {1000, 300, 1000, 400};
    int granted = 0;

    again.owner = waits.owner = owner;
    for (int i = 0; i < 4; i++) {
        sqlock_lock *lock = take(i < 2 ? m : other, "nightly"), *mine = NULL;
        sqlock_op *op = NULL;
        int64_t begun = now_us();

        owner[0] = (unsigned char)i;
        fault(w, SQLOCK_STMT_LEAVE, SQLOCK_FAULT_LATE, 2, late_ms[i]);
        says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &waits, &mine, &said));
        sleep_ms(50); /* both are sent */
        ok(sqlock_acquire_start(m, "nightly", &again, &op, &said));
        if (i >= 2)
            assert_soon(sqlock_op_place(op) == 1, patience_ms(5000));
        give(lock);
        if (sqlock_op_finish(op, &mine, &said) != 0) {
            assert_int_equal(said.code, SQLOCK_ELOST);
            continue;
        }
        granted++;
        while (now_us() < begun + (late_ms[i] + 400) * INT64_C(1000))
            sleep_ms(10);
        says(SQLOCK_EBUSY, try_once(other, "nightly"));
        give(keep(mine));
    }
    assert_true(granted > 0);
}

/* ---- in the queue ---------------------------------------------------------------------------- */

static bool someone_waits_alone(sqlock *m)
{
    bool alone;

    mutex_lock(&m->mu);
    alone = !list_is_empty(&m->queue.alone);
    mutex_unlock(&m->mu);
    return alone;
}

/* No one of them passes the lock on to the next: each needs a place, and not only after a while. */
TEST(test_P21_shared_waiters_of_one_manager_queue_at_once, m, other)
{
    sqlock_lock *lock = take(other, "nightly");
    struct waiter t[3];

    for (int i = 0; i < 3; i++) {
        long queued = spy_runs(SQLOCK_STMT_QUEUE);

        t[i] = (struct waiter){.m = m, .name = "nightly", .opts = wait_opts(60000, 0, 0)};
        t[i].opts.mode = SQLOCK_SHARED;
        wait_start(&t[i]);
        while (spy_runs(SQLOCK_STMT_QUEUE) == queued)
            assert_false(someone_waits_alone(m));
    }
    give(lock);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i].thread, NULL);
        assert_ok(t[i].code, &t[i].err);
    }
    for (int i = 0; i < 3; i++)
        give(t[i].lock);
}

/* The first drain meets one who has just changed the row. */
static struct skipped {
    atomic_int drains;
    atomic_long queued; /* before the second drain */
} skipped;

static int run_skipped(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                       const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                       sqlock_error *err)
{
    int drains = stmt == SQLOCK_STMT_DRAIN ? atomic_fetch_add(&skipped.drains, 1) : -1;

    if (drains == 0)
        return spy_answer(rows, 0, SQLOCK_OUT_SKIPPED);
    if (drains == 1)
        atomic_store(&skipped.queued, spy_runs(SQLOCK_STMT_QUEUE));
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

TEST(test_P21_who_wants_the_lock_alone_queues_if_shared_holders_keep_changing_it)
{
    sqlock_acquire_opts shared = wait_opts(0, 60000, SQLOCK_NO_RENEW), alone = wait_opts(300, 0, 0);
    sqlock_lock *reader, *none = NULL;
    sqlock *m, *other;
    long queued;

    memset(&skipped, 0, sizeof skipped);
    w->driver.run = run_skipped;
    m = open_changed(w, 5000);
    other = open_manager(w, NULL);
    shared.mode = SQLOCK_SHARED;
    reader = take_with(other, "nightly", &shared);
    queued = spy_runs(SQLOCK_STMT_QUEUE);
    says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &alone, &none, &said));
    assert_true(atomic_load(&skipped.drains) >= 2);
    assert_true(atomic_load(&skipped.queued) > queued);
    give(reader);
}

TEST_MAIN_ON(fake)
