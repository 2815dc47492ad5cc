/* P21, P23: waiters that are gone delay no one, and those that are not gone are not passed over. */
#define SUITE_NEEDS QUEUES
#include <unistd.h>

#include "tests/drivers/suite_gone.h"
#include "tests/drivers/suite_queue.h"

/* As after a failover that has lost the request by which one left: its client does not know of it.
 * The waiter itself is out of the queue, and comes again behind it. */
TEST_IF(SQL, test_P23_place_that_no_one_knows_of_is_given_up, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    struct waiter t;
    int64_t released;

    queue_up(&t, b, 60000);
    run_past(w, "UPDATE {waiter} SET owner = client");
    sleep_ms(2500); /* two beats */
    released = now_us();
    give(lock);
    served(&t);
    assert_between(0, t.ended_us - released, (OFFER_MS - 300) * INT64_C(1000));
    give(t.lock);
}

/* The lock is offered to one of those who leave, and from it to another one. The last of them calls
 * who stays. */
TEST(test_P8_many_who_leave_at_once_keep_no_one_out, m, other)
{
    enum { MANY = 30 };
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    sqlock_lock *lock = take(other, "nightly"), *none = NULL;
    sqlock_op *ops[MANY];

    for (int i = 0; i < MANY; i++)
        ok(sqlock_acquire_start(m, "nightly", &o, &ops[i], &said));
    for (int i = 0; i < MANY; i++)
        assert_soon(sqlock_op_place(ops[i]) > 0, patience_ms(5000));
    for (int i = 0; i < MANY; i++)
        sqlock_op_cancel(ops[i]);
    give(lock);
    assert_takes(0, patience_ms(700), ok(sqlock_acquire(other, "nightly", &o, &lock, &said)));
    for (int i = 0; i < MANY; i++)
        says(SQLOCK_ECANCELLED, sqlock_op_finish(ops[i], &none, &said));
    give(keep(lock));
}

/* They are in the queue until the database takes their client for dead: it says so itself. */
TEST(test_P8_requests_of_a_closed_manager_keep_no_one_out, m)
{
    enum { FEW = 3 };
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    sqlock_lock *lock = take(m, "nightly"), *none = NULL;
    sqlock *ends = open_manager(w, NULL);
    sqlock_op *ops[FEW];

    for (int i = 0; i < FEW; i++)
        ok(sqlock_acquire_start(ends, "nightly", &o, &ops[i], &said));
    for (int i = 0; i < FEW; i++)
        assert_soon(sqlock_op_place(ops[i]) > 0, patience_ms(5000));
    close_manager(w, ends);
    give(lock);
    assert_takes(0, patience_ms(500), ok(sqlock_acquire(m, "nightly", &o, &lock, &said)));
    for (int i = 0; i < FEW; i++)
        says(SQLOCK_ECANCELLED, sqlock_op_finish(ops[i], &none, &said));
    give(keep(lock));
}

static int run_and_answer_late(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                               const sqlock_value *values, size_t n, int64_t deadline,
                               sqlock_rows *rows, sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    sleep_ms(60);
    return rc;
}

/* It has no place, and the answer comes while its manager is being closed. Returns how long others
 * are kept out. */
static int64_t grant_while_closing(struct world *w, sqlock *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 5000, 0);
    sqlock *ends = open_changed(w, 5000);
    sqlock_lock *lock = NULL, *late = NULL;
    sqlock_op *op;
    int64_t closed;

    ok(sqlock_acquire_start(ends, "nightly", &o, &op, &said));
    assert_soon(try_once(m, "nightly") == SQLOCK_EBUSY, patience_ms(1000));
    close_manager(w, ends);
    closed = now_us();
    ok(sqlock_acquire(m, "nightly", &o, &lock, &said));
    closed = now_us() - closed;
    if (sqlock_op_finish(op, &late, &said) == SQLOCK_OK)
        assert_state(SQLOCK_LOST, late);
    drop(late);
    give(keep(lock));
    return closed;
}

/* A close takes 0.25 s at most, which a busy machine may need for something else. */
TEST(test_P8_grant_to_a_manager_that_closes_keeps_no_one_out, m)
{
    int tries = 0;

    w->driver.run = run_and_answer_late;
    while (grant_while_closing(w, m) > 1000000)
        assert_between(0, ++tries, 2);
}

/* It ends its wait, and asks again while its place is being taken out of the queue. */
TEST(test_P1_owner_that_comes_back_keeps_what_it_is_granted, m, other)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    sqlock_acquire_opts once = wait_opts(0, 0, SQLOCK_NO_RENEW), waits = wait_opts(60, 0, 0);
    int granted = 0;

    once.owner = waits.owner = owner;
    for (int i = 0; i < 30; i++) {
        sqlock_lock *lock = take(other, "nightly"), *mine = NULL;

        owner[0] = (unsigned char)i;
        /* On a busy machine so short a wait may end before its answer comes. */
        if (sqlock_acquire(m, "nightly", &waits, &mine, &said) != SQLOCK_EBUSY) {
            assert_true(said.code == SQLOCK_EUNSURE || said.code == SQLOCK_EUNREACH ||
                        said.code == SQLOCK_ETIMEOUT);
            drop(mine);
            give(lock);
            continue;
        }
        give(lock);
        if (sqlock_acquire(m, "nightly", &once, &mine, &said) != 0) {
            assert_true(said.code == SQLOCK_EBUSY || said.code == SQLOCK_ELOST);
            drop(mine);
            continue;
        }
        granted++;
        sleep_ms(20);
        says(SQLOCK_EBUSY, try_once(other, "nightly"));
        give(mine);
    }
    assert_true(granted > 0);
}

/* Its place in the queue of one manager ends, while another one has been granted the lock by its
 * name: that grant is not the place's. */
TEST(test_P1_owner_that_has_the_lock_elsewhere_keeps_it_when_its_wait_ends, m, other)
{
    sqlock *third = open_manager(w, NULL);
    unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    sqlock_acquire_opts once = wait_opts(0, 0, SQLOCK_NO_RENEW), waits = wait_opts(400, 0, 0);
    sqlock_lock *lock = take(other, "nightly"), *none = NULL, *mine = NULL;
    long left;

    once.owner = waits.owner = owner;
    spy_hold_back(SQLOCK_STMT_LEAVE, INT32_MAX);
    says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &waits, &none, &said));
    give(lock); /* to its place, which is to leave */
    ok(sqlock_acquire(third, "nightly", &once, &mine, &said));
    left = spy_runs(SQLOCK_STMT_LEAVE);
    spy_arrive(0);
    assert_soon(spy_runs(SQLOCK_STMT_LEAVE) > left, patience_ms(5000));
    sleep_ms(100);
    says(SQLOCK_EBUSY, try_once(other, "nightly"));
    ok(sqlock_renew(mine, &said));
    give(mine);
}

/* One owner waits for two names, and a lock of this manager is passed on: to the wait for it. */
TEST(test_P1_owner_that_waits_for_two_names_is_granted_the_one_that_is_free, m, other)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    const char *const names[] = {"a", "b"};
    sqlock_acquire_opts waits = wait_opts(patience_ms(5000), 0, 0);

    waits.owner = owner;
    for (int first = 0; first < 2; first++) {
        sqlock_lock *here = take(m, "a"), *there = take(other, "b"), *got = NULL;
        sqlock_op *ops[2];

        owner[0] = (unsigned char)first;
        for (int i = 0; i < 2; i++) {
            const int k = first ^ i;

            ok(sqlock_acquire_start(m, names[k], &waits, &ops[k], &said));
            assert_soon(sqlock_op_place(ops[k]) == 1, patience_ms(5000));
        }
        give(here);
        ok(sqlock_op_finish(ops[0], &got, &said));
        assert_string_equal(sqlock_lock_name(got), "a");
        sleep_ms(50);
        assert_int_equal(sqlock_op_place(ops[1]), 1);
        give(keep(got));
        give(there);
        ok(sqlock_op_finish(ops[1], &got, &said));
        give(keep(got));
    }
}

static int wait_behind(sqlock *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    sqlock_lock *lock = NULL;

    return -sqlock_acquire(m, "nightly", &o, &lock, &said);
}

enum { CROWD = 100 };

static int wait_as_crowd(sqlock *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);

    for (int i = 0; i < CROWD; i++) {
        sqlock_op *op;

        ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    }
    return pause();
}

/* The holder releases the lock, or it is broken. The child has n places. */
static void lose_the_first_in_line(struct world *w, int (*waits)(sqlock *m), int n, int signal,
                                   bool broken)
{
    sqlock_lock *lock;
    int64_t released;
    struct waiter t;
    pid_t first;
    sqlock *m;

    first = child_to_wait(w, waits);
    m = open_manager(w, NULL);
    lock = take(m, "nightly");
    child_goes();
    assert_soon(n_waiting_for(m, "nightly") == n, patience_ms(10000));
    sleep_ms(500);
    queue_up(&t, open_manager(w, NULL), 60000);
    end_between_transactions(w, first, signal);
    released = now_us();
    if (broken)
        ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    else
        give(lock);
    served(&t);
    assert_between(0, t.ended_us - released, patience_ms(OFFER_MS + 1500) * INT64_C(1000));
    give(t.lock);
    if (broken)
        drop(lock);
    child_ends(first);
}

TEST_IF(PROCESSES | FORKS, test_P23_killed_waiter_costs_one_offer)
{
    lose_the_first_in_line(w, wait_behind, 1, SIGKILL, false);
}

TEST_IF(PROCESSES | FORKS, test_P23_stopped_waiter_costs_one_offer)
{
    lose_the_first_in_line(w, wait_behind, 1, SIGSTOP, false);
}

/* Who is behind is the first of its own manager's, and looks soon after the offer has run out. */
TEST_IF(PROCESSES | FORKS, test_P23_stopped_program_with_many_waiters_costs_one_offer)
{
    lose_the_first_in_line(w, wait_as_crowd, CROWD, SIGSTOP, false);
}

/* No one offers the lock then: who is behind finds out at its next beat. */
TEST_IF(PROCESSES | FORKS, test_P23_stopped_waiter_costs_one_offer_and_a_beat_after_a_break)
{
    lose_the_first_in_line(w, wait_behind, 1, SIGSTOP, true);
}

static const unsigned char known_owner[SQLOCK_OWNER_SIZE] = "an owner of mine";

static int wait_with_owner(sqlock *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    sqlock_lock *lock = NULL;

    o.owner = known_owner;
    return -sqlock_acquire(m, "nightly", &o, &lock, &said);
}

static int find_again(const sqlock_waiter *waiter, void *found)
{
    if (strstr(waiter->label, "again") != NULL)
        *(int64_t *)found = waiter->place;
    return 0;
}

/* Its place, as its own program has it: not as one that died. */
static int64_t place_of_again(sqlock *m)
{
    int64_t found = 0;

    ok(sqlock_list_waiters(m, "nightly", find_again, &found, &said));
    return found;
}

/* Its program died while it waited, and was started again. It waits with the same owner, and
 * another one comes behind it. */
TEST_IF(PROCESSES | FORKS, test_P21_owner_that_comes_back_keeps_its_place)
{
    static struct waiter again, behind; /* their threads still write to them if this fails */
    sqlock_lock *lock;
    int64_t released;
    pid_t first;
    sqlock *m;

    first = child_to_wait(w, wait_with_owner);
    m = open_manager(w, NULL);
    lock = take(m, "nightly");
    child_goes();
    assert_soon(n_waiting_for(m, "nightly") == 1, patience_ms(5000));
    end_between_transactions(w, first, SIGKILL);
    child_wait(first, patience_ms(5000));
    again = (struct waiter){.m = open_manager(w, NULL), .name = "nightly"};
    again.opts = wait_opts(60000, 0, 0);
    again.opts.owner = known_owner;
    again.opts.label = "again";
    wait_start(&again);
    sleep_ms(100); /* MariaDB and a file do not know yet that the first one is dead */
    queue_up(&behind, open_manager(w, NULL), 60000);
    assert_soon(place_of_again(m) == 1, patience_ms(6000));
    assert_int_equal(n_waiting_for(m, "nightly"), 2);
    released = now_us();
    give(lock);
    served(&again);
    assert_between(0, again.ended_us - released, (OFFER_MS - 300) * INT64_C(1000));
    assert_int_equal(atomic_load(&behind.ended), 0);
    give(again.lock);
    served(&behind);
    give(behind.lock);
}

static atomic_bool cut;
static atomic_int cut_beats;

static int run_no_beat(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                       const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                       sqlock_error *err)
{
    if (stmt == SQLOCK_STMT_BEAT && atomic_load(&cut)) {
        atomic_fetch_add(&cut_beats, 1);
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RECONNECT | SQLOCK_RETRY, "too slow");
    }
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

/* The machine is slow: a beat on the connection that listens ran into its time limit, which ends
 * the connection. Its session's end is not the client's. */
TEST(test_P21_slow_client_that_ends_its_connection_is_not_overtaken, a)
{
    sqlock_lock *lock = take(a, "nightly");
    static struct waiter t; /* its thread still writes to it if this fails */
    sqlock *b;

    atomic_store(&cut, false);
    atomic_store(&cut_beats, 0);
    w->driver.run = run_no_beat;
    b = open_changed(w, 10000);
    queue_up(&t, b, 60000);
    sleep_ms(300); /* it listens, and has beaten as the one that does */
    atomic_store(&cut, true);
    assert_soon(atomic_load(&cut_beats) > 0, patience_ms(3000));
    sleep_ms(50); /* the connection is gone, and the database takes the client for alive */
    give(lock);
    assert_int_equal(try_once(a, "nightly"), SQLOCK_EBUSY);
    atomic_store(&cut, false);
    served(&t);
    give(t.lock);
}
