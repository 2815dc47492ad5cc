/* Managers without threads: all happens in steps, and what needs none does not wait for one (P6,
 * P19). */
#include "tests/drivers/suite_stepped.h"

#include <dirent.h>

static int threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(test_manager_of_an_event_loop_starts_no_thread)
{
    int before = threads();
    static struct told t;
    sqlock_acquire_opts o = reported_opts(&t, 600, 0);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;

    loop_opened(w);
    ok(sqlock_acquire_start(loop, "nightly", &o, &op, &said));
    ok(loop_finish(op, &lock));
    keep(lock);
    o.on_event = NULL;
    o.wait_ms = 100;
    says(SQLOCK_EBUSY, sqlock_acquire(loop, "nightly", &o, &(sqlock_lock *){NULL}, &said));
    loop_turn_for(1000); /* with renewals */
    assert_true(sqlock_is_held(lock));
    assert_int_equal(threads(), before);
    ok(sqlock_release_start(lock, &op, &said));
    ok(loop_finish(op, NULL));
    assert_int_equal(threads(), before);
}

static void loop_queue_up(sqlock_op **ops, int n)
{
    for (int i = 0; i < n; i++) {
        ops[i] = loop_start("nightly", 60000, 0, 0);
        while (sqlock_op_place(ops[i]) == 0)
            loop_turn(100);
    }
}

/* Each that is left would cost the others an offer. */
TEST_IF(QUEUES, test_P8_cancelled_waiters_of_an_event_loop_have_left_when_it_is_closed, other)
{
    sqlock_acquire_opts o = wait_opts(10000, 0, 0);
    sqlock_lock *lock = take(other, "nightly"), *none = NULL;
    sqlock_op *ops[4];

    loop_opened(w);
    loop_queue_up(ops, 4);
    for (int i = 0; i < 4; i++)
        sqlock_op_cancel(ops[i]);
    for (int i = 0; i < 4; i++) {
        /* A beat may have told its place before the answer of its own request came. */
        int rc = loop_finish(ops[i], &none);

        assert_true(rc == SQLOCK_ECANCELLED || rc == SQLOCK_EUNSURE);
        if (rc == SQLOCK_EUNSURE)
            assert_true(sqlock_lock_end(&none, &said) <= 0);
    }
    loop_close();
    loop = NULL;
    give(lock);
    assert_takes(0, patience_ms(500), ok(sqlock_acquire(other, "nightly", &o, &lock, &said)));
    give(keep(lock));
}

/* The lock was offered to the first one, and no step has taken that up. */
TEST_IF(QUEUES, test_P8_offer_to_an_event_loop_that_ends_is_given_back, other)
{
    sqlock_acquire_opts o = wait_opts(10000, 0, 0);
    sqlock_lock *lock = take(other, "nightly"), *none = NULL;
    sqlock_op *ops[3];

    loop_opened(w);
    loop_queue_up(ops, 3);
    give(lock);
    loop_close();
    loop = NULL;
    assert_takes(0, patience_ms(500), ok(sqlock_acquire(other, "nightly", &o, &lock, &said)));
    for (int i = 0; i < 3; i++) {
        int rc = sqlock_op_finish(ops[i], &none, &said);

        assert_true(rc == SQLOCK_ECANCELLED || rc == SQLOCK_EUNSURE);
        if (rc == SQLOCK_EUNSURE)
            sqlock_lock_free(none);
    }
    give(keep(lock));
}

/* The opening's failure is the op's. The manager tries again with each request. */
TEST_IF(SQL, test_opening_in_steps_fails_as_open_does)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *none = NULL;
    sqlock *m = NULL;
    sqlock_op *op;
    int code;

    place_opts(w, &o);
    o.prefix = "nowhere_";
    code = sqlock_open(spied_driver(), w->place.url, &o, &m, &said);
    says(SQLOCK_ESCHEMA, code);
    op = loop_open(w, &o);
    says(code, loop_finish(op, NULL));
    assert_non_null(strstr(said.text, "open: no sqlock tables"));
    says(code, loop_finish(loop_start("nightly", 0, 0, 0), &none));
    assert_null(none);
}

/* P6, P19: without a step the state is right, and the kernel's timer is; the callback comes with
 * the next step, on the thread that steps. */
TEST(test_loss_is_seen_without_a_step_and_reported_in_the_next)
{
    static struct told t;
    sqlock_acquire_opts o = reported_opts(&t, 300, 0);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    int fd;

    loop_opened(w);
    ok(sqlock_acquire_start(loop, "nightly", &o, &op, &said));
    ok(loop_finish(op, &lock));
    keep(lock);
    fd = sqlock_lock_fd(lock, &said);
    assert_false(readable_within(fd, 0));
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_lost(lock, SQLOCK_WHY_EXPIRED);
    assert_int_equal(atomic_load(&t.lost), 0);
    assert_true(readable_within(sqlock_loop_fd(loop), 0));
    assert_int_equal(sqlock_loop_step(loop), 0);
    assert_int_equal(atomic_load(&t.lost), 1);
}

/* The descriptor is readable when the due time has come, and not before. */
TEST(test_loop_is_woken_for_renewals_and_sleeps_else)
{
    sqlock_lock *lock;
    int64_t first, due;
    int turns = 0;

    loop_opened(w);
    lock = loop_grant("nightly", 1800, 0);
    first = sqlock_lock_deadline_us(lock);
    loop_turn_for(300); /* whatever was left to do, such as to open the reserved connection */
    due = sqlock_loop_due_us(loop);
    assert_between(sqlock_now_us(), due, first);
    assert_false(readable_within(sqlock_loop_fd(loop), 50));
    for (int64_t end = sqlock_now_us() + 1000000; sqlock_now_us() < end; turns++)
        loop_turn(1000);
    assert_between(first + 1, sqlock_lock_deadline_us(lock), INT64_MAX);
    assert_true(sqlock_is_held(lock));
    assert_between(2, turns, 100);
}

TEST(test_blocking_calls_step_the_manager_meanwhile)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_lock *busy = take(other, "busy"), *lock, *next = NULL;
    sqlock_acquire_opts o = wait_opts(500, patience_ms(5000), 0);
    int64_t first;

    loop_opened(w);
    o.renew_ms = 100;
    lock = take_with(loop, "nightly", &o);
    first = sqlock_lock_deadline_us(lock);
    says(SQLOCK_EBUSY, sqlock_acquire(loop, "busy", &o, &next, &said));
    assert_between(first + 1, sqlock_lock_deadline_us(lock), INT64_MAX); /* it was renewed */
    give(busy);
    ok(sqlock_acquire(loop, "busy", &o, &next, &said));
    ok(sqlock_lock_end(&next, &said));
    ok(sqlock_release(lock, &said));
    assert_true(is_free(loop, "nightly"));
}

static int step_in_child(void *arg)
{
    (void)arg;
    assert_int_equal(sqlock_loop_step(loop), SQLOCK_EFORK);
    assert_int_equal(sqlock_loop_fd(loop), SQLOCK_EFORK);
    assert_int_equal(sqlock_loop_due_us(loop) == INT64_MAX, 1);
    sqlock_close(loop);
    return 0;
}

TEST_IF(PROCESSES | FORKS, test_loop_of_a_parent_is_dead_in_a_child)
{
    sqlock_lock *lock;

    loop_opened(w);
    lock = loop_grant("nightly", patience_ms(1000), 0);
    assert_int_equal(child_wait(child_start(step_in_child, NULL), patience_ms(20000)), 0);
    loop_turn_for(1200);
    assert_true(sqlock_is_held(lock));
}

TEST_IF(CORE_TRIED | LIBRARY_THREADS, test_manager_with_threads_has_no_steps, m)
{
    assert_int_equal(sqlock_loop_fd(m), SQLOCK_EINVAL);
    assert_int_equal(sqlock_loop_step(m), SQLOCK_EINVAL);
    assert_int_equal(sqlock_loop_due_us(m) == INT64_MAX, 1);
    assert_int_equal(sqlock_loop_fd(NULL), SQLOCK_EINVAL);
    assert_int_equal(sqlock_loop_step(NULL), SQLOCK_EINVAL);
}

CORE_TEST(test_open_start_refuses_what_open_refuses)
{
    sqlock *m = NULL;
    sqlock_op *op = NULL;
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    says(SQLOCK_EINVAL, sqlock_open_start(spied_driver(), w->place.url, &o, NULL, &op, &said));
    says(SQLOCK_EINVAL, sqlock_open_start(spied_driver(), w->place.url, &o, &m, NULL, &said));
    assert_null(m);
    says(SQLOCK_EINVAL, sqlock_open_start(NULL, w->place.url, &o, &m, &op, &said));
    o.connections = -1;
    says(SQLOCK_EINVAL, sqlock_open_start(spied_driver(), w->place.url, &o, &m, &op, &said));
    assert_null(m);
    assert_null(op);
}

static int open_denied(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                       sqlock_error *err)
{
    (void)opts;
    (void)deadline;
    (void)out_conn;
    return sqlock_error_db(err, "28000", 1045, 0, "who are you");
}

CORE_TEST(test_open_start_reports_what_the_driver_said)
{
    sqlock_op *op = NULL;
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    w->driver.open = open_denied;
    ok(sqlock_open_start(&w->driver, w->place.url, &o, &loop, &op, &said));
    at_end(w, loop_close);
    says(SQLOCK_EDENIED, loop_finish(op, NULL));
    assert_string_equal(said.sqlstate, "28000");
    assert_int_equal(said.native, 1045);
    assert_string_equal(said.text, "open: who are you");
}

static atomic_int blocked_code, finish_code;
static sqlock_op *unfinished; /* a wait for a lock that is held */

static void block_in_callback(sqlock_lock *lock, sqlock_state state, void *user)
{
    sqlock_lock *none = NULL;

    (void)lock;
    if (state != SQLOCK_LOST)
        return;
    atomic_store(&blocked_code, sqlock_acquire(user, "other", NULL, &none, NULL));
    atomic_store(&finish_code, sqlock_op_finish(unfinished, &none, NULL));
}

/* It would wait for the step that called it. */
TEST(test_callback_that_would_block_its_own_step_is_refused)
{
    sqlock_acquire_opts o = wait_opts(0, 200, SQLOCK_NO_RENEW), waits;
    sqlock_lock *lock = NULL, *other;
    sqlock_op *op = NULL;

    loop_opened(w);
    o.on_event = block_in_callback;
    o.user = loop;
    atomic_store(&blocked_code, 0);
    ok(sqlock_acquire_start(loop, "nightly", &o, &op, &said));
    ok(loop_finish(op, &lock));
    keep(lock);
    other = take_for(open_manager(w, NULL), "held", 60000, SQLOCK_NO_RENEW);
    waits = wait_opts(60000, 0, 0);
    ok(sqlock_acquire_start(loop, "held", &waits, &unfinished, &said));
    loop_turn_for(300);
    assert_int_equal(atomic_load(&blocked_code), SQLOCK_ESTATE);
    assert_int_equal(atomic_load(&finish_code), SQLOCK_ESTATE);
    give(other);
    ok(loop_finish(unfinished, &lock));
    give(lock);
}

/* ---- what needs no thread -------------------------------------------------------------------- */

static int count_info(const sqlock_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

/* Nor does a manager with threads start one for what needs none. */
TEST_IF(LIBRARY_THREADS, test_no_thread_starts_for_what_needs_none)
{
    sqlock *m;
    sqlock_lock *lock;
    sqlock_op *op = NULL;
    int before = threads(), listed = 0;

    m = open_manager(w, NULL);
    lock = take_for(m, "nightly", 300, SQLOCK_NO_RENEW);
    ok(sqlock_renew(lock, &said));
    assert_int_equal(threads(), before);
    assert_true(readable_within(sqlock_lock_fd(lock, &said), patience_ms(3000)));
    assert_lost(lock, SQLOCK_WHY_EXPIRED);
    drop(lock);
    sleep_ms(100); /* the server counts it as held a little longer, and a waiter needs threads */
    ok(sqlock_list(m, NULL, count_info, &listed, &said));
    lock = take_for(m, "nightly", 60000, SQLOCK_NO_RENEW);
    ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    assert_int_equal(threads(), before);
    drop(lock);
    lock = take_for(m, "other", 60000, SQLOCK_NO_RENEW);
    ok(sqlock_renew_start(lock, &op, &said)); /* the worker drives it */
    ok(sqlock_op_finish(op, NULL, &said));
    assert_int_equal(threads(), before + 2);
    give(lock);
}
