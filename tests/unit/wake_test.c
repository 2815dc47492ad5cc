/* Waiting: never early, cut by a wake-up from anywhere, and alarms that fire at their time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/alarm.h"
#include "core/base/clock.h"
#include "core/base/thread.h"
#include "tests/lib/check.h"

#define FOREVER (sqlock_now_us() + patience_ms(20000) * INT64_C(1000))
#define LATE_US (patience_ms(2000) * INT64_C(1000))

struct fixture {
    int wake, in, out; /* in, out: of a pipe */
};

static int setup(void **state)
{
    static struct fixture f;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0 || (f.wake = sqlock_wake_make()) < 0)
        return -1;
    f.out = ends[0];
    f.in = ends[1];
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    sqlock_wake_close(f->wake);
    close(f->in);
    close(f->out);
    return 0;
}

static int is_readable(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, 0) == 1;
}

static void check_time(int64_t begun, int64_t least_us)
{
    assert_between(least_us, sqlock_now_us() - begun, least_us + LATE_US);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

TEST(test_wait_ends_at_the_deadline_and_never_before)
{
    static const int64_t spans[] = {-1000, 0,    1,    10,   500,  999,   1000, 1001,
                                    1500,  1999, 2001, 3333, 9999, 10001, 25500};
    struct fixture *f = *state;

    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
            int64_t begun = sqlock_now_us();

            assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, begun + spans[i]), 0);
            check_time(begun, spans[i]);
        }
}

/* What is there is seen even when the time is up. */
TEST(test_ready_descriptor_is_seen_at_the_deadline_too)
{
    struct fixture *f = *state;

    assert_int_equal(write(f->in, "x", 1), 1);
    assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, 0), 1);
    assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, TIME_NEVER), 1);
    assert_int_equal(sqlock_wait_fd(f->in, POLLOUT, -1, TIME_NEVER), 1);
}

TEST(test_closed_peer_ends_the_wait)
{
    struct fixture *f = *state;

    close(f->in);
    f->in = -1;
    assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, FOREVER), 1);
}

TEST(test_sleep_is_never_short)
{
    static const int64_t spans[] = {1, 999, 1000, 15001};

    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        int64_t begun = sqlock_now_us();

        sqlock_sleep_us(spans[i]);
        check_time(begun, spans[i]);
    }
}

/* ---- wake-ups -------------------------------------------------------------------------------- */

TEST(test_wake_before_the_wait_is_not_lost)
{
    struct fixture *f = *state;

    sqlock_wake_set(f->wake);
    assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, FOREVER), 2);
    /* it stays until it is cleared, and comes before what is ready */
    assert_int_equal(write(f->in, "x", 1), 1);
    assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, FOREVER), 2);
    sqlock_wake_clear(f->wake);
    assert_int_equal(sqlock_wait_fd(f->out, POLLIN, f->wake, FOREVER), 1);
}

static void *wake_later(void *arg)
{
    sqlock_sleep_us(20000);
    sqlock_wake_set(((struct fixture *)arg)->wake);
    return NULL;
}

static void *write_later(void *arg)
{
    sqlock_sleep_us(20000);
    return write(((struct fixture *)arg)->in, "x", 1) == 1 ? arg : NULL;
}

TEST(test_wake_or_a_ready_descriptor_cuts_the_wait)
{
    void *(*const acts[])(void *) = {write_later, wake_later};

    for (int i = 0; i < 2; i++) {
        struct fixture *f = *state;
        int64_t begun = sqlock_now_us();
        pthread_t thread_id;
        int got;

        assert_int_equal(pthread_create(&thread_id, NULL, acts[i], f), 0);
        got = sqlock_wait_fd(f->out, POLLIN, f->wake, FOREVER);
        pthread_join(thread_id, NULL);
        assert_int_equal(got, 1 + i);
        check_time(begun, 20000);
        assert_true(i == 1 || read(f->out, &(char){0}, 1) == 1);
    }
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* The application's signals interrupt poll() and nanosleep(): not earlier nor later for that. */
TEST(test_signals_neither_end_nor_prolong_a_wait)
{
    struct itimerval every = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    struct sigaction count = {.sa_handler = count_signal}, before;
    struct fixture *f = *state;
    int64_t begun, waited, slept;
    int got;

    signals = 0;
    sigaction(SIGALRM, &count, &before);
    setitimer(ITIMER_REAL, &every, NULL);
    begun = sqlock_now_us();
    got = sqlock_wait_fd(f->out, POLLIN, f->wake, begun + 50000);
    waited = sqlock_now_us() - begun;
    begun = sqlock_now_us();
    sqlock_sleep_us(50000);
    slept = sqlock_now_us() - begun;
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(got, 0);
    assert_between(50000, waited, 50000 + LATE_US);
    assert_between(50000, slept, 50000 + LATE_US);
    assert_true(signals > 2);
}

TEST(test_descriptors_are_not_inherited_and_never_block)
{
    struct fixture *f = *state;
    int alarm_fd = alarm_make();

    assert_true(alarm_fd >= 0);
    assert_true(fcntl(f->wake, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(f->wake, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(alarm_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(alarm_fd, F_GETFL) & O_NONBLOCK);
    alarm_close(alarm_fd);
}

/* ---- alarms ---------------------------------------------------------------------------------- */

TEST(test_alarm_fires_at_its_time_and_never_before)
{
    static const int64_t spans[] = {1000, 5500, 20001};
    int fd = alarm_make();

    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        int64_t at = sqlock_now_us() + spans[i];

        alarm_set(fd, at);
        assert_int_equal(sqlock_wait_fd(fd, POLLIN, -1, FOREVER), 1);
        assert_between(at, sqlock_now_us(), at + LATE_US);
        assert_true(is_readable(fd)); /* for good, until it is set anew */
    }
    alarm_close(fd);
}

TEST(test_alarm_for_a_time_that_passed_fires_at_once)
{
    int fd = alarm_make();

    assert_false(is_readable(fd));
    alarm_set(fd, sqlock_now_us() - 1000);
    assert_int_equal(sqlock_wait_fd(fd, POLLIN, -1, FOREVER), 1);
    alarm_set(fd, TIME_NEVER);
    assert_false(is_readable(fd));
    alarm_set(fd, 0);
    assert_int_equal(sqlock_wait_fd(fd, POLLIN, -1, FOREVER), 1);
    alarm_close(fd);
}

TEST(test_alarm_that_is_moved_does_not_fire_at_its_old_time)
{
    int64_t begun = sqlock_now_us();
    int fd = alarm_make();

    alarm_set(fd, begun + 10000);
    alarm_set(fd, begun + 40000);
    assert_int_equal(sqlock_wait_fd(fd, POLLIN, -1, FOREVER), 1);
    check_time(begun, 40000);
    alarm_set(fd, sqlock_now_us() + 10000);
    alarm_set(fd, TIME_NEVER);
    assert_int_equal(sqlock_wait_fd(fd, POLLIN, -1, sqlock_now_us() + 30000), 0);
    alarm_close(fd);
}

TEST(test_alarm_in_the_far_future_is_set_and_does_not_fire)
{
    static const int64_t far[] = {INT64_MAX - 1, INT64_C(1) << 60, INT64_C(604800000000)};
    int fd = alarm_make();

    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        alarm_set(fd, 0);
        assert_int_equal(sqlock_wait_fd(fd, POLLIN, -1, FOREVER), 1);
        alarm_set(fd, far[i] == INT64_MAX - 1 ? far[i] : sqlock_now_us() + far[i]);
        assert_false(is_readable(fd));
    }
    alarm_close(fd);
}

TEST(test_watcher_wakes_for_the_alarm_and_for_a_poke)
{
    struct fixture *f = *state;
    int64_t begun = sqlock_now_us();
    int fd = alarm_make();
    pthread_t thread_id;

    alarm_set(fd, begun + 10000);
    alarm_wait(fd, f->wake);
    check_time(begun, 10000);
    alarm_set(fd, TIME_NEVER);
    begun = sqlock_now_us();
    assert_int_equal(pthread_create(&thread_id, NULL, wake_later, f), 0);
    alarm_wait(fd, f->wake);
    pthread_join(thread_id, NULL);
    check_time(begun, 20000);
    assert_false(is_readable(f->wake)); /* it was cleared */
    alarm_close(fd);
}

/* ---- conditions ------------------------------------------------------------------------------ */

TEST(test_condition_wait_is_bounded_by_its_deadline)
{
    int64_t begun = sqlock_now_us();
    mutex m;
    cond c;

    assert_int_equal(mutex_init(&m), 0);
    assert_int_equal(cond_init(&c), 0);
    mutex_lock(&m);
    cond_wait_until(&c, &m, 0);
    cond_wait_until(&c, &m, begun);
    while (sqlock_now_us() < begun + 15500) /* it may return early, as a condition may */
        cond_wait_until(&c, &m, begun + 15500);
    mutex_unlock(&m);
    check_time(begun, 15500);
    cond_free(&c);
    mutex_free(&m);
}

TEST_MAIN_EACH(setup, teardown)
