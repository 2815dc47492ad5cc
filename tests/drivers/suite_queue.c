/* P21, P22: waiters are served in order, and called at once. */
#define SUITE_NEEDS QUEUES
#include "tests/drivers/suite_queue.h"
#include "tests/drivers/suite_in_transaction.h"

enum { MANY = 6 };

/* Each of another manager: within one a pass may come first. */
TEST(test_P21_waiters_are_served_in_the_order_of_their_arrival, a)
{
    sqlock_lock *lock = take(a, "nightly");
    struct waiter t[MANY];
    int64_t last = sqlock_lock_token(lock);

    for (int i = 0; i < MANY; i++)
        queue_up(&t[i], open_manager(w, NULL), 60000);
    give(lock);
    for (int i = 0; i < MANY; i++) {
        served(&t[i]);
        assert_true(sqlock_lock_token(t[i].lock) > last);
        last = sqlock_lock_token(t[i].lock);
        for (int later = i + 1; later < MANY; later++)
            assert_int_equal(atomic_load(&t[later].ended), 0);
        give(t[i].lock);
    }
}

TEST(test_P21_try_does_not_overtake_a_waiter, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    struct waiter t;

    queue_up(&t, b, 60000);
    give(lock);
    assert_int_equal(try_once(a, "nightly"), SQLOCK_EBUSY); /* offered, or taken up */
    served(&t);
    give(t.lock);
    assert_true(is_free(a, "nightly"));
}

enum { NO_REPLY_LOST = -1, BROKEN = -2 };

/* From the release, or the break, to the grant of one that has waited for long. */
static int64_t hand_over(sqlock *a, sqlock *b, int lost)
{
    sqlock_lock *lock = take(a, "nightly");
    struct waiter t;
    int64_t released;

    queue_up(&t, b, 60000);
    sleep_ms(700);
    if (lost >= 0)
        spy_lose_reply((sqlock_stmt)lost);
    released = now_us();
    if (lost == BROKEN)
        ok(sqlock_break(a, "nightly", sqlock_lock_token(lock), &said));
    else
        give(lock);
    served(&t);
    give(t.lock);
    if (lost == BROKEN)
        drop(lock);
    return t.ended_us - released;
}

/* Again and again, until those that took no longer are four more than the others, or six less. A
 * waiter that is called is quick but for a machine that is busy. One that looks for itself, each
 * third of a second, is not quick twice as often as it is. */
static void hands_over_within(sqlock *a, sqlock *b, int lost, int64_t enough_us)
{
    int lead = 0;

    while (lead < 4 && lead > -6)
        lead += hand_over(a, b, lost) <= enough_us ? 1 : -1;
    assert_int_equal(lead, 4);
}

TEST(test_P22_release_calls_the_waiter_at_once, a, b)
{
    hands_over_within(a, b, NO_REPLY_LOST, 100000);
}

/* The release is sent again, and finds that it has passed the lock on. */
TEST(test_P22_release_whose_reply_was_lost_calls_the_waiter_too, a, b)
{
    hands_over_within(a, b, SQLOCK_STMT_RELEASE, 100000);
    hands_over_within(a, b, SQLOCK_STMT_PASS, 100000);
}

/* Its worker sleeps until a lease was to be renewed that was released since. That is before its
 * next beat, and in time for neither. */
TEST(test_P22_waiter_is_called_soon_after_it_has_held_the_lock_itself, a, b)
{
    int late = 0;

    for (int i = 0; i < 8; i++) {
        sqlock_lock *lock = take(a, "nightly");
        struct waiter t = {.m = b, .name = "nightly", .opts = wait_opts(60000, 2400, 0)};
        long before = spy_runs(SQLOCK_STMT_QUEUE);
        int64_t released;

        wait_start(&t);
        wait_queued(before, 1);
        released = now_us();
        give(lock);
        served(&t);
        late += t.ended_us - released > 400000;
        give(t.lock);
    }
    assert_between(0, late, 1); /* it would be each second or third time */
}

TEST(test_P22_break_calls_the_waiter_too, a, b)
{
    hands_over_within(a, b, BROKEN, 100000);
}

/* Nor does a waiter ask for its turn again and again, the first one or one behind it. */
TEST(test_P22_waiter_sends_nothing_but_a_beat, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    long acquires, queues;
    static struct waiter t[3]; /* their threads still write to them if this fails */

    queue_up(&t[0], b, 60000);
    queue_up_behind(&t[1], b, 60000, 300);
    queue_up_behind(&t[2], b, 60000, 300);
    acquires = spy_runs(SQLOCK_STMT_ACQUIRE);
    queues = spy_runs(SQLOCK_STMT_QUEUE);
    sleep_ms(2000);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), acquires);
    assert_int_equal(spy_runs(SQLOCK_STMT_QUEUE), queues);
    give(lock);
    for (int i = 0; i < 3; i++) {
        served(&t[i]);
        give(t[i].lock);
    }
}

/* QUEUE arrives late, and a beat that was sent behind it is executed before it, and answered after
 * it. */
static int run_as_if_far(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                         const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                         sqlock_error *err)
{
    int rc;

    if (stmt == SQLOCK_STMT_QUEUE)
        sleep_ms(100);
    rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    if (stmt == SQLOCK_STMT_BEAT)
        sleep_ms(250);
    return rc;
}

TEST(test_P22_beat_that_does_not_show_a_new_place_makes_no_waiter_look, a)
{
    sqlock_lock *lock = take(a, "nightly");
    static struct waiter t; /* its thread still writes to it if this fails */
    sqlock *b;

    w->driver.run = run_as_if_far;
    b = open_changed(w, 10000);
    queue_up(&t, b, 60000);
    sleep_ms(1000);
    assert_int_equal(spy_runs(SQLOCK_STMT_QUEUE), 1);
    give(lock);
    served(&t);
    give(t.lock);
}

/* It would write twice, and be offered the lock when it has gone. */
TEST(test_P22_waiter_of_a_moment_is_not_queued, a, b)
{
    sqlock_acquire_opts o = wait_opts(40, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *other = NULL;
    long queues = spy_runs(SQLOCK_STMT_QUEUE), leaves = spy_runs(SQLOCK_STMT_LEAVE);
    struct waiter t;

    says(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &other, &said));
    sleep_ms(200);
    assert_int_equal(spy_runs(SQLOCK_STMT_QUEUE), queues);
    assert_int_equal(spy_runs(SQLOCK_STMT_LEAVE), leaves);
    queue_up(&t, b, 60000);
    give(lock);
    says(SQLOCK_EBUSY, sqlock_acquire(a, "nightly", &o, &other, &said)); /* overtakes no one */
    served(&t);
    give(t.lock);
}

TEST(test_P8_waiter_that_gives_up_leaves_the_queue, a, b)
{
    sqlock *c = open_manager(w, NULL);
    sqlock_lock *lock = take(a, "nightly");
    struct waiter early, late;
    int64_t released;

    queue_up(&early, b, 900);
    queue_up(&late, c, 60000);
    pthread_join(early.thread, NULL);
    says(SQLOCK_EBUSY, early.code);
    assert_non_null(strstr(early.err.text, "place 1 in the queue"));
    sleep_ms(200);
    released = now_us();
    give(lock);
    served(&late);
    assert_between(0, late.ended_us - released, (OFFER_MS - 300) * INT64_C(1000));
    give(late.lock);
    assert_true(is_free(a, "nightly"));
}

static atomic_int left;

static int run_no_row_at_first(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                               const sqlock_value *values, size_t n, int64_t deadline,
                               sqlock_rows *rows, sqlock_error *err)
{
    if (stmt == SQLOCK_STMT_LEAVE && atomic_fetch_add(&left, 1) == 0)
        return 0;
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

/* As on MariaDB, where a deadlock or a wait that took too long ended the request's transaction. */
TEST(test_P8_waiter_whose_leave_found_no_row_leaves_again, a)
{
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_acquire_opts o = wait_opts(500, 0, 0);
    sqlock *b;

    atomic_store(&left, 0);
    w->driver.run = run_no_row_at_first;
    b = open_changed(w, 10000);
    says(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &said));
    assert_soon(n_waiting_for(a, "nightly") == 0, patience_ms(2000));
    give(lock);
}

TEST(test_P8_close_ends_the_wait, a)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock *b = NULL;
    struct waiter first, second;
    int64_t closed;

    ok(open_here(w, NULL, &b, &said));
    queue_up(&first, b, 60000);
    queue_up(&second, b, SQLOCK_WAIT_FOREVER);
    closed = now_us();
    close_here(b);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    says(SQLOCK_ECANCELLED, first.code);
    says(SQLOCK_ECANCELLED, second.code);
    assert_between(0, now_us() - closed, patience_ms(2000) * INT64_C(1000));
    give(lock);
}

TEST(test_P10_lease_that_runs_out_is_taken_over_by_the_next_in_line, a, b)
{
    sqlock_lock *lock = take_for(a, "nightly", 1500, SQLOCK_NO_RENEW);
    int64_t end = now_us() + 1500000;
    struct waiter first, second;

    queue_up(&first, b, 60000);
    queue_up(&second, a, 60000);
    served(&first);
    assert_between(end - 1500000, first.ended_us, end + late_ms(300) * INT64_C(1000));
    assert_int_equal(atomic_load(&second.ended), 0);
    give(first.lock);
    served(&second);
    give(second.lock);
    drop(lock);
}

/* P11: whoever is next is granted nothing while the former holder's transaction may still commit.
 * It looks for the end of that each 10 to 75 ms. */
static void wait_for_a_guard(struct world *w, sqlock *holder, sqlock *next)
{
    static struct waiter t; /* its thread still writes to it if this fails */
    sqlock_lock *lock;
    long looks;

    begin_app(w);
    lock = take(holder, "nightly");
    app_exec(g.app, g.side->begins[0]);
    ok(sqlock_guard(lock, adopted(holder, g.app), &said));
    queue_up(&t, next, 60000);
    if (sqlock_release(lock, &said) != 0) /* the waiter may be in the way of the look */
        assert_int_equal(said.code, SQLOCK_EGUARDED);
    sleep_ms(300);
    assert_int_equal(atomic_load(&t.ended), 0);
    looks = spy_runs(SQLOCK_STMT_QUEUE);
    sleep_ms(500);
    looks = spy_runs(SQLOCK_STMT_QUEUE) - looks;
    app_exec(g.app, "COMMIT");
    served(&t);
    give(t.lock);
    assert_between(0, looks, 50);
}

TEST_IF(GUARDS | MANY_WRITERS, test_P11_open_guard_keeps_the_lock_from_the_waiter, a, b)
{
    wait_for_a_guard(w, a, b);
}

/* It would not have to take up an offer. */
TEST_IF(GUARDS | MANY_WRITERS, test_P11_open_guard_keeps_the_lock_from_the_holders_own_waiter, a)
{
    wait_for_a_guard(w, a, a);
}
