/* Coroutines: what would block returns to whoever resumed them, and goes on when it may. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/coroutine.h"
#include "core/base/thread.h"
#include "tests/lib/check.h"

static struct coroutine flow;
static int seen, wake;

static void wait_for_wake(void *arg)
{
    seen = sqlock_wait_fd(wake, POLLIN, -1, *(int64_t *)arg);
}

static int setup(void **state)
{
    (void)state;
    seen = -1;
    return (wake = sqlock_wake_make()) >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sqlock_wake_close(wake);
    return 0;
}

TEST(test_wait_returns_to_whoever_resumed_it_and_says_for_what_it_waits)
{
    int64_t until = sqlock_now_us() + 60000000;

    assert_int_equal(coroutine_make(&flow, wait_for_wake, &until, -1), 0);
    assert_null(coroutine_running());
    assert_int_equal(coroutine_resume(&flow), 0);
    assert_null(coroutine_running());
    assert_int_equal(flow.fd, wake);
    assert_int_equal(flow.events, POLLIN);
    assert_true(flow.until == until);
    assert_int_equal(coroutine_resume(&flow), 0); /* still nothing */
    sqlock_wake_set(wake);
    assert_int_equal(coroutine_resume(&flow), 1);
    assert_int_equal(seen, 1);
    coroutine_free(&flow);
}

TEST(test_wait_on_a_coroutine_ends_at_its_deadline)
{
    int64_t until = sqlock_now_us() + 20000;

    assert_int_equal(coroutine_make(&flow, wait_for_wake, &until, -1), 0);
    assert_int_equal(coroutine_resume(&flow), 0);
    sqlock_sleep_us(until - sqlock_now_us() + 1000);
    assert_int_equal(coroutine_resume(&flow), 1);
    assert_int_equal(seen, 0);
    coroutine_free(&flow);
}

static mutex mu;
static cond changed;

static void wait_for_change(void *arg)
{
    (void)arg;
    mutex_lock(&mu);
    cond_wait_until(&changed, &mu, sqlock_now_us() + 60000000);
    seen = 7;
    mutex_unlock(&mu);
}

static void *change(void *arg)
{
    mutex_lock(&mu);
    cond_wake_all(&changed);
    mutex_unlock(&mu);
    return arg;
}

/* By a thread, which also tells the descriptor of whoever resumes. */
TEST(test_condition_wakes_a_coroutine)
{
    pthread_t t;

    mutex_init(&mu);
    cond_init(&changed);
    assert_int_equal(coroutine_make(&flow, wait_for_change, NULL, wake), 0);
    assert_int_equal(coroutine_resume(&flow), 0);
    assert_int_equal(atomic_load(&flow.woken), 0);
    assert_int_equal(pthread_create(&t, NULL, change, NULL), 0);
    pthread_join(t, NULL);
    assert_int_equal(atomic_load(&flow.woken), 1);
    assert_int_equal(sqlock_wait_fd(wake, POLLIN, -1, sqlock_now_us()), 1);
    assert_int_equal(coroutine_resume(&flow), 1);
    assert_int_equal(seen, 7);
    coroutine_free(&flow);
    cond_free(&changed);
    mutex_free(&mu);
}

static void *resume(void *arg)
{
    return (void *)(intptr_t)coroutine_resume(arg);
}

TEST(test_coroutine_goes_on_in_another_thread)
{
    int64_t until = sqlock_now_us() + 60000000;
    pthread_t t;
    void *ended;

    assert_int_equal(coroutine_make(&flow, wait_for_wake, &until, -1), 0);
    assert_int_equal(coroutine_resume(&flow), 0);
    sqlock_wake_set(wake);
    assert_int_equal(pthread_create(&t, NULL, resume, &flow), 0);
    pthread_join(t, &ended);
    assert_int_equal((intptr_t)ended, 1);
    assert_int_equal(seen, 1);
    coroutine_free(&flow);
}

static void block_signal(void *arg)
{
    sigset_t all, before;

    (void)arg;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sqlock_sleep_us(1000);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A client library blocks SIGPIPE around its calls, and they wait in the midst of it. */
TEST(test_signal_mask_of_a_coroutine_stays_its_own)
{
    sigset_t now;

    assert_int_equal(coroutine_make(&flow, block_signal, NULL, -1), 0);
    assert_int_equal(coroutine_resume(&flow), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    assert_false(sigismember(&now, SIGPIPE));
    assert_int_equal(coroutine_resume(&flow), 1);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    assert_false(sigismember(&now, SIGPIPE));
    coroutine_free(&flow);
}

static void look_at_mask(void *arg)
{
    sigset_t now;

    sqlock_sleep_us(1000);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    *(int *)arg = sigismember(&now, SIGUSR1);
}

/* An application that blocks a signal, and reads it by a descriptor, does so in its steps too. */
TEST(test_coroutine_runs_with_the_mask_of_whoever_resumes_it)
{
    sigset_t one, before;
    int blocked = -1;

    assert_int_equal(coroutine_make(&flow, look_at_mask, &blocked, -1), 0);
    assert_int_equal(coroutine_resume(&flow), 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    assert_int_equal(coroutine_resume(&flow), 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(blocked, 1);
    coroutine_free(&flow);
}

static struct coroutine inner;

static void resume_inner(void *arg)
{
    (void)arg;
    while (!coroutine_resume(&inner))
        sqlock_sleep_us(1);
}

TEST(test_coroutine_resumes_another)
{
    int64_t until = sqlock_now_us() + 60000000;

    assert_int_equal(coroutine_make(&inner, wait_for_wake, &until, -1), 0);
    assert_int_equal(coroutine_make(&flow, resume_inner, NULL, -1), 0);
    assert_int_equal(coroutine_resume(&flow), 0);
    assert_int_equal(flow.fd, -1);
    assert_int_equal(inner.fd, wake);
    sqlock_wake_set(wake);
    assert_int_equal(coroutine_resume(&flow), 1);
    assert_int_equal(seen, 1);
    coroutine_free(&flow);
    coroutine_free(&inner);
}

TEST_MAIN_EACH(setup, teardown)
