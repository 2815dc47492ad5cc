/* Managers without threads: all happens in steps, and what needs none does not wait for one (P6,
 * P19). */
#include "tests/drivers/suite.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

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

/* The manager of a test, and how long its longest step took. */
static struct {
    sqlock *m;
    int64_t longest_us;
} loop;

static void close_loop(void)
{
    sqlock_close(loop.m);
}

/* What an event loop does when the descriptor is readable; or nothing, for so long. */
static void turn(int32_t ms)
{
    struct pollfd p = {sqlock_loop_fd(loop.m), POLLIN, 0};
    int64_t begun;

    assert_between(0, p.fd, INT32_MAX);
    if (poll(&p, 1, ms) != 1)
        return;
    begun = sqlock_now_us();
    assert_int_equal(sqlock_loop_step(loop.m), 0);
    if (sqlock_now_us() - begun > loop.longest_us)
        loop.longest_us = sqlock_now_us() - begun;
}

static void turn_for(int32_t ms)
{
    for (int64_t end = sqlock_now_us() + ms * INT64_C(1000), left;
         (left = end - sqlock_now_us()) > 0;)
        turn((int32_t)(left / 1000) + 1);
}

static int finish(sqlock_op *op, sqlock_lock **out_lock)
{
    for (int64_t end = sqlock_now_us() + patience_ms(10000) * INT64_C(1000);
         !sqlock_op_step(op) && sqlock_now_us() < end;)
        turn(100);
    assert_int_equal(sqlock_op_step(op), 1);
    assert_true(readable_within(sqlock_op_fd(op), 0));
    return sqlock_op_finish(op, out_lock, &said);
}

static sqlock_op *open_loop(struct world *w, const sqlock_open_opts *opts)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_op *op = NULL;

    if (opts)
        o = *opts;
    place_opts(w, &o);
    loop.longest_us = 0;
    ok(sqlock_open_start(spied_driver(), w->place.url, &o, &loop.m, &op, &said));
    at_end(w, close_loop);
    return op;
}

static sqlock *opened_loop(struct world *w)
{
    sqlock_op *op = open_loop(w, NULL);

    ok(finish(op, NULL));
    return loop.m;
}

static sqlock_op *start(const char *name, int32_t wait_ms, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = wait_opts(wait_ms, lease_ms, flags);
    sqlock_op *op = NULL;

    ok(sqlock_acquire_start(loop.m, name, &o, &op, &said));
    return op;
}

static sqlock_lock *grant(const char *name, int32_t lease_ms, unsigned flags)
{
    sqlock_lock *lock = NULL;

    ok(finish(start(name, 0, lease_ms, flags), &lock));
    return keep(lock);
}

TEST(test_manager_of_an_event_loop_starts_no_thread)
{
    int before = threads();
    static struct told t;
    sqlock_acquire_opts o = reported_opts(&t, 600, 0);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;

    opened_loop(w);
    ok(sqlock_acquire_start(loop.m, "nightly", &o, &op, &said));
    ok(finish(op, &lock));
    keep(lock);
    o.on_event = NULL;
    o.wait_ms = 100;
    says(SQLOCK_EBUSY, sqlock_acquire(loop.m, "nightly", &o, &(sqlock_lock *){NULL}, &said));
    turn_for(1000); /* with renewals */
    assert_true(sqlock_is_held(lock));
    assert_int_equal(threads(), before);
    ok(sqlock_release_start(lock, &op, &said));
    ok(finish(op, NULL));
    assert_int_equal(threads(), before);
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
    op = open_loop(w, &o);
    says(code, finish(op, NULL));
    assert_non_null(strstr(said.text, "open: no sqlock tables"));
    says(code, finish(start("nightly", 0, 0, 0), &none));
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

    opened_loop(w);
    ok(sqlock_acquire_start(loop.m, "nightly", &o, &op, &said));
    ok(finish(op, &lock));
    keep(lock);
    fd = sqlock_lock_fd(lock, &said);
    assert_false(readable_within(fd, 0));
    assert_true(readable_within(fd, patience_ms(3000)));
    assert_lost(lock, SQLOCK_WHY_EXPIRED);
    assert_int_equal(atomic_load(&t.lost), 0);
    assert_true(readable_within(sqlock_loop_fd(loop.m), 0));
    assert_int_equal(sqlock_loop_step(loop.m), 0);
    assert_int_equal(atomic_load(&t.lost), 1);
}

/* The descriptor is readable when the due time has come, and not before. */
TEST(test_loop_is_woken_for_renewals_and_sleeps_else)
{
    sqlock_lock *lock;
    int64_t first, due;
    int turns = 0;

    opened_loop(w);
    lock = grant("nightly", 1800, 0);
    first = sqlock_lock_deadline_us(lock);
    turn_for(300); /* whatever was left to do, such as to open the reserved connection */
    due = sqlock_loop_due_us(loop.m);
    assert_between(sqlock_now_us(), due, first);
    assert_false(readable_within(sqlock_loop_fd(loop.m), 50));
    for (int64_t end = sqlock_now_us() + 1000000; sqlock_now_us() < end; turns++)
        turn(1000);
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

    opened_loop(w);
    o.renew_ms = 100;
    lock = take_with(loop.m, "nightly", &o);
    first = sqlock_lock_deadline_us(lock);
    says(SQLOCK_EBUSY, sqlock_acquire(loop.m, "busy", &o, &next, &said));
    assert_between(first + 1, sqlock_lock_deadline_us(lock), INT64_MAX); /* it was renewed */
    give(busy);
    ok(sqlock_acquire(loop.m, "busy", &o, &next, &said));
    ok(sqlock_lock_end(&next, &said));
    ok(sqlock_release(lock, &said));
    assert_true(is_free(loop.m, "nightly"));
}

enum { MANY = 400 };

TEST_IF(LEISURE, test_many_requests_of_a_loop_are_under_way_at_once)
{
    sqlock_op *ops[MANY];
    sqlock_lock *locks[MANY];
    char name[20];

    opened_loop(w);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "job %d", i);
        ops[i] = start(name, patience_ms(20000), 60000, 0);
    }
    for (int i = 0; i < MANY; i++) {
        locks[i] = NULL;
        ok(finish(ops[i], &locks[i]));
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(sqlock_is_held(locks[i]));
        ok(sqlock_release_start(locks[i], &ops[i], &said));
    }
    for (int i = 0; i < MANY; i++) {
        ok(finish(ops[i], NULL));
        sqlock_lock_free(locks[i]);
    }
}

/* Cancelled, it is done at once, without a step. */
TEST(test_loop_cancels_a_wait)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_lock *busy = take(other, "busy"), *none = NULL;
    sqlock_op *op;
    int rc;

    opened_loop(w);
    op = start("busy", SQLOCK_WAIT_FOREVER, 0, 0);
    turn_for(200);
    assert_int_equal(sqlock_op_step(op), 0);
    sqlock_op_cancel(op);
    rc = finish(op, &none);
    if (rc != SQLOCK_EUNSURE) {
        says(SQLOCK_ECANCELLED, rc);
        assert_null(none);
    }
    sqlock_lock_free(none);
    give(busy);
}

static atomic_int hangs;

/* The server does not answer acquires. */
static int run_that_hangs(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                          const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                          sqlock_error *err)
{
    if (stmt != SQLOCK_STMT_ACQUIRE || !atomic_load(&hangs))
        return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    while (atomic_load(&hangs) && sqlock_now_us() < deadline)
        sqlock_wait_fd(-1, 0, -1, sqlock_now_us() + 10000);
    return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_MAYBE | SQLOCK_RECONNECT, "it hangs");
}

/* It answers them late. */
static int run_that_is_late(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                            const sqlock_value *values, size_t n, int64_t deadline,
                            sqlock_rows *rows, sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    while (stmt == SQLOCK_STMT_ACQUIRE && atomic_load(&hangs) && sqlock_now_us() < deadline)
        sqlock_wait_fd(-1, 0, -1, sqlock_now_us() + 10000);
    return rc;
}

/* A manager over a driver with such a run(). */
static void opened_loop_with(struct world *w, int (*run)(void *, const sqlock_call *, sqlock_stmt,
                                                         const sqlock_value *, size_t, int64_t,
                                                         sqlock_rows *, sqlock_error *))
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_op *op = NULL;

    place_opts(w, &o);
    w->driver.run = run;
    w->driver.caps &= ~SQLOCK_CAP_GROUPS; /* it looks at the first kind alone */
    atomic_store(&hangs, 0);
    ok(sqlock_open_start(&w->driver, w->place.url, &o, &loop.m, &op, &said));
    at_end(w, close_loop);
    ok(finish(op, NULL));
}

/* a and b wait for the connection, whose answer to x comes after b's cancel. What a's batch would
 * take along for b would be granted to no one. */
TEST(test_request_of_a_loop_that_was_cancelled_is_not_sent_with_others)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_op *x, *a, *b;
    sqlock_lock *lock = NULL;

    opened_loop_with(w, run_that_is_late);
    for (const char *name = "x\0a\0b\0"; *name != '\0'; name += 2) /* with rows and connections */
        ok(sqlock_release(grant(name, 60000, 0), &said));
    atomic_store(&hangs, 1);
    x = start("x", 0, 60000, 0);
    assert_int_equal(sqlock_loop_step(loop.m), 0); /* it goes alone */
    a = start("a", patience_ms(10000), 60000, 0);
    b = start("b", patience_ms(10000), 60000, 0);
    assert_int_equal(sqlock_loop_step(loop.m), 0);
    assert_int_equal(sqlock_op_step(b), 0);
    sqlock_op_cancel(b);
    atomic_store(&hangs, 0);
    sleep_ms(50);
    says(SQLOCK_ECANCELLED, finish(b, &lock));
    assert_null(lock);
    ok(finish(x, &lock));
    sqlock_lock_free(lock);
    lock = NULL;
    ok(finish(a, &lock));
    sqlock_lock_free(lock);
    assert_true(is_free(other, "b"));
}

enum { WAITING = 300 }; /* more than there are coroutines for waits */

/* They have all coroutines but those that are left for what ends, renews or settles a grant. */
TEST_IF(LEISURE, test_release_of_a_loop_does_not_starve_behind_waits)
{
    sqlock_op *ops[WAITING], *op = NULL;
    sqlock_lock *lock, *none = NULL;

    opened_loop_with(w, run_that_hangs);
    lock = grant("nightly", 60000, 0);
    atomic_store(&hangs, 1);
    for (int i = 0; i < WAITING; i++)
        ops[i] = start("busy", patience_ms(10000), 0, SQLOCK_NO_RENEW);
    turn_for(50);
    ok(sqlock_release_start(lock, &op, &said));
    assert_takes(0, patience_ms(1500), ok(finish(op, NULL)));
    atomic_store(&hangs, 0);
    for (int i = 0; i < WAITING; i++)
        sqlock_op_cancel(ops[i]);
    for (int i = 0; i < WAITING; i++) {
        assert_int_not_equal(finish(ops[i], &none), 0);
        sqlock_lock_free(none);
        none = NULL;
    }
}

TEST(test_close_ends_what_a_loop_has_under_way)
{
    sqlock *other = open_manager(w, NULL);
    sqlock_lock *busy = take(other, "busy"), *lock, *unsure = NULL;
    sqlock_op *ops[3];

    opened_loop(w);
    lock = grant("nightly", 60000, 0);
    for (int i = 0; i < 3; i++)
        ops[i] = start("busy", SQLOCK_WAIT_FOREVER, 0, 0);
    turn_for(50);
    assert_takes(0, late_ms(500), sqlock_close(loop.m));
    loop.m = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sqlock_op_step(ops[i]), 1);
        assert_int_not_equal(sqlock_op_finish(ops[i], &unsure, &said), 0);
        sqlock_lock_free(unsure);
    }
    assert_lost(lock, SQLOCK_WHY_CLOSED);
    give(busy);
}

static int step_in_child(void *arg)
{
    (void)arg;
    assert_int_equal(sqlock_loop_step(loop.m), SQLOCK_EFORK);
    assert_int_equal(sqlock_loop_fd(loop.m), SQLOCK_EFORK);
    assert_int_equal(sqlock_loop_due_us(loop.m) == INT64_MAX, 1);
    sqlock_close(loop.m);
    return 0;
}

TEST_IF(PROCESSES | FORKS, test_loop_of_a_parent_is_dead_in_a_child)
{
    sqlock_lock *lock;

    opened_loop(w);
    lock = grant("nightly", patience_ms(1000), 0);
    assert_int_equal(child_wait(child_start(step_in_child, NULL), patience_ms(20000)), 0);
    turn_for(1200);
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

static atomic_int blocked_code;

static void block_in_callback(sqlock_lock *lock, sqlock_state state, void *user)
{
    sqlock_lock *none = NULL;

    (void)lock;
    if (state == SQLOCK_LOST)
        atomic_store(&blocked_code, sqlock_acquire(user, "other", NULL, &none, NULL));
}

/* It would wait for the step that called it. */
TEST(test_callback_that_would_block_its_own_step_is_refused)
{
    sqlock_acquire_opts o = wait_opts(0, 200, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;

    opened_loop(w);
    o.on_event = block_in_callback;
    o.user = loop.m;
    atomic_store(&blocked_code, 0);
    ok(sqlock_acquire_start(loop.m, "nightly", &o, &op, &said));
    ok(finish(op, &lock));
    keep(lock);
    turn_for(300);
    assert_int_equal(atomic_load(&blocked_code), SQLOCK_ESTATE);
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
