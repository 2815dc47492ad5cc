/* The library's own threads kept busy (P4, P6, P19): a worker that does not come back from the
 * database, and a timer that an application's callback keeps. All else is told on time. */
#include "tests/faults/faults.h"

#include <poll.h>
#include <string.h>

#define LATE 100 /* so many milliseconds after the deadline a loss may be told */

static sqlock_error err;

static struct {
    atomic_int inside, go_on;
} slow; /* a callback that does not return before it may go on */

static int teardown(void **state)
{
    atomic_store(&slow.go_on, 1);
    return stage_teardown(state);
}

static int readable(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, 0) == 1;
}

/* The driver's call outlasts its deadline, as a name resolution or a stalled disk may. */
TEST(test_loss_is_reported_on_time_while_the_worker_is_stuck)
{
    struct events events = {0};
    sqlock_lock *lock;
    sqlock *m;
    int64_t deadline;
    int fd, calls;

    stage_sqlite();
    m = stage_open();
    lock = held(m, "nightly", 900, &events);
    fd = sqlock_lock_fd(lock, &err);
    assert_true(fd >= 0);
    wait_renewed(lock);
    atomic_store(&watch.stop_renewals, 1);
    deadline = sqlock_lock_deadline_us(lock);
    assert_soon(atomic_load(&watch.renewing) == 1, patience_ms(900));
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_int_equal(readable(fd), 0);
    assert_soon(atomic_load(&events.lost_at) != 0, 3000);
    assert_between(0, atomic_load(&events.lost_at) - deadline, LATE * MS);
    assert_int_equal(atomic_load(&events.talker_inside), 1);
    assert_int_equal(atomic_load(&events.why), SQLOCK_WHY_EXPIRED);
    assert_int_equal(readable(fd), 1);

    /* asked while it is stuck, and again when it is let go: the late answer changes nothing */
    calls = driver_calls_here();
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(driver_calls_here(), calls);
    atomic_store(&watch.stop_renewals, 0);
    assert_soon(atomic_load(&watch.renewing) == 0, patience_ms(2000));
    sleep_ms(50);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(atomic_load(&events.n_lost), 1);
    sqlock_lock_free(lock);
}

static void slow_callback(sqlock_lock *lock, sqlock_state state, void *user)
{
    (void)lock, (void)state, (void)user;
    atomic_store(&slow.inside, 1);
    while (!atomic_load(&slow.go_on))
        sleep_ms(1);
}

static sqlock_lock *held_unrenewed(sqlock *m, const char *name, int32_t lease_ms,
                                   sqlock_event_fn fn, void *user)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    opts.flags = SQLOCK_NO_RENEW;
    opts.lease_ms = lease_ms;
    opts.on_event = fn;
    opts.user = user;
    assert_ok(sqlock_acquire(m, name, &opts, &lock, &err), &err);
    return lock;
}

/* One lock's callback keeps the timer; the other lock's state and descriptor do not need it. */
TEST(test_state_and_descriptor_show_the_loss_while_the_timer_is_kept)
{
    struct events events = {0};
    sqlock_lock *slow_lock, *lock;
    sqlock *m;
    struct pollfd p = {-1, POLLIN, 0};
    int64_t deadline, woken;
    int calls, late = 0, early = 0;

    stage_sqlite();
    memset(&slow, 0, sizeof slow);
    m = stage_open();
    slow_lock = held_unrenewed(m, "slow", 300, slow_callback, NULL);
    lock = held_unrenewed(m, "other", 900, note_event, &events);
    deadline = sqlock_lock_deadline_us(lock);
    p.fd = sqlock_lock_fd(lock, &err);
    assert_true(p.fd >= 0);
    assert_soon(atomic_load(&slow.inside), patience_ms(3000));
    assert_true(sqlock_now_us() < deadline);

    calls = driver_calls_here();
    while (sqlock_now_us() < deadline - 20 * MS)
        early += !sqlock_is_held(lock);
    woken = poll(&p, 1, 3000) == 1 ? sqlock_now_us() : -1;
    late += sqlock_is_held(lock);
    atomic_store(&slow.go_on, 1);
    assert_between(0, woken - deadline, LATE * MS);
    assert_int_equal(early, 0);
    assert_int_equal(late, 0);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_EXPIRED);
    assert_int_equal(driver_calls_here(), calls);
    assert_soon(atomic_load(&events.n_lost) == 1, patience_ms(2000));
    sqlock_lock_free(lock);
    sqlock_lock_free(slow_lock);
}

/* The renewal was done in time, but its answer is late; the timer is kept and nobody looks. A
 * program that asked in between would have been sent home: so nobody may hear that it is held. */
TEST(test_answer_that_comes_after_the_deadline_does_not_bring_the_lock_back)
{
    sqlock_lock *lock = NULL;
    sqlock *m;
    int64_t deadline;
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    stage_sqlite();
    memset(&slow, 0, sizeof slow);
    m = stage_open();
    opts.lease_ms = 900;
    opts.on_event = slow_callback;
    atomic_store(&watch.stop_answers, 1);
    assert_ok(sqlock_acquire(m, "nightly", &opts, &lock, &err), &err);
    deadline = sqlock_lock_deadline_us(lock);
    assert_soon(atomic_load(&watch.renewing) == 1, patience_ms(900));
    assert_soon(atomic_load(&slow.inside) == 1, patience_ms(900));
    while (sqlock_now_us() < deadline + 50 * MS)
        sleep_ms(1);
    atomic_store(&watch.stop_answers, 0);
    assert_soon(atomic_load(&watch.renewing) == 0, patience_ms(2000));
    sleep_ms(50);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_true(atomic_load(&watch.answered[SQLOCK_STMT_RENEW]) > 0);
    atomic_store(&slow.go_on, 1);
    assert_code(SQLOCK_ELOST, sqlock_renew(lock, &err), &err);
    sqlock_lock_free(lock);
}

TEST_MAIN_EACH(NULL, teardown)
