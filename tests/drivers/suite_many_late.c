/* A list of names, some of which are granted long before the others. */
#include <sqlock/admin.h>

#include "tests/drivers/suite_many.h"

static void *hang_later(void *none)
{
    sleep_ms(300);
    spy_hold_back(SQLOCK_STMT_COUNT, INT32_MAX);
    return none;
}

/* P8: all names but one are granted, and then nothing is answered any more. When the wait is over,
 * more than a second is left of their leases, which can neither be made longer nor given back. That
 * takes the time of one request for each of the two, and not for each name. */
TEST_WITH(LIBRARY_THREADS, begin_list, test_P8_list_ends_in_time_where_the_database_hangs, other)
{
    sqlock *m = open_with(w, with.request_ms = 200);
    sqlock_acquire_opts o = wait_opts(2500, 4000, SQLOCK_NO_RENEW);
    sqlock_lock *lock = take(other, list.names[2]);
    pthread_t thread;

    give(take(m, list.names[0])); /* or the first connection is a part of it */
    assert_int_equal(pthread_create(&thread, NULL, hang_later, NULL), 0);
    assert_takes(
        2400, 2500 + 2 * 200 + patience_ms(400),
        assert_true(sqlock_acquire_each(m, list.names, NAMES, &o, list.locks, list.codes, &said)));
    pthread_join(thread, NULL);
    spy_arrive(0);
    for (size_t i = 0; i < NAMES; i++)
        assert_true(list.locks[i] == NULL || list.codes[i] == SQLOCK_EUNSURE);
    if (list.locks[2] != NULL)
        drop(list.locks[2]);
    list.locks[2] = NULL;
    give(lock);
}

/* Breaks the lock whose name comes first, and then gives its own back, for which the list waits. */
struct breaker {
    sqlock *m;
    sqlock_lock *lock;
};

static void *break_and_give_later(void *arg)
{
    struct breaker *b = arg;
    sqlock_info info = {.size = sizeof info};
    sqlock_error err;
    int rc;

    sleep_ms(300);
    if ((rc = sqlock_find(b->m, list.names[0], &info, &err)) == 0)
        rc = sqlock_break(b->m, list.names[0], info.holder.token, &err);
    sleep_ms(300);
    return sqlock_release(b->lock, &err) == 0 && rc == 0 ? arg : NULL;
}

/* One that was granted early, and lost while the call waited for another one, is not handed out.
 * The error is that of the first name which is not held. */
TEST_AFTER(begin_list, test_list_hands_out_nothing_that_was_broken_meanwhile, m, other)
{
    sqlock_acquire_opts o = wait_opts(10000, 900, 0);
    struct breaker b = {.m = other, .lock = take(other, list.names[1])};
    sqlock_lock *stays = take(other, list.names[2]);
    void *done = NULL;
    pthread_t thread;

    o.wait_ms = patience_ms(1500);
    assert_int_equal(pthread_create(&thread, NULL, break_and_give_later, &b), 0);
    says(SQLOCK_ELOST, sqlock_acquire_each(m, list.names, 3, &o, list.locks, list.codes, &said));
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_non_null(strstr(said.text, list.names[0]));
    assert_null(list.locks[0]);
    assert_int_equal(list.codes[1], SQLOCK_OK);
    assert_int_equal(list.codes[2], SQLOCK_EBUSY);
    ok(sqlock_end_each(list.locks, 3, NULL, &said));
    drop(b.lock);
    give(stays);
}
