/* P19: any number of threads share a manager; it starts two of its own, and disturbs nobody. */
#include "tests/drivers/suite.h"

#include <sqlock/retry.h>

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int threads(void)
{
    return entries("/proc/self/task");
}

/* ---- what it costs the process --------------------------------------------------------------- */

CORE_TEST(test_manager_starts_two_threads_at_the_most)
{
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);
    int before = threads();
    sqlock *m[3];
    sqlock_lock *locks[3];

    o.renew_ms = 100;
    for (int i = 0; i < 3; i++) {
        m[i] = open_manager(w, NULL);
        locks[i] = take_with(m[i], (const char *[]){"a", "b", "c"}[i], &o);
    }
    while (spy_runs(SQLOCK_STMT_RENEW) < 15) { /* of all three */
        assert_between(before, threads(), before + 6);
        sleep_ms(10);
    }
    for (int i = 0; i < 3; i++) {
        give(locks[i]);
        close_manager(w, m[i]);
    }
    assert_soon(threads() == before, patience_ms(2000)); /* the kernel's list lags a little */
}

enum { WAITING = 32 };

/* It has one if somebody asks for it, also behind its end. */
CORE_TEST(test_request_of_an_event_loop_that_waits_takes_no_descriptor, a, b)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_op *ops[WAITING];
    int before, fd;

    give(take(b, "other"));
    before = entries("/proc/self/fd");
    for (int i = 0; i < WAITING; i++)
        ok(sqlock_acquire_start(b, "nightly", &o, &ops[i], &said));
    sleep_ms(200);
    assert_between(0, entries("/proc/self/fd"), before + WAITING / 2); /* connections */
    fd = sqlock_op_fd(ops[0]);
    assert_false(readable_within(fd, 0));
    for (int i = 0; i < WAITING; i++)
        sqlock_op_cancel(ops[i]);
    assert_true(readable_within(fd, patience_ms(5000)));
    assert_int_equal(sqlock_op_fd(ops[0]), fd);
    assert_soon(sqlock_op_step(ops[1]), patience_ms(5000));
    assert_true(readable_within(sqlock_op_fd(ops[1]), 0));
    for (int i = 0; i < WAITING; i++) {
        assert_true(sqlock_op_finish(ops[i], &none, &said) != 0);
        drop(none);
        none = NULL;
    }
    give(lock);
}

TEST(test_nothing_is_left_open_after_close)
{
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);
    int before = entries("/proc/self/fd");

    o.renew_ms = 50;
    for (int i = 0; i < 5; i++) {
        sqlock *m = open_manager(w, NULL);
        long renewals = spy_runs(SQLOCK_STMT_RENEW);
        sqlock_lock *lock = take_with(m, "nightly", &o);

        assert_between(0, sqlock_lock_fd(lock, NULL), INT32_MAX);
        assert_soon(spy_runs(SQLOCK_STMT_RENEW) > renewals, patience_ms(5000));
        give(lock);
        close_manager(w, m);
    }
    assert_int_equal(entries("/proc/self/fd"), before);
}

/* ---- signals --------------------------------------------------------------------------------- */

static atomic_int signals_seen;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

/* Signals for the process go to any thread that does not block them: while this one does, nobody is
 * left to run the handler. */
TEST_IF(CORE_TRIED | LIBRARY_THREADS, test_handlers_of_the_application_never_run_on_our_threads, m)
{
    struct sigaction handler = {.sa_handler = on_signal}, before;
    int32_t lease_ms = patience_ms(1000);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);
    sigset_t usr1, mask;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    atomic_store(&signals_seen, 0);
    assert_int_equal(sigaction(SIGUSR1, &handler, &before), 0);
    pthread_sigmask(SIG_BLOCK, &usr1, &mask);
    for (int i = 0; i < 200; i++) {
        kill(getpid(), SIGUSR1);
        sleep_ms(2);
    }
    int on_others = atomic_load(&signals_seen);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    int on_this = atomic_load(&signals_seen) - on_others;
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(on_others, 0);
    assert_between(1, on_this, 1); /* they are not counted while they are pending */
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* A handler that interrupts system calls, every two milliseconds, in the thread that calls us. */
TEST(test_signals_do_not_cut_calls_short, a, b)
{
    struct sigaction handler = {.sa_handler = on_signal}, before;
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    sqlock_acquire_opts o = wait_opts(300, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    int64_t begun, waited;
    int rc, cycles = 0;

    atomic_store(&signals_seen, 0);
    assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
    setitimer(ITIMER_REAL, &often, NULL);
    begun = now_us();
    rc = sqlock_acquire(b, "nightly", &o, &none, &said);
    waited = now_us() - begun;
    while ((cycles < 20 || atomic_load(&signals_seen) < 50) && try_once(b, "other") == SQLOCK_OK)
        cycles++;
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_between(50, atomic_load(&signals_seen), INT64_MAX);
    says(SQLOCK_EBUSY, rc);
    assert_between(290000, waited, (300 + late_ms(100)) * INT64_C(1000));
    assert_between(20, cycles, INT64_MAX);
    give(lock);
}

/* ---- pthread_cancel() ------------------------------------------------------------------------ */

/* It waits for what another one holds, and has locks of its own, until it is cancelled. */
static void *busy_main(void *arg)
{
    sqlock_acquire_opts o = wait_opts(5, 0, 0);
    sqlock *m = arg;

    for (;;) {
        sqlock_lock *lock = NULL, *none = NULL;

        if (sqlock_acquire(m, "nightly", &o, &none, &said) == SQLOCK_EUNSURE)
            drop(none);
        if (sqlock_acquire(m, "own", NULL, &lock, &said) == 0) {
            int rc = sqlock_renew(lock, &said);

            sqlock_lock_fd(lock, &said);
            if (rc == 0)
                rc = sqlock_release(lock, &said);
            (void)rc;
        }
        drop(lock);
        pthread_testcancel();
    }
    return NULL;
}

/* Wherever it was: others go on. (If not, this hangs.) */
TEST(test_thread_that_is_cancelled_leaves_the_manager_whole, a, m)
{
    sqlock_lock *held = take(a, "nightly");

    for (int i = 0; i < 30; i++) {
        void *result = NULL;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, busy_main, m), 0);
        sleep_ms(i % 10);
        pthread_cancel(thread);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_true(is_free(m, "own"));
    }
    give(held);
}

static int work_until_cancelled(sqlock_lock *lock, void *user)
{
    atomic_store((atomic_int *)user, sqlock_is_held(lock));
    for (;;) {
        int before;

        /* ThreadSanitizer does not see the mutexes of a thread that was cancelled in its sleep. */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        sleep_ms(1);
        pthread_setcancelstate(before, NULL);
        pthread_testcancel();
    }
    return 0;
}

struct worker {
    sqlock *m;
    atomic_int held;
};

static void *work_main(void *arg)
{
    struct worker *t = arg;

    return sqlock_with(t->m, "nightly", NULL, work_until_cancelled, &t->held, NULL, NULL) == 0
               ? NULL
               : t;
}

static int attempt_until_cancelled(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    (void)err;
    return work_until_cancelled(attempt->lock, user);
}

static void *attempt_main(void *arg)
{
    sqlock_retry_opts o = SQLOCK_RETRY_OPTS_INIT;
    struct worker *t = arg;

    o.optimistic = 0;
    o.lock_name = "nightly";
    return sqlock_retry(t->m, attempt_until_cancelled, &t->held, &o, NULL) == 0 ? NULL : t;
}

CORE_TEST(test_work_that_is_cancelled_gives_the_lock_back, a)
{
    void *(*const mains[])(void *) = {work_main, attempt_main};

    for (int i = 0; i < 2; i++) {
        struct worker t = {.m = open_manager(w, NULL)};
        void *result = NULL;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, mains[i], &t), 0);
        assert_soon(atomic_load(&t.held), patience_ms(5000));
        assert_int_equal(try_once(a, "nightly"), SQLOCK_EBUSY);
        pthread_cancel(thread);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_true(is_free(a, "nightly"));
    }
}
