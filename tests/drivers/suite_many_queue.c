/* A list of names waits in the queue of one of them, and takes its offer up together with the rest.
 */
#define SUITE_NEEDS QUEUES
#include <sqlock/many.h>
#include <sqlock/mode.h>

#include "tests/drivers/suite_queue.h"
#include "tests/drivers/suite_seats.h"

enum { BOTH = 2, LONG_MS = 60000 };

/* A thread that wants both names, or none. If the test fails, it is ended behind it. */
static struct pair {
    sqlock *m;
    const char *names[BOTH];
    sqlock_acquire_opts opts;
    pthread_t thread;
    bool runs;
    int code;
    sqlock_error err;
    sqlock_lock *locks[BOTH];
    atomic_int ended;
} pairs[2], *const p = &pairs[0], *const q = &pairs[1];

static void end_pairs(void)
{
    for (int i = 0; i < 2; i++) {
        if (pairs[i].runs) {
            sqlock_cancel_fire(pairs[i].opts.cancel);
            pthread_join(pairs[i].thread, NULL);
        }
        for (int k = 0; k < BOTH; k++)
            sqlock_lock_free(pairs[i].locks[k]);
        sqlock_cancel_free(pairs[i].opts.cancel);
    }
}

static void begin_pairs(struct world *w)
{
    memset(pairs, 0, sizeof pairs);
    for (int i = 0; i < 2; i++) {
        pairs[i].opts = wait_opts(patience_ms(LONG_MS), 0, 0);
        ok(sqlock_cancel_new(&pairs[i].opts.cancel, &said));
    }
    at_end(w, end_pairs);
}

static void *pair_main(void *arg)
{
    struct pair *pair = arg;

    pair->code =
        sqlock_acquire_all(pair->m, pair->names, BOTH, &pair->opts, pair->locks, &pair->err);
    atomic_store(&pair->ended, 1);
    return NULL;
}

static void make_rows_of(sqlock *m)
{
    give(take(m, "left"));
    give(take(m, "right"));
}

static void pair_start(struct pair *pair, sqlock *m, const char *first, const char *second)
{
    pair->m = m;
    pair->names[0] = first;
    pair->names[1] = second;
    atomic_store(&pair->ended, 0);
    assert_int_equal(pthread_create(&pair->thread, NULL, pair_main, pair), 0);
    pair->runs = true;
}

/* It waits for this one of the names, as an observer sees. */
static void pair_queues(struct pair *pair, sqlock *m, sqlock *observer, const char *name)
{
    int before = n_waiting_for(observer, name);

    pair_start(pair, m, "left", "right");
    assert_soon(n_waiting_for(observer, name) == before + 1, patience_ms(5000));
    sleep_ms(100);
}

static void pair_ends(struct pair *pair, int code)
{
    pthread_join(pair->thread, NULL);
    pair->runs = false;
    assert_code(code, pair->code, &pair->err);
    for (int i = 0; i < BOTH; i++)
        if (code != 0)
            assert_null(pair->locks[i]);
        else
            assert_state(SQLOCK_HELD, pair->locks[i]);
}

static void pair_gives(struct pair *pair)
{
    ok(sqlock_end_each(pair->locks, BOTH, NULL, &said));
}

static long n_grants_sent(void)
{
    return spy_runs(SQLOCK_STMT_ACQUIRE) + spy_runs(SQLOCK_STMT_QUEUE);
}

/* ---- an offer -------------------------------------------------------------------------------- */

static void assert_one_statement(sqlock *m, sqlock *other, const char *held)
{
    long sent, requests;
    sqlock_lock *lock;

    make_rows_of(m);
    lock = take(other, held);
    pair_queues(p, m, other, held);
    sent = n_grants_sent();
    requests = spy_requests(SQLOCK_STMT_ACQUIRE);
    give(lock);
    pair_ends(p, SQLOCK_OK);
    assert_int_equal(n_grants_sent() - sent, 1);
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE) - requests, BOTH);
    pair_gives(p);
    assert_true(is_free(other, "left") && is_free(other, "right"));
}

TEST_WITH(BATCHES | LIBRARY_THREADS, begin_pairs,
          test_P25_offer_is_taken_up_by_one_statement_for_all_names, m, other)
{
    assert_one_statement(m, other, "left");
    assert_one_statement(m, other, "right");
}

/* While it waits, the other name is free. */
TEST_AFTER(begin_pairs, test_P22_all_or_none_waits_in_the_queue_and_holds_none, m, other)
{
    sqlock_lock *lock = take(other, "right");

    pair_queues(p, m, other, "right");
    assert_true(is_free(other, "left"));
    assert_int_equal(n_waiting_for(other, "left"), 0);
    give(lock);
    pair_ends(p, SQLOCK_OK);
    pair_gives(p);
}

TEST_AFTER(begin_pairs, test_P21_all_or_none_callers_queue_at_the_first_name_by_key, m, other)
{
    sqlock *third = open_manager(w, NULL);
    sqlock_lock *left = take(other, "left"), *right = take(other, "right");
    struct pair *first;

    pair_start(p, m, "left", "right");
    pair_start(q, third, "right", "left");
    assert_soon(n_waiting_for(other, "left") == 2, patience_ms(5000));
    assert_int_equal(n_waiting_for(other, "right"), 0);
    give(right);
    give(left);
    assert_soon(atomic_load(&p->ended) || atomic_load(&q->ended), patience_ms(5000));
    first = atomic_load(&p->ended) ? p : q;
    pair_ends(first, SQLOCK_OK);
    pair_gives(first);
    pair_ends(first == p ? q : p, SQLOCK_OK);
    pair_gives(first == p ? q : p);
}

/* The second name is still held. So the offer is of no use, and who waits behind has it soon. */
TEST_AFTER(begin_pairs, test_P22_all_or_none_passes_its_offer_on_if_another_name_is_refused, m,
           other)
{
    sqlock_lock *left = take(other, "left"), *right = take(other, "right");
    sqlock *third = open_manager(w, NULL);
    struct waiter t = {.m = third, .name = "left", .opts = wait_opts(LONG_MS, 0, 0)};

    pair_queues(p, m, other, "left");
    wait_start(&t);
    assert_soon(n_waiting_for(other, "left") == 2, patience_ms(5000));
    assert_takes(0, late_ms(OFFER_MS - 200), give(left); served(&t));
    assert_soon(n_waiting_for(other, "right") == 1, patience_ms(5000));
    assert_int_equal(n_waiting_for(other, "left"), 0);
    assert_int_equal(atomic_load(&p->ended), 0);
    give(t.lock);
    give(right);
    pair_ends(p, SQLOCK_OK);
    pair_gives(p);
}

/* The same requests again find the same grants. */
TEST_AFTER(begin_pairs, test_P5_all_or_none_is_held_though_the_reply_to_its_offer_is_lost, m, other)
{
    sqlock_lock *lock;

    make_rows_of(m);
    lock = take(other, "left");
    pair_queues(p, m, other, "left");
    spy_lose_reply(SQLOCK_STMT_ACQUIRE);
    give(lock);
    pair_ends(p, SQLOCK_OK);
    pair_gives(p);
    assert_true(is_free(other, "left") && is_free(other, "right"));
}

/* ---- what is more than an offer ---------------------------------------------------------------
 */

/* One of its manager waits before it for a shared holder to go, and gives up. So it is called, and
 * is granted the turn only. While it waits with that, the other name is not held; and it gives up
 * its turn no more than once. */
TEST_AFTER(begin_pairs, test_P24_all_or_none_waits_for_the_seats_beside_an_offer_and_holds_none, m,
           other)
{
    sqlock_lock *shared = sit(other, "left", SQLOCK_SHARED), *none = NULL;
    sqlock_acquire_opts o = wait_opts(LONG_MS, 0, 0);
    sqlock_op *op = NULL;
    long left;

    ok(sqlock_acquire_start(m, "left", &o, &op, &said));
    sleep_ms(200); /* it has the turn */
    pair_queues(p, m, other, "left");
    left = spy_runs(SQLOCK_STMT_LEAVE);
    sqlock_op_cancel(op);
    assert_int_not_equal(sqlock_op_finish(op, &none, &said), 0);
    sqlock_lock_free(none);
    sleep_ms(200);
    assert_soon(is_free(other, "right"), patience_ms(2000)); /* it has given it back by then */
    for (int i = 0; i < 5; i++) {
        assert_true(is_free(other, "right"));
        sleep_ms(50);
    }
    assert_between(1, spy_runs(SQLOCK_STMT_LEAVE) - left, 2);
    assert_int_equal(try_mode(other, "left", SQLOCK_SHARED), SQLOCK_EBUSY);
    give(shared);
    pair_ends(p, SQLOCK_OK);
    pair_gives(p);
}

/* ---- how it ends ----------------------------------------------------------------------------- */

TEST_AFTER(begin_pairs,
           test_P8_all_or_none_that_is_cancelled_in_the_queue_sends_nothing_for_the_rest, m, other)
{
    sqlock_lock *lock = take(other, "right");
    long sent;

    pair_queues(p, m, other, "right");
    sent = n_grants_sent();
    assert_takes(0, late_ms(300), sqlock_cancel_fire(p->opts.cancel);
                 pair_ends(p, SQLOCK_ECANCELLED));
    assert_non_null(strstr(p->err.text, "right"));
    assert_int_equal(n_grants_sent(), sent);
    assert_soon(n_waiting_for(other, "right") == 0, patience_ms(5000));
    give(lock);
    assert_true(is_free(other, "left") && is_free(other, "right"));
}

static int run_release_then_cancel(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                                   const sqlock_value *values, size_t n, int64_t deadline,
                                   sqlock_rows *rows, sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    if (stmt == SQLOCK_STMT_RELEASE)
        sqlock_cancel_fire(p->opts.cancel);
    return rc;
}

/* The first try has given back what it was granted, and the wait has not begun. */
TEST_AFTER(begin_pairs, test_P8_all_or_none_that_is_cancelled_before_it_waits_ends, other)
{
    sqlock_lock *lock = take(other, "right");
    sqlock *m;

    w->driver.run = run_release_then_cancel;
    m = open_changed(w, 10000);
    assert_takes(0, late_ms(1000), pair_start(p, m, "left", "right");
                 pair_ends(p, SQLOCK_ECANCELLED));
    give(lock);
    assert_true(is_free(other, "left") && is_free(other, "right"));
}

TEST_AFTER(begin_pairs, test_P8_all_or_none_ends_in_time_in_the_queue, m, other)
{
    sqlock_lock *lock = take(other, "right");

    p->opts.wait_ms = 500;
    assert_takes(400, 500 + patience_ms(300), pair_start(p, m, "left", "right");
                 pair_ends(p, SQLOCK_EBUSY));
    assert_non_null(strstr(p->err.text, "right"));
    assert_true(is_free(other, "left"));
    give(lock);
}

TEST_AFTER(begin_pairs, test_all_or_none_ends_in_the_queue_when_its_manager_is_closed, other)
{
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take(other, "right");

    pair_queues(p, m, other, "right");
    close_manager(w, m);
    pair_ends(p, SQLOCK_ECANCELLED);
    give(lock);
    assert_true(is_free(other, "left"));
}

/* ---- many that want the same ------------------------------------------------------------------
 */

enum { CALLERS = 16, NAMES = 3, ROUNDS = 50 };

static struct caller {
    sqlock *m;
    pthread_t thread;
    int first, code;
    sqlock_error err;
} callers[CALLERS];

static void *caller_main(void *arg)
{
    static const char *const all[] = {"left", "middle", "right"};
    struct caller *c = arg;
    sqlock_acquire_opts opts = wait_opts(patience_ms(10000), 0, 0);

    for (int round = 0; round < ROUNDS && c->code == 0; round++) {
        const char *names[NAMES];
        sqlock_lock *locks[NAMES];

        for (int i = 0; i < NAMES; i++)
            names[i] = all[(c->first + round + i) % NAMES];
        c->code = sqlock_acquire_all(c->m, names, NAMES, &opts, locks, &c->err);
        if (c->code == 0) {
            sleep_ms(1);
            c->code = sqlock_end_each(locks, NAMES, NULL, &c->err);
        }
    }
    return NULL;
}

/* Each holds what another one wants, again and again, if no one of them gives way. */
TEST(test_P8_all_or_none_callers_of_the_same_names_get_them_in_turn, m)
{
    memset(callers, 0, sizeof callers);
    for (int i = 0; i < CALLERS; i++) {
        callers[i].m = m;
        callers[i].first = i;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < CALLERS; i++)
        assert_ok(callers[i].code, &callers[i].err);
    assert_true(is_free(m, "left") && is_free(m, "middle") && is_free(m, "right"));
}
