/* A list of names that wait, where answers are slow. These requests go out one by one. How long one
 * of them takes is no matter for the others. */
#define SUITE_NEEDS (QUEUES | LIBRARY_THREADS)

#include "tests/drivers/suite_many.h"
#include "tests/drivers/suite_queue.h"

enum { SLOW_MS = 10, WANTED = 60 };

static sqlock_lock *theirs[CROWD];

static int run_slowly(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                      const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                      sqlock_error *err)
{
    sleep_ms(SLOW_MS);
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

static sqlock *open_slow(struct world *w)
{
    w->driver.run = run_slowly;
    return open_changed(w, 10000);
}

/* A thread that waits for all of the list. If the test fails, it is ended behind it. */
static struct crowd_waiter {
    sqlock *m;
    sqlock_acquire_opts opts;
    pthread_t thread;
    bool runs;
    sqlock_error err;
    int code;
} crowd_waiter;

static void *crowd_main(void *arg)
{
    struct crowd_waiter *c = arg;

    c->code =
        sqlock_acquire_each(c->m, list.names, CROWD, &c->opts, list.locks, list.codes, &c->err);
    return NULL;
}

static void crowd_start(sqlock *m)
{
    struct crowd_waiter *c = &crowd_waiter;

    c->m = m;
    c->opts = quick_opts(SQLOCK_WAIT_FOREVER);
    ok(sqlock_cancel_new(&c->opts.cancel, &said));
    assert_int_equal(pthread_create(&c->thread, NULL, crowd_main, c), 0);
    c->runs = true;
}

static void crowd_end(void)
{
    struct crowd_waiter *c = &crowd_waiter;

    if (!c->runs)
        return;
    sqlock_cancel_fire(c->opts.cancel);
    pthread_join(c->thread, NULL);
    sqlock_cancel_free(c->opts.cancel);
    c->runs = false;
}

static void end_theirs(void)
{
    crowd_end();
    for (int i = 0; i < CROWD; i++) {
        sqlock_lock_free(theirs[i]);
        theirs[i] = NULL;
    }
}

static void begin_slow(struct world *w)
{
    begin_list(w);
    memset(&crowd_waiter, 0, sizeof crowd_waiter);
    at_end(w, end_theirs);
}

static void take_all(sqlock *m)
{
    sqlock_acquire_opts o = quick_opts(10000);

    ok(sqlock_acquire_each(m, list.names, CROWD, &o, theirs, NULL, &said));
}

static void give_all(void)
{
    ok(sqlock_end_each(theirs, CROWD, NULL, &said));
}

/* On a busy machine the end of the wait may meet the request that is under way: it is not known
 * what became of that one. */
static void assert_none_but_one_unsure(void)
{
    int unsure = 0, code;

    for (size_t i = 0; i < CROWD; i++) {
        if (list.locks[i] == NULL)
            continue;
        assert_int_equal(list.codes[i], SQLOCK_EUNSURE);
        unsure++;
    }
    assert_true(unsure <= 1);
    if (unsure == 1 && (code = end_all(CROWD)) != SQLOCK_OK)
        assert_code(SQLOCK_EUNSURE, code, &said);
}

/* There is no time for a place in each queue. */
TEST_AFTER(begin_slow, test_P8_list_ends_in_time_where_each_name_needs_a_request_of_its_own, other)
{
    sqlock *m = open_slow(w);
    sqlock_acquire_opts o = quick_opts(500);

    take_all(other);
    assert_takes(400, 500 + patience_ms(500),
                 says(SQLOCK_EBUSY, sqlock_acquire_each(m, list.names, CROWD, &o, list.locks,
                                                        list.codes, &said)));
    for (size_t i = 0; i < CROWD; i++)
        assert_true(list.codes[i] == SQLOCK_EBUSY || list.codes[i] == SQLOCK_EUNSURE);
    assert_none_but_one_unsure();
    give_all();
}

/* Such requests go out one by one, so there is no time to try for each name. */
TEST_AFTER(begin_slow, test_P8_list_of_shared_names_ends_in_time, other)
{
    sqlock *m = open_slow(w);
    sqlock_acquire_opts o = quick_opts(500);
    int rc = 0;

    o.mode = SQLOCK_SHARED;
    take_all(other);
    assert_takes(400, 500 + patience_ms(500),
                 rc = sqlock_acquire_each(m, list.names, CROWD, &o, list.locks, list.codes, &said));
    assert_code(SQLOCK_EBUSY, rc, &said);
    assert_int_equal(list.codes[0], SQLOCK_EBUSY);
    assert_int_equal(list.codes[CROWD - 1], SQLOCK_ETIMEOUT);
    assert_none_but_one_unsure();
    give_all();
}

/* It is offered one lock, and has not come to the queues of all others yet. */
TEST_WITH(CALLS, begin_slow, test_P21_list_takes_up_an_offer_before_it_waits_for_other_names, other)
{
    static struct waiter next;
    int code;

    next = (struct waiter){.m = open_manager(w, NULL), .name = list.names[0]};
    next.opts = wait_opts(patience_ms(20000), 0, 0);
    take_all(other);
    crowd_start(open_slow(w));
    assert_soon(n_waiting_for(other, list.names[0]) == 1, patience_ms(10000));
    wait_start(&next);
    assert_soon(n_waiting_for(other, list.names[0]) == 2, patience_ms(10000));
    ok(sqlock_release(theirs[0], &said));
    sleep_ms(OFFER_MS + 300);
    assert_int_equal(atomic_load(&next.ended), 0);
    crowd_end();
    assert_code(SQLOCK_ECANCELLED, crowd_waiter.code, &crowd_waiter.err);
    assert_int_equal(list.codes[0], SQLOCK_OK);
    code = end_all(CROWD);
    if (code != SQLOCK_OK) /* the cancel has met a request, and it is not known what became of it */
        assert_code(SQLOCK_EUNSURE, code, &said);
    assert_int_equal(list.codes[0], SQLOCK_OK);
    served(&next);
    give(keep(next.lock));
    give_all();
}

static sqlock_op *requests[WANTED];

static void queue_for_all(sqlock *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);

    for (int i = 0; i < WANTED; i++)
        ok(sqlock_acquire_start(m, list.names[i], &o, &requests[i], &said));
    for (int i = 0; i < WANTED; i++)
        assert_soon(sqlock_op_place(requests[i]) > 0, patience_ms(10000));
}

/* Each one is passed on by requests of its own, which take longer than the limit of one release. */
TEST_AFTER(begin_slow, test_P22_list_is_given_back_to_those_who_wait_for_each_name, other)
{
    sqlock *m = open_changed(w, (w->driver.run = run_slowly, 1000));
    sqlock_acquire_opts o = quick_opts(patience_ms(10000));

    ok(sqlock_acquire_each(m, list.names, WANTED, &o, list.locks, list.codes, &said));
    queue_for_all(other);
    ok(end_all(WANTED));
    for (int i = 0; i < WANTED; i++)
        ok(sqlock_op_finish(requests[i], &theirs[i], &said));
    ok(sqlock_end_each(theirs, WANTED, NULL, &said));
}
