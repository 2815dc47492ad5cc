/* P21, P22: threads of one manager that wait for the same lock. */
#define SUITE_NEEDS QUEUES
#include <sqlock/async.h>

#include "tests/drivers/suite_queue.h"

enum { PASSES_MOST = 20 }; /* more than follow each other in one manager */

static atomic_int granted;

/* If the test fails, its manager is closed under this thread. */
static void *take_often(void *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    sqlock_lock *lock = NULL;

    for (int i = 0; i < PASSES_MOST && sqlock_acquire(m, "nightly", &o, &lock, NULL) == 0; i++) {
        atomic_fetch_add(&granted, sqlock_release(lock, NULL) == 0);
        sqlock_lock_free(lock);
        lock = NULL;
    }
    sqlock_lock_free(lock);
    return NULL;
}

/* Within a manager the lock goes from thread to thread, but not for ever. */
TEST(test_P21_passes_within_a_manager_are_bounded, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    pthread_t threads[3];
    struct waiter t;

    atomic_store(&granted, 0);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, a), 0);
    sleep_ms(300);
    queue_up(&t, b, 60000);
    give(lock);
    served(&t);
    assert_true(atomic_load(&granted) <= 2 * PASSES_MOST);
    give(t.lock);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&granted), 3 * PASSES_MOST);
}

static long requests(void)
{
    return spy_runs(SQLOCK_STMT_ACQUIRE) + spy_runs(SQLOCK_STMT_QUEUE) + spy_runs(SQLOCK_STMT_PASS);
}

enum { TAKERS = 8 };

/* The release of one is the grant of another: it would be two requests or more for each grant. A
 * place in the queue is for the first one, and for one that has waited for a moment, as all do on a
 * slow machine. */
TEST_IF(PASSES, test_P22_lock_goes_from_thread_to_thread_by_one_request, a)
{
    pthread_t threads[TAKERS];
    sqlock_lock *lock = take(a, "nightly");
    long before = requests();

    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, a), 0);
    sleep_ms(300);
    give(lock);
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_between(TAKERS * PASSES_MOST, requests() - before, TAKERS * PASSES_MOST * 2 - 1);
    assert_true(is_free(a, "nightly"));
}

/* It is granted the lock, or not, and looks. */
TEST_IF(PASSES, test_P22_thread_whose_grant_was_lost_on_the_way_is_served, a, b)
{
    for (int i = 0; i < 3; i++) {
        sqlock_lock *lock = take(b, "nightly");
        struct waiter first, second;
        int64_t released;

        queue_up(&first, a, 60000);
        queue_up_behind(&second, a, 60000, 10);
        give(lock);
        served(&first);
        spy_lose_reply(SQLOCK_STMT_PASS);
        released = now_us();
        give(first.lock);
        served(&second);
        assert_between(0, second.ended_us - released, 500000);
        give(second.lock);
    }
}

static int run_pass_late(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                         const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                         sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    if (stmt == SQLOCK_STMT_PASS)
        sleep_ms(100);
    return rc;
}

/* It looks, finds its grant, and keeps it when the answer comes at last. */
TEST_IF(PASSES, test_P1_thread_that_knows_of_its_grant_before_the_answer_keeps_it, b)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *a = NULL;

    w->driver.run = run_pass_late;
    o.connections = 4; /* the look has one of its own */
    place_opts(w, &o);
    ok(open_by(&w->driver, w->place.url, &o, &a, &said));
    w->managers[w->n_managers++] = a;
    for (int i = 0; i < 3; i++) {
        sqlock_lock *lock = take(b, "nightly");
        struct waiter first, second;

        queue_up(&first, a, 60000);
        queue_up_behind(&second, a, 60000, 10);
        give(lock);
        served(&first);
        give(first.lock);
        served(&second);
        sleep_ms(200);
        ok(sqlock_renew(second.lock, &said));
        give(second.lock);
    }
}

/* The second one has a place of its own, before that of the third one. */
TEST(test_P21_thread_behind_another_has_a_place, a, b)
{
    sqlock *c = open_manager(w, NULL);
    sqlock_lock *lock = take(b, "nightly");
    struct waiter first, second, third;

    queue_up(&first, a, 900);
    queue_up_behind(&second, a, patience_ms(8000), 300);
    pthread_join(first.thread, NULL);
    says(SQLOCK_EBUSY, first.code);
    queue_up(&third, c, 60000);
    give(lock);
    served(&second);
    assert_int_equal(atomic_load(&third.ended), 0);
    give(second.lock);
    served(&third);
    give(third.lock);
}

/* It tells its place too, and leaves nothing. */
TEST(test_P8_thread_that_gives_up_behind_another, a, b)
{
    sqlock_lock *lock = take(b, "nightly");
    struct waiter first, second;

    queue_up(&first, a, 60000);
    for (int i = 0; i < 3; i++) { /* a busy machine may answer too late */
        queue_up_behind(&second, a, 300, 0);
        pthread_join(second.thread, NULL);
        if (second.code != SQLOCK_EUNSURE)
            break;
        drop(keep(second.lock));
    }
    says(SQLOCK_EBUSY, second.code);
    assert_non_null(strstr(second.err.text, "place 2 in the queue"));
    give(lock);
    served(&first);
    give(first.lock);
    assert_true(is_free(a, "nightly"));
}

/* How many of those that wait for a short time did not end as busy. On a busy machine the last
 * request of one may have no answer. */
static int short_waits_that_fail(sqlock *m)
{
    enum { MANY = 40, SHORT_MS = 100 };
    sqlock_acquire_opts o = wait_opts(SHORT_MS, 0, 0);
    sqlock_lock *none = NULL;
    sqlock_op *ops[MANY];
    int failed = 0;

    for (int i = 0; i < MANY; i++)
        ok(sqlock_acquire_start(m, "nightly", &o, &ops[i], &said));
    for (int i = 0; i < MANY; i++) {
        int code = sqlock_op_finish(ops[i], &none, &said);

        failed += code != SQLOCK_EBUSY && code != SQLOCK_EUNSURE;
        drop(none);
        none = NULL;
    }
    return failed;
}

/* They wait behind another one of their manager, and have no time for a request of their own. If
 * the machine is so busy that the database has not answered lately, they cannot know that it would:
 * so they are tried again. */
TEST(test_P18_short_waits_behind_others_of_the_program_end_as_busy, m, other)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    sqlock_lock *lock = take(other, "nightly");
    sqlock_op *first;
    int tries = 1;

    ok(sqlock_acquire_start(m, "nightly", &o, &first, &said));
    assert_soon(sqlock_op_place(first) > 0, patience_ms(5000));
    while (short_waits_that_fail(m) > 0)
        assert_in_range(tries++, 1, 3);
    give(lock);
    ok(sqlock_op_finish(first, &lock, &said));
    give(keep(lock));
}
