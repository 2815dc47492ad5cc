/* A list of names, taken by one thread in front of a busy connection: in the batches of others, and
 * with a batch of its own. */
#define SUITE_NEEDS BATCHES
#include "tests/drivers/fake_batch.h"

#include <sqlock/many.h>

enum { NAMES = 5 };

/* The thread that takes the list. */
static struct taker {
    pthread_t thread;
    const char *names[NAMES];
    sqlock_acquire_opts opts;
    sqlock_lock *locks[NAMES];
    int codes[NAMES];
    sqlock_lock *old; /* to be swapped for the first name; NULL: all are taken */
    int code, released;
    sqlock_error err;
    int64_t ended;
    bool runs;
} taker;

static void end_taker(void)
{
    if (taker.runs)
        pthread_join(taker.thread, NULL);
    taker.runs = false;
}

static void free_taken(void)
{
    atomic_store(&gate.shut, 0);
    end_taker();
    for (int i = 0; i < NAMES; i++)
        sqlock_lock_free(taker.locks[i]);
    sqlock_cancel_free(taker.opts.cancel);
}

static void begin_taker(struct world *w)
{
    static const char *const names[NAMES] = {"x3", "x1", "x5", "x2", "x4"};

    begin_crowd(w);
    memset(&taker, 0, sizeof taker);
    taker.opts = wait_opts(0, TIME_MS, SQLOCK_NO_RENEW);
    memcpy(taker.names, names, sizeof names);
    ok(sqlock_cancel_new(&taker.opts.cancel, &said));
    at_end(w, free_taken);
}

static void *taker_main(void *arg)
{
    struct taker *t = arg;

    if (t->old != NULL) {
        t->locks[0] = t->old;
        t->code = sqlock_swap(crowd.m, &t->locks[0], t->names[0], &t->opts, &t->released, &t->err);
    } else {
        t->code =
            sqlock_acquire_each(crowd.m, t->names, NAMES, &t->opts, t->locks, t->codes, &t->err);
    }
    t->ended = now_us();
    return NULL;
}

static void start_taker(void)
{
    assert_int_equal(pthread_create(&taker.thread, NULL, taker_main, &taker), 0);
    taker.runs = true;
}

/* The others wait for the connection, and the list behind them. */
static void gather_with_list(void)
{
    gather();
    start_taker();
    assert_soon(n_waiting(crowd.m) == MEMBERS + 1, patience_ms(3000));
}

static void assert_all_taken(void)
{
    assert_code(SQLOCK_OK, taker.code, &taker.err);
    for (int i = 0; i < NAMES; i++) {
        assert_state(SQLOCK_HELD, taker.locks[i]);
        assert_string_equal(sqlock_lock_name(taker.locks[i]), taker.names[i]);
    }
}

/* Nobody knows, or the request was not sent. Whatever was granted is given back by the handles. */
static void assert_none_taken(void)
{
    int codes[NAMES];

    assert_true(taker.code == SQLOCK_EUNSURE || taker.code == SQLOCK_ECANCELLED);
    for (int i = 0; i < NAMES; i++)
        assert_true(taker.locks[i] == NULL || taker.codes[i] == SQLOCK_EUNSURE);
    ok(sqlock_end_each(taker.locks, NAMES, codes, &said));
    for (int i = 0; i < NAMES; i++)
        assert_true(is_free(crowd.m, taker.names[i]));
}

static void await_batch(long runs)
{
    atomic_store(&gate.shut, 0);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == runs, patience_ms(3000));
}

TEST_AFTER(begin_taker, test_P25_list_goes_along_with_what_others_want)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    gather_with_list();
    let_through();
    end_taker();
    check_others_granted(-1);
    assert_all_taken();
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
    assert_int_equal(atomic_load(&gate.unsorted), 0);
}

/* Somebody who waits for the answer leads then. The list's thread waits for one of its names only,
 * and must not be asked to wait by another one. */
TEST_AFTER(begin_taker, test_P25_list_gets_its_answers_when_the_leader_leaves)
{
    struct caller *first = &crowd.callers[0];
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);
    int64_t begun;

    ok(sqlock_cancel_new(&first->opts.cancel, &said));
    taker.opts.wait_ms = 2 * TIME_MS; /* so all its names may wait for the answer equally long */
    atomic_store(&gate.hang_ms, 1000);
    gather_with_list();
    begun = now_us();
    await_batch(runs + 2);
    sqlock_cancel_fire(first->opts.cancel);
    let_through();
    end_taker();
    assert_between(0, taker.ended - begun, patience_ms(4000) * INT64_C(1000));
    sqlock_cancel_free(first->opts.cancel);
    assert_code(SQLOCK_EUNSURE, first->code, &first->err);
    check_others_granted(0);
    assert_all_taken();
}

TEST_AFTER(begin_taker, test_P8_list_that_is_cancelled_in_the_batch_of_others_leaves_them_alone)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE), opens = spy_opens();
    int64_t fired;

    atomic_store(&gate.hang_ms, 1000);
    gather_with_list();
    await_batch(runs + 2);
    fired = now_us();
    sqlock_cancel_fire(taker.opts.cancel);
    end_taker();
    assert_between(0, taker.ended - fired, late_ms(50) * INT64_C(1000));
    let_through();
    check_others_granted(-1);
    assert_int_equal(spy_opens(), opens);
    assert_none_taken();
}

TEST_AFTER(begin_taker, test_P8_list_that_is_cancelled_in_its_own_batch_ends_at_once)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);
    int64_t fired;

    atomic_store(&gate.hang_ms, 2000);
    start_taker();
    await_batch(runs + 1);
    fired = now_us();
    sqlock_cancel_fire(taker.opts.cancel);
    end_taker();
    assert_between(0, taker.ended - fired, late_ms(200) * INT64_C(1000));
    assert_none_taken();
}

TEST_AFTER(begin_taker, test_P1_name_of_a_list_that_another_thread_wants_too_has_one_holder)
{
    struct caller *rival = &crowd.callers[3];

    taker.names[2] = rival->name;
    gather_with_list();
    let_through();
    end_taker();
    check_others_granted(3);
    assert_int_equal((rival->code == SQLOCK_OK) + (taker.codes[2] == SQLOCK_OK), 1);
    assert_int_equal((rival->code == SQLOCK_EBUSY) + (taker.codes[2] == SQLOCK_EBUSY), 1);
    for (int i = 0; i < NAMES; i++)
        assert_true(i == 2 || taker.codes[i] == SQLOCK_OK);
}

TEST_AFTER(begin_taker, test_P25_name_of_a_list_that_fails_fails_alone)
{
    snprintf(gate.poison, sizeof gate.poison, "x1");
    start_taker();
    end_taker();
    assert_code(SQLOCK_EDB, taker.code, &taker.err);
    for (int i = 0; i < NAMES; i++)
        assert_int_equal(taker.codes[i], i == 1 ? SQLOCK_EDB : SQLOCK_OK);
}

/* The batch has a release that nobody cancelled. */
TEST_AFTER(begin_taker, test_P5_swap_that_is_cancelled_has_released_all_the_same)
{
    int64_t begun = now_us();

    taker.old = forget(take(crowd.m, "old"));
    atomic_store(&gate.shut, 1);
    atomic_store(&gate.entered, 0);
    start_taker();
    assert_soon(atomic_load(&gate.entered) > 0, patience_ms(3000));
    sqlock_cancel_fire(taker.opts.cancel);
    sleep_ms(100);
    atomic_store(&gate.shut, 0);
    end_taker();
    assert_between(0, taker.ended - begun, patience_ms(3000) * INT64_C(1000));
    assert_int_equal(taker.released, SQLOCK_OK);
    assert_true(is_free(crowd.m, "old"));
    taker.codes[0] = taker.code;
    assert_none_taken();
}

/* ---- all or none on a slow server ------------------------------------------------------------ */

static sqlock_lock *on_way;

static void *give_on_way(void *arg)
{
    sleep_ms(300);
    return sqlock_release(on_way, &taker.err) == 0 ? arg : NULL;
}

/* While it holds a name, its short wait for the others has time for an answer. */
TEST(test_P8_all_or_none_goes_on_where_answers_are_slow, a, b)
{
    static const char *const names[] = {"a", "b", "c"};
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), 10000, 0);
    sqlock_lock *locks[3];
    pthread_t thread;

    on_way = take(b, "b");
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, ALWAYS, 150);
    assert_int_equal(pthread_create(&thread, NULL, give_on_way, NULL), 0);
    ok(sqlock_acquire_all(a, names, 3, &o, locks, &said));
    pthread_join(thread, NULL);
    ok(sqlock_end_each(locks, 3, NULL, &said));
    sqlock_lock_free(forget(on_way));
}

/* A try of all may take as long as a try of one. */
TEST(test_P8_all_or_none_without_a_wait_has_time_for_slow_answers, a)
{
    static const char *const names[] = {"a", "b"};
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);
    sqlock_lock *locks[2];

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, ALWAYS, 150);
    ok(sqlock_acquire_all(a, names, 2, &o, locks, &said));
    ok(sqlock_end_each(locks, 2, NULL, &said));
}

/* Nothing is left: so it is no EUNSURE. */
TEST(test_P8_all_or_none_ends_in_time_where_no_answer_comes, a)
{
    static const char *const names[] = {"a", "b"};
    sqlock_acquire_opts o = wait_opts(100, 10000, 0);
    sqlock_lock *locks[2];

    give(take(a, "a"));
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, ALWAYS, 1500);
    assert_takes(0, 150 + patience_ms(300),
                 says(SQLOCK_ETIMEOUT, sqlock_acquire_all(a, names, 2, &o, locks, &said)));
    assert_true(locks[0] == NULL && locks[1] == NULL);
}

TEST_MAIN_ON(fake)
